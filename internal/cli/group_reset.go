package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupResetOffsets struct {
	brokerFlags
	Name      string   `arg:"" help:"Name of the group; one that does not exist is made."`
	Topics    []string `name:"topic" sep:"none" placeholder:"TOPIC[:P,..]" help:"A topic, or some of its partitions, such as orders:0,3; may be given several times."`
	AllTopics bool     `help:"All topics in which the group has positions."`
	To        string   `placeholder:"PLACE" help:"Where to read on: 'earliest', 'latest', an offset, a time such as 2026-01-31T12:00:00Z, or 15m for so long ago."`
	Shift     *int64   `placeholder:"N" help:"By how many offsets to move: --shift=-100 reads the last hundred again."`
	Execute   bool     `help:"Carry the plan out. Without it nothing changes."`
}

// Help is shown below the usage.
func (groupResetOffsets) Help() string {
	return `Shows what would change, and changes nothing without --execute. The group's members must be stopped: the broker refuses
positions from others while there are any. A position is kept within what the partition has; a time means the first record that is not older.

    godwit group reset-offsets billing --topic orders --to earliest
    godwit group reset-offsets billing --topic orders:0,3 --to 1200 --execute
    godwit group reset-offsets billing --all-topics --to 2h --execute
    godwit group reset-offsets billing --topic orders --shift=-100 --execute`
}

// move is one line of the plan.
type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"from"` // null: there was no position
	To        int64  `json:"to"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Note      string `json:"note,omitempty"`
	Done      bool   `json:"done"`

	metadata string // of the position; it stays
}

// place is where positions go.
func (c *groupResetOffsets) place(now time.Time) (place, error) {
	switch {
	case len(c.Topics) > 0 == c.AllTopics:
		return place{}, usage("say which topics: either --topic or --all-topics")
	case (c.To != "") == (c.Shift != nil):
		return place{}, usage("say where to: either --to or --shift")
	case c.Shift != nil:
		return place{}, nil
	}
	switch c.To {
	case "earliest":
		return place{offset: -1}, nil
	case "latest":
		return place{end: true}, nil
	}
	to, err := parseFrom(c.To, now)
	if err != nil {
		return to, usage("--to %q is not 'earliest', 'latest', an offset, or a time such as 2026-01-31T12:00:00Z, 2026-01-31 or 15m for so long ago", c.To)
	}
	return to, nil
}

// Run implements the command.
func (c *groupResetOffsets) Run(e *env) error {
	to, err := c.place(time.Now())
	if err != nil {
		return err
	}
	chosen, err := parseTopics(c.Topics)
	if err != nil {
		return err
	}
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		g, err := gatherGroup(ctx, adm, c.Name)
		if err != nil {
			return err
		}
		if err := resettable(c.Name, g); err != nil {
			return err
		}
		plan, err := c.plan(ctx, adm, chosen, to)
		if err != nil {
			return err
		}
		var failed error
		if c.Execute {
			failed = carryOut(ctx, adm, c.Name, plan)
		}
		if err := c.report(e, plan, g == nil, failed == nil); err != nil {
			return err
		}
		return failed
	})
}

// resettable says why the positions of a group cannot be set; g is nil if there is no group.
func resettable(name string, g *groupView) error {
	switch {
	case g == nil:
		return nil
	case g.Type == typeShare:
		return fmt.Errorf("%s shares records: it has no positions; see kafka-share-groups --reset-offsets", name)
	case len(g.Members) > 0:
		return fmt.Errorf("%s has %s: stop them first, and wait until their sessions have ended; see godwit group describe %s", name, membersText(g.Members), name)
	}
	return nil
}

// membersText names members for a person.
func membersText(members []groupMember) string {
	const most = 5
	var names []string
	for _, m := range members {
		names = append(names, fmt.Sprintf("%s at %s", cmp.Or(m.InstanceID, m.ClientID, m.MemberID), m.Host))
	}
	if slices.Sort(names); len(names) > most {
		names = append(names[:most], "...")
	}
	return fmt.Sprintf("%d member(s), %s", len(members), strings.Join(names, ", "))
}

// parseTopics reads TOPIC and TOPIC:P,P; no partitions: all.
func parseTopics(texts []string) (map[string][]int32, error) {
	out, whole := map[string][]int32{}, map[string]bool{}
	for _, text := range texts {
		topic, list, some := strings.Cut(text, ":")
		if topic == "" {
			return nil, usage("--topic %q names no topic", text)
		}
		if !some || whole[topic] {
			out[topic], whole[topic] = nil, true
			continue
		}
		for p := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(p, 10, 32)
			if err != nil || n < 0 {
				return nil, usage("--topic %q: %q is not the number of a partition", text, p)
			}
			out[topic] = append(out[topic], int32(n))
		}
	}
	return out, nil
}

