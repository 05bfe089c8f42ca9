package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type consumeCmd struct {
	brokerFlags
	Topic      string  `arg:"" help:"Topic to read."`
	From       string  `default:"beginning" placeholder:"WHERE" help:"Where to begin: 'beginning', 'end', an offset, or a time such as 2026-01-31T12:00:00Z, 2026-01-31 or 15m for so long ago."`
	Partitions []int32 `name:"partition" placeholder:"N" help:"Partition to read, may be given several times; all by default."`
	Follow     bool    `short:"f" help:"Wait for more at the end."`
	Count      int64   `short:"n" default:"-1" placeholder:"N" help:"Stop after so many records."`
	Group      string  `placeholder:"NAME" help:"Read as a member of this consumer group, from its committed offsets, and commit what was shown."`
	Keys       bool    `help:"Show keys."`
	Headers    bool    `help:"Show headers."`
	Offsets    bool    `help:"Show partition and offset."`
	Times      bool    `name:"timestamps" help:"Show timestamps."`
}

// Help is shown below the usage.
func (consumeCmd) Help() string {
	return `Without --follow it reads what is there when it begins, and ends. A line is a record: its value, and before it, between
tabs, what --timestamps, --offsets, --headers and --keys ask for. --json has everything, and loses nothing: what is not text
is in fields that end in Base64.

    godwit consume orders
    godwit consume orders --follow --keys --headers --offsets --timestamps
    godwit consume orders --from 2026-01-31T12:00:00Z --count 10 --json
    godwit consume orders --from end --follow --partition 0 --partition 2
    godwit consume orders --group billing --count 100`
}

// Run implements the command.
func (c *consumeCmd) Run(e *env) error {
	from, err := parseFrom(c.From, time.Now())
	switch {
	case err != nil:
		return err
	case c.Group != "" && (len(c.Partitions) > 0 || c.From != "beginning"):
		return usage("--group reads from the group's offsets: --partition and --from do not go with it")
	case c.Count < -1:
		return usage("--count %d is not a number of records", c.Count)
	}
	out := bufio.NewWriterSize(e.out, 64<<10)
	r := &reader{topic: c.Topic, follow: c.Follow, left: c.Count, emit: func(rec *kgo.Record) error { return c.write(out, rec) }}
	if c.Group != "" {
		err = c.readGroup(e, r, out)
	} else {
		err = c.readAll(e, r, out, from)
	}
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	return err
}

// place is where to begin.
type place struct {
	end    bool
	offset int64     // from the beginning if below 0
	at     time.Time // if not zero
}

func parseFrom(text string, now time.Time) (place, error) {
	switch text {
	case "beginning":
		return place{offset: -1}, nil
	case "end":
		return place{end: true}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return place{offset: n}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return place{at: t}, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return place{at: now.Add(-d)}, nil
	}
	return place{}, usage("--from %q is not 'beginning', 'end', an offset, or a time such as 2026-01-31T12:00:00Z, 2026-01-31 or 15m for so long ago", text)
}

// readAll reads partitions without a group.
func (c *consumeCmd) readAll(e *env, r *reader, out *bufio.Writer, from place) error {
	cl, err := c.connect(e.ctx, kgo.KeepControlRecords(), kgo.FetchMaxWait(quiet/2))
	if err != nil {
		return err
	}
	defer cl.Close()
	r.client = cl
	ctx, cancel := context.WithTimeout(e.ctx, c.Timeout)
	defer cancel()
	if err := c.plan(ctx, r, from); err != nil {
		return err
	}
	offsets := map[int32]kgo.Offset{}
	for p, s := range r.parts {
		if s.next < s.end {
			offsets[p] = kgo.NewOffset().At(s.next)
		}
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: offsets})
	bar := c.progress(e, r)
	defer bar.stop()
	r.after = func([]int32) error {
		bar.show(r)
		if c.Follow {
			return out.Flush()
		}
		return nil
	}
	return r.run(e.ctx)
}

// plan finds the offsets to read.
func (c *consumeCmd) plan(ctx context.Context, r *reader, from place) error {
	adm := kadm.NewClient(r.client)
	topic, err := c.topic(ctx, adm)
	if err != nil {
		return err
	}
	r.id = topic.ID
	ends, err := listed(adm.ListEndOffsets(ctx, c.Topic))
	if err != nil {
		return err
	}
	starts, err := listed(adm.ListStartOffsets(ctx, c.Topic))
	if err != nil {
		return err
	}
	begins := starts
	switch {
	case from.end:
		begins = ends
	case !from.at.IsZero():
		if begins, err = listed(adm.ListOffsetsAfterMilli(ctx, from.at.UnixMilli(), c.Topic)); err != nil {
			return err
		}
	}
	wanted := c.Partitions
	if len(wanted) == 0 {
		wanted = topic.Partitions.Numbers()
	}
	at := map[int32]int64{}
	for _, p := range wanted {
		begin, ok1 := begins.Lookup(c.Topic, p)
		start, ok2 := starts.Lookup(c.Topic, p)
		end, ok3 := ends.Lookup(c.Topic, p)
		if !ok1 || !ok2 || !ok3 {
			return usage("topic %s has no partition %d", c.Topic, p)
		}
		at[p] = begin.Offset
		if from.offset > 0 {
			at[p] = min(max(from.offset, start.Offset), end.Offset)
		}
	}
	r.assign(at, ends)
	return nil
}

