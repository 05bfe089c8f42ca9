package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

type consumeCmd struct {
	brokerFlags
	Topic      string  `arg:"" help:"Topic to read."`
	From       string  `default:"beginning" placeholder:"WHERE" help:"Where to begin: 'beginning', 'end', an offset, or a time such as 2026-01-31T12:00:00Z."`
	Partitions []int32 `name:"partition" help:"Partition to read, may be given several times; all by default."`
	Follow     bool    `short:"f" help:"Wait for more at the end."`
	Count      int64   `short:"n" help:"Stop after so many records."`
	Group      string  `help:"Read as a member of this consumer group, from its committed offsets, and commit."`
	Keys       bool    `help:"Show keys."`
	Headers    bool    `help:"Show headers."`
	Offsets    bool    `help:"Show partition and offset."`
	Times      bool    `name:"timestamps" help:"Show timestamps."`
}

// Help is shown below the usage.
func (consumeCmd) Help() string {
	return `    godwit consume orders
    godwit consume orders --follow --keys --headers --offsets --timestamps
    godwit consume orders --from 2026-01-31T12:00:00Z --count 10 --json

Without --follow it reads what is there at the start and ends.`
}

// Run implements the command.
func (c *consumeCmd) Run(e *env) error {
	out := bufio.NewWriterSize(e.out, 64<<10)
	defer out.Flush()
	if c.Group != "" {
		if len(c.Partitions) > 0 || c.From != "beginning" {
			return usage("--group reads from the group's offsets: --partition and --from do not go with it")
		}
		return c.readGroup(e, out)
	}
	var plan *readPlan
	if err := c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) (err error) {
		plan, err = c.plan(ctx, adm)
		return err
	}); err != nil {
		return err
	}
	if plan.left == 0 && !c.Follow {
		return nil
	}
	cl, err := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: plan.from}), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	return c.read(e, cl, out, plan)
}

// readPlan says where to begin and, without --follow, where to stop.
type readPlan struct {
	from map[int32]kgo.Offset
	end  map[int32]int64 // per partition that has something to read
	left int64           // offsets between, over all partitions
}

func (c *consumeCmd) plan(ctx context.Context, adm *kadm.Client) (*readPlan, error) {
	ends, err := adm.ListEndOffsets(ctx, c.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	begins, err := c.begins(ctx, adm, ends)
	if err != nil {
		return nil, err
	}
	p := &readPlan{from: map[int32]kgo.Offset{}, end: map[int32]int64{}}
	ends.Each(func(o kadm.ListedOffset) {
		if len(c.Partitions) > 0 && !slices.Contains(c.Partitions, o.Partition) {
			return
		}
		at := begins[o.Partition]
		p.from[o.Partition] = kgo.NewOffset().At(at)
		if at < o.Offset {
			p.end[o.Partition] = o.Offset
			p.left += o.Offset - at
		}
	})
	for _, n := range c.Partitions {
		if _, ok := p.from[n]; !ok {
			return nil, usage("topic %s has no partition %d", c.Topic, n)
		}
	}
	return p, nil
}

// begins finds the first offset to read of each partition.
func (c *consumeCmd) begins(ctx context.Context, adm *kadm.Client, ends kadm.ListedOffsets) (map[int32]int64, error) {
	out := map[int32]int64{}
	take := func(l kadm.ListedOffsets, err error) error {
		if err != nil {
			return err
		}
		l.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
		return l.Error()
	}
	starts, err := adm.ListStartOffsets(ctx, c.Topic)
	switch {
	case err != nil:
		return nil, err
	case c.From == "beginning":
		return out, take(starts, nil)
	case c.From == "end":
		return out, take(ends, nil)
	}
	if n, err := strconv.ParseInt(c.From, 10, 64); err == nil && n >= 0 {
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := starts.Lookup(c.Topic, o.Partition)
			out[o.Partition] = min(max(n, s.Offset), o.Offset)
		})
		return out, nil
	}
	t, err := time.Parse(time.RFC3339, c.From)
	if err != nil {
		return nil, usage("--from %q is not 'beginning', 'end', an offset, or a time such as 2026-01-31T12:00:00Z", c.From)
	}
	return out, take(adm.ListOffsetsAfterMilli(ctx, t.UnixMilli(), c.Topic))
}