// plan works out what is to change.
func (c *groupResetOffsets) plan(ctx context.Context, adm *kadm.Client, chosen map[string][]int32, to place) ([]*move, error) {
	had := kadm.OffsetResponses{}
	if r := adm.FetchManyOffsets(ctx, c.Name)[c.Name]; r.Err == nil {
		had = r.Fetched
	} else if c.AllTopics || !missing(r.Err) {
		return nil, fmt.Errorf("%s: %w", c.Name, r.Err)
	}
	wanted, err := c.wanted(ctx, adm, chosen, had)
	if err != nil {
		return nil, err
	}
	topics := map[string]bool{}
	for _, p := range wanted {
		topics[p.Topic] = true
	}
	names := slices.Sorted(maps.Keys(topics))
	starts, ends, err := bounds(ctx, adm, false, names)
	if err != nil {
		return nil, err
	}
	var times kadm.ListedOffsets
	if !to.at.IsZero() && len(names) > 0 {
		if times, err = listed(adm.ListOffsetsAfterMilli(ctx, to.at.UnixMilli(), names...)); err != nil {
			return nil, err
		}
	}
	var out []*move
	for _, p := range wanted {
		start, err := offsetOf(starts, p)
		if err != nil {
			return nil, err
		}
		end, err := offsetOf(ends, p)
		if err != nil {
			return nil, err
		}
		m := &move{Topic: p.Topic, Partition: p.Partition, Start: start, End: end}
		if o, ok := had.Lookup(p.Topic, p.Partition); ok && o.At >= 0 {
			m.From, m.metadata = &o.At, o.Metadata
		}
		if err := c.aim(m, to, times); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func offsetOf(l kadm.ListedOffsets, p partition) (int64, error) {
	o, ok := l.Lookup(p.Topic, p.Partition)
	if !ok {
		return 0, fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, kerr.UnknownTopicOrPartition)
	}
	if o.Err != nil {
		return 0, fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, o.Err)
	}
	return o.Offset, nil
}

// wanted lists the partitions that the command names.
func (c *groupResetOffsets) wanted(ctx context.Context, adm *kadm.Client, chosen map[string][]int32, had kadm.OffsetResponses) ([]partition, error) {
	var out []partition
	if c.AllTopics {
		for t, ps := range had {
			for p, o := range ps {
				if o.At >= 0 {
					out = append(out, partition{t, p})
				}
			}
		}
		slices.SortFunc(out, comparePartitions)
		if len(out) == 0 {
			return nil, fmt.Errorf("%s has no positions: name the topics with --topic", c.Name)
		}
		return out, nil
	}
	topics, err := adm.ListTopics(ctx, slices.Sorted(maps.Keys(chosen))...)
	if err != nil {
		return nil, err
	}
	for name, some := range chosen {
		t := topics[name]
		if t.Err != nil {
			return nil, fmt.Errorf("%s: %w", name, t.Err)
		}
		for _, p := range some {
			if _, ok := t.Partitions[p]; !ok {
				return nil, fmt.Errorf("%s has %d partition(s), numbered from 0: there is no %d", name, len(t.Partitions), p)
			}
			out = append(out, partition{name, p})
		}
		for p := range t.Partitions {
			if len(some) == 0 {
				out = append(out, partition{name, p})
			}
		}
	}
	slices.SortFunc(out, comparePartitions)
	return slices.Compact(out), nil
}

// aim sets where one position goes: into what the partition has.
func (c *groupResetOffsets) aim(m *move, to place, times kadm.ListedOffsets) error {
	switch {
	case c.Shift != nil:
		if m.From == nil {
			return fmt.Errorf("%s/%d: there is no position to move from: use --to", m.Topic, m.Partition)
		}
		m.To = *m.From + *c.Shift
	case !to.at.IsZero():
		at, err := offsetOf(times, partition{m.Topic, m.Partition})
		if err != nil {
			return err
		}
		if m.To = at; at == m.End {
			m.Note = "no record is that young: the end"
		}
	case to.end:
		m.To = m.End
	case to.offset < 0:
		m.To = m.Start
	default:
		m.To = to.offset
	}
	switch {
	case m.To < m.Start:
		m.Note = fmt.Sprintf("%d is before the start", m.To)
		m.To = m.Start
	case m.To > m.End:
		m.Note = fmt.Sprintf("%d is behind the end", m.To)
		m.To = m.End
	}
	return nil
}

// carryOut commits the plan.
func carryOut(ctx context.Context, adm *kadm.Client, group string, plan []*move) error {
	offsets := kadm.Offsets{}
	for _, m := range plan {
		offsets.Add(kadm.Offset{Topic: m.Topic, Partition: m.Partition, At: m.To, LeaderEpoch: -1, Metadata: m.metadata})
	}
	res, err := adm.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range plan {
		r, ok := res.Lookup(m.Topic, m.Partition)
		switch {
		case ok && r.Err == nil:
			m.Done = true
		case ok && errors.Is(r.Err, kerr.UnknownMemberID):
			return fmt.Errorf("%s: a member has joined meanwhile: stop it first; see godwit group describe %s", group, group)
		case ok && failed == nil:
			failed = fmt.Errorf("%s: %s/%d: %w", group, m.Topic, m.Partition, r.Err)
		}
	}
	return failed
}

// report shows the plan, or what became of it.
func (c *groupResetOffsets) report(e *env, plan []*move, fresh, worked bool) error {
	if c.JSON {
		for _, m := range plan {
			if err := writeJSON(e.out, m); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]any{{"TOPIC", "PARTITION", "START", "END", "FROM", "TO", "MOVES", "NOTE"}}
	for _, m := range plan {
		from, by := "-", "-"
		if m.From != nil {
			from, by = strconv.FormatInt(*m.From, 10), fmt.Sprintf("%+d", m.To-*m.From)
		}
		rows = append(rows, []any{m.Topic, m.Partition, m.Start, m.End, from, m.To, by, m.Note})
	}
	if err := table(e.out, rows); err != nil {
		return err
	}
	var err error
	switch {
	case !c.Execute && fresh:
		_, err = fmt.Fprintf(e.out, "\nThis is only a plan: there is no group %s yet, and --execute makes it.\n", c.Name)
	case !c.Execute:
		_, err = fmt.Fprintln(e.out, "\nThis is only a plan: --execute carries it out.")
	case worked:
		_, err = fmt.Fprintf(e.out, "\nset %d position(s) of %s\n", len(plan), c.Name)
	}
	return err
}