// topic finds the topic to read.
func (c *consumeCmd) topic(ctx context.Context, adm *kadm.Client) (kadm.TopicDetail, error) {
	topics, err := adm.ListTopics(ctx, c.Topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return kadm.TopicDetail{}, fmt.Errorf("%s: %w", c.Topic, err)
	}
	return topics[c.Topic], nil
}

// listed joins the two ways in which listing offsets fails.
func listed(l kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err == nil {
		err = l.Error()
	}
	return l, err
}

// readGroup reads the partitions that the group gives to this member.
func (c *consumeCmd) readGroup(e *env, r *reader, out *bufio.Writer) error {
	cl, err := c.connect(e.ctx, kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.Balancers(kgo.RangeBalancer()), // what members in other languages know too
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(), kgo.FetchMaxWait(quiet/2),
		kgo.OnPartitionsAssigned(func(ctx context.Context, cl *kgo.Client, added map[string][]int32) {
			if err := c.assigned(ctx, kadm.NewClient(cl), r, added[c.Topic]); err != nil {
				r.fail(err)
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { r.revoke(gone[c.Topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { r.revoke(gone[c.Topic]) }))
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	ctx, cancel := context.WithTimeout(e.ctx, c.Timeout)
	defer cancel()
	if _, err := c.topic(ctx, kadm.NewClient(cl)); err != nil { // a group would wait until there is one
		return err
	}
	r.client = cl
	r.after = func(read []int32) error {
		if err := out.Flush(); err != nil {
			return err
		}
		commit := map[int32]kgo.EpochOffset{}
		for _, p := range read {
			if n, ok := r.next(p); ok {
				commit[p] = kgo.EpochOffset{Epoch: -1, Offset: n}
			}
		}
		var failed error
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), c.Timeout)
		defer cancel()
		cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{c.Topic: commit}, commitDone(&failed))
		return failed
	}
	return r.run(e.ctx)
}

// commitDone takes the first error out of a commit's answer.
func commitDone(failed *error) func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	return func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if err == nil {
						err = kerr.ErrorForCode(p.ErrorCode)
					}
				}
			}
		}
		if err != nil {
			*failed = fmt.Errorf("what was shown could not be committed and will be shown again: %w", err)
		}
	}
}

// assigned begins to read partitions that the group gave to this member, from its committed offsets.
func (c *consumeCmd) assigned(ctx context.Context, adm *kadm.Client, r *reader, partitions []int32) error {
	topic, err := c.topic(ctx, adm)
	if err != nil {
		return err
	}
	r.id = topic.ID
	starts, err := listed(adm.ListStartOffsets(ctx, c.Topic))
	if err != nil {
		return err
	}
	ends, err := listed(adm.ListEndOffsets(ctx, c.Topic))
	if err != nil {
		return err
	}
	committed, err := adm.FetchOffsets(ctx, c.Group)
	if err != nil {
		return fmt.Errorf("the offsets of group %s: %w", c.Group, err)
	}
	at := map[int32]int64{}
	for _, p := range partitions {
		start, _ := starts.Lookup(c.Topic, p)
		at[p] = start.Offset
		if o, ok := committed.Lookup(c.Topic, p); ok && o.At >= 0 {
			at[p] = max(o.At, start.Offset)
		}
	}
	r.assign(at, ends)
	return nil
}

// write shows one record.
func (c *consumeCmd) write(w *bufio.Writer, r *kgo.Record) error {
	if c.JSON {
		return writeJSON(w, toJSON(r))
	}
	if c.Times {
		fmt.Fprintf(w, "%s\t", r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if c.Offsets {
		fmt.Fprintf(w, "%d:%d\t", r.Partition, r.Offset)
	}
	if c.Headers {
		names := make([]string, len(r.Headers))
		for i, h := range r.Headers {
			if names[i] = h.Key + "=null"; h.Value != nil {
				names[i] = h.Key + "=" + string(h.Value)
			}
		}
		fmt.Fprintf(w, "%s\t", strings.Join(names, ","))
	}
	if c.Keys {
		if r.Key == nil {
			w.WriteString("null\t")
		} else {
			w.Write(r.Key)
			w.WriteByte('\t')
		}
	}
	w.Write(r.Value)
	return w.WriteByte('\n')
}