// read writes records until everything planned is there.
func (c *consumeCmd) read(e *env, cl *kgo.Client, out *bufio.Writer, plan *readPlan) error {
	bar := c.progress(e, plan.left)
	defer bar.stop()
	done := map[int32]bool{}
	for n := int64(0); ; {
		fetches := cl.PollFetches(e.ctx)
		if e.ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			end, wanted := plan.end[r.Partition]
			if !c.Follow && (!wanted || r.Offset >= end) {
				continue
			}
			if err := c.write(out, r); err != nil {
				return err
			}
			bar.add(1)
			if n++; n == c.Count {
				return nil
			}
			if wanted && r.Offset+1 >= end {
				done[r.Partition] = true
			}
		}
		if c.finished(fetches, plan, done) {
			return nil
		}
		if c.Follow {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// finished reports whether all partitions are read to their planned end. An end that compaction emptied counts once the
// broker has nothing more.
func (c *consumeCmd) finished(f kgo.Fetches, plan *readPlan, done map[int32]bool) bool {
	if c.Follow {
		return false
	}
	f.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 && p.HighWatermark >= plan.end[p.Partition] {
			done[p.Partition] = true
		}
	})
	for p := range plan.end {
		if !done[p] {
			return false
		}
	}
	return true
}

func (c *consumeCmd) readGroup(e *env, out *bufio.Writer) error {
	cl, err := c.client(kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	idle := 0
	for n := int64(0); ; {
		ctx, cancel := context.WithTimeout(e.ctx, 2*time.Second)
		fetches := cl.PollFetches(ctx)
		cancel()
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return err
		}
		var last []*kgo.Record
		for it := fetches.RecordIter(); !it.Done() && (c.Count == 0 || n < c.Count); n++ {
			r := it.Next()
			if err := c.write(out, r); err != nil {
				return err
			}
			last = append(last, r)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if len(last) > 0 {
			if err := cl.CommitRecords(context.WithoutCancel(e.ctx), last...); err != nil {
				return fmt.Errorf("committing: %w", err)
			}
			idle = 0
		} else {
			idle++
		}
		if e.ctx.Err() != nil || (c.Count > 0 && n >= c.Count) || (!c.Follow && idle >= groupIdle) {
			return nil
		}
	}
}

// groupIdle is after how many empty polls of two seconds a group read without --follow ends: a group takes three seconds to
// form.
const groupIdle = 4

// write shows one record.
func (c *consumeCmd) write(w *bufio.Writer, r *kgo.Record) error {
	if c.JSON {
		j := jsonRecord{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: r.Timestamp.UnixMilli()}
		j.Key, j.KeyBase64 = asText(r.Key)
		j.Value, j.ValueBase64 = asText(r.Value)
		for _, h := range r.Headers {
			jh := jsonHeader{Name: h.Key}
			jh.Value, jh.ValueBase64 = asText(h.Value)
			j.Headers = append(j.Headers, jh)
		}
		return writeJSON(w, j)
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
			names[i] = h.Key + "=" + string(h.Value)
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

func asText(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// progress is a bar on the terminal; nothing if there is none, or little to read.
type progress struct {
	p   *mpb.Progress
	bar *mpb.Bar
}

// longRead is from how many records on progress is shown.
const longRead = 100_000

func (c *consumeCmd) progress(e *env, total int64) *progress {
	if c.Follow || total < longRead || !terminal(e.err) || terminal(e.out) {
		return &progress{}
	}
	p := mpb.New(mpb.WithOutput(e.err), mpb.WithWidth(48))
	return &progress{p, p.AddBar(total, mpb.PrependDecorators(decor.CountersNoUnit("%d / %d records")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))}
}

func (p *progress) add(n int) {
	if p.bar != nil {
		p.bar.IncrBy(n)
	}
}

func (p *progress) stop() {
	if p.bar != nil {
		p.bar.Abort(false)
		p.p.Wait()
	}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
