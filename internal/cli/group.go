package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupCmd struct {
	List          groupList          `cmd:"" help:"List groups with how far they are behind."`
	Describe      groupDescribe      `cmd:"" help:"Show a group's members, positions and lag."`
	ResetOffsets  groupResetOffsets  `cmd:"" help:"Set where a group reads on: shows a plan, and with --execute carries it out."`
	Delete        groupDelete        `cmd:"" help:"Delete groups without members, with their positions."`
	DeleteOffsets groupDeleteOffsets `cmd:"" help:"Have a group forget its positions in a topic."`
}

// lagFlags are about where lag comes from.
type lagFlags struct {
	HTTP          string `name:"http" placeholder:"HOST:PORT" help:"HTTP address of a Godwit broker, which tells lag exactly; 'off' to ask nobody. By default the one that the broker names."`
	ReadCommitted bool   `help:"Lag of a reader with isolation level read_committed: up to the oldest open transaction, without aborted records."`
}

// lagHelp explains the columns.
const lagHelp = `LAG is the number of records that exist and were not read: transaction markers do not count, nor what compaction
removed. SIZE is that of their batches, and AGE the time since the timestamp of the first of them. Only a Godwit broker knows all
that; of others OFFSETS shows the difference between end and position, which is more than the records where a topic is
compacted or has transactions.`

type groupList struct {
	brokerFlags
	lagFlags
}

// Help is shown below the usage.
func (groupList) Help() string {
	return lagHelp + `

    godwit group list
    godwit group list --json --broker broker.example:9092`
}

// Run implements the command.
func (c *groupList) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		groups, err := gatherGroups(ctx, adm)
		if err != nil {
			return err
		}
		exact, err := c.askGroups(ctx, adm, &c.brokerFlags)
		if err != nil {
			return err
		}
		if exact != nil {
			for _, g := range groups {
				g.Lag = exact[g.Group]
			}
		} else if err := countOffsets(ctx, adm, c.ReadCommitted, groups); err != nil {
			return err
		}
		if c.JSON {
			for _, g := range groups {
				if err := writeJSON(e.out, g.listed()); err != nil {
					return err
				}
			}
			return nil
		}
		if len(groups) == 0 {
			_, err = fmt.Fprintln(e.out, "There are no groups. Read as a member of one: godwit consume TOPIC --group NAME")
			return err
		}
		rows := [][]any{append([]any{"GROUP", "TYPE", "STATE", "MEMBERS"}, lagColumns(exact != nil)...)}
		for _, g := range groups {
			members := "-"
			if g.Members != nil {
				members = strconv.Itoa(len(g.Members))
			}
			rows = append(rows, append([]any{g.Group, g.Type, g.State, members}, lagCells(exact != nil, g.Lag, g.OffsetsBehind)...))
		}
		return table(e.out, rows)
	})
}

// lagColumns are the heads of what lagCells shows.
func lagColumns(exact bool) []any {
	if exact {
		return []any{"LAG", "SIZE", "AGE"}
	}
	return []any{"OFFSETS"}
}

func lagCells(exact bool, lag *groupLag, offsets *int64) []any {
	switch {
	case !exact && offsets != nil:
		return []any{*offsets}
	case !exact:
		return []any{"-"}
	case lag == nil:
		return []any{"-", "-", "-"}
	}
	return []any{lag.Records, bytesText(lag.Bytes), lag.age()}
}

// groupLag is a lag as HTTP tells it and --json shows it.
type groupLag struct {
	Records int64    `json:"records"`
	Bytes   int64    `json:"bytes"`
	Seconds *float64 `json:"seconds"` // null: the records have no timestamps
}

func (l *groupLag) age() string {
	switch {
	case l.Records == 0:
		return "-"
	case l.Seconds == nil:
		return "no timestamp"
	}
	d := time.Duration(*l.Seconds * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	}
	return d.Round(100 * time.Millisecond).String()
}

type groupDescribe struct {
	brokerFlags
	lagFlags
	Name string `arg:"" help:"Name of the group."`
}

// Help is shown below the usage.
func (groupDescribe) Help() string {
	return `A partition is shown if the group has committed a position in it or a member reads it. ` + lagHelp + `

    godwit group describe billing
    godwit group describe billing --read-committed --json`
}

// Run implements the command.
func (c *groupDescribe) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		g, err := gatherGroup(ctx, adm, c.Name)
		if err != nil {
			return err
		}
		if g == nil {
			return fmt.Errorf("%s: %w", c.Name, kerr.GroupIDNotFound)
		}
		exact, err := c.askGroup(ctx, adm, &c.brokerFlags, c.Name)
		if err != nil {
			return err
		}
		if err := countOffsets(ctx, adm, c.ReadCommitted, []*groupView{g}); err != nil {
			return err
		}
		if exact != nil {
			g.take(exact)
		}
		if c.JSON {
			return writeJSON(e.out, g)
		}
		return g.show(e, exact != nil)
	})
}

// show writes a group for a person.
func (g *groupView) show(e *env, exact bool) error {
	fmt.Fprintf(e.out, "Group %s, %s", g.Group, g.State)
	if g.Type != "" {
		fmt.Fprintf(e.out, ", type %s", g.Type)
	}
	if g.Assignor != "" {
		fmt.Fprintf(e.out, ", assignor %s", g.Assignor)
	}
	fmt.Fprintln(e.out)
	if len(g.Members) > 0 {
		rows := [][]any{{"\nMEMBER", "INSTANCE", "CLIENT", "HOST", "READS"}}
		for _, m := range g.Members {
			rows = append(rows, []any{m.MemberID, orDash(m.InstanceID), orDash(m.ClientID), m.Host, orDash(rangesText(m.Assigned))})
		}
		if err := table(e.out, rows); err != nil {
			return err
		}
	}
	if len(g.Partitions) == 0 {
		_, err := fmt.Fprintln(e.out, "\nIt has no positions.")
		return err
	}
	rows := [][]any{append(append([]any{"\nTOPIC", "PARTITION", "START", "POSITION", "END"}, lagColumns(exact)...), "MEMBER")}
	for i := range g.Partitions {
		p := &g.Partitions[i]
		at := "-"
		if p.Committed != nil {
			at = strconv.FormatInt(*p.Committed, 10)
		}
		rows = append(rows, append(append([]any{p.Topic, p.Partition, p.Start, at, p.End}, lagCells(exact, p.Lag, p.OffsetsBehind)...), orDash(p.Member)))
	}
	if err := table(e.out, rows); err != nil {
		return err
	}
	for i := range g.Partitions {
		p := &g.Partitions[i]
		if p.Error != "" {
			fmt.Fprintf(e.out, "%s/%d: %s\n", p.Topic, p.Partition, p.Error)
		}
		if p.Committed != nil && *p.Committed < p.Start {
			fmt.Fprintf(e.out, "%s/%d: what was from %d to %d is gone, unread: the group will go on where its auto.offset.reset says\n", p.Topic, p.Partition, *p.Committed, p.Start)
		}
	}
	if !exact {
		fmt.Fprintln(e.err, "OFFSETS counts offsets, not records; a Godwit broker tells lag in records, bytes and time over HTTP: see --http.")
	}
	return nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
