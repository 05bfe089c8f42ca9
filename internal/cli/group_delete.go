package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupDelete struct {
	brokerFlags
	Names []string `arg:"" name:"name" help:"Names of the groups."`
}

// Help is shown below the usage.
func (groupDelete) Help() string {
	return `A group with members is not deleted: stop them first. Its positions go with it, and there is no way back: a member that
comes later begins where its auto.offset.reset says.

    godwit group delete billing`
}

// missing reports whether the error says that there is no such group.
func missing(err error) bool { return errors.Is(err, kerr.GroupIDNotFound) }

// Run implements the command.
func (c *groupDelete) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		res, err := adm.DeleteGroups(ctx, c.Names...)
		if err != nil {
			return err
		}
		return each(c.Names, func(name string) error {
			r := res[name]
			switch {
			case errors.Is(r.Err, kerr.NonEmptyGroup):
				return c.occupied(ctx, adm, name, r.Err)
			case r.Err != nil:
				return withMessage(name, r.Err, r.ErrMessage)
			case c.JSON:
				return writeJSON(e.out, map[string]any{"group": name, "deleted": true})
			}
			_, err := fmt.Fprintf(e.out, "deleted %s\n", name)
			return err
		})
	})
}

// occupied says who is in a group.
func (c *groupDelete) occupied(ctx context.Context, adm *kadm.Client, name string, cause error) error {
	g, err := gatherGroup(ctx, adm, name)
	if err != nil || g == nil || len(g.Members) == 0 {
		return fmt.Errorf("%s: %w", name, cause)
	}
	return fmt.Errorf("%s has %s: %w", name, membersText(g.Members), cause)
}

type groupDeleteOffsets struct {
	brokerFlags
	Name   string   `arg:"" help:"Name of the group."`
	Topics []string `name:"topic" sep:"none" required:"" placeholder:"TOPIC[:P,..]" help:"A topic, or some of its partitions, such as orders:0,3; may be given several times."`
}

// Help is shown below the usage.
func (groupDeleteOffsets) Help() string {
	return `For topics that the group no longer reads: their positions keep its lag growing. Those of topics that members read are not
deleted.

    godwit group delete-offsets billing --topic orders
    godwit group delete-offsets billing --topic orders:0,3`
}

// Run implements the command.
func (c *groupDeleteOffsets) Run(e *env) error {
	chosen, err := parseTopics(c.Topics)
	if err != nil {
		return err
	}
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		r := adm.FetchManyOffsets(ctx, c.Name)[c.Name]
		if r.Err != nil {
			return fmt.Errorf("%s: %w", c.Name, r.Err)
		}
		gone := kadm.TopicsSet{}
		var names []partition
		for topic, some := range chosen {
			for p, o := range r.Fetched[topic] {
				if o.At >= 0 && (len(some) == 0 || slices.Contains(some, p)) {
					gone.Add(topic, p)
					names = append(names, partition{topic, p})
				}
			}
		}
		if len(names) == 0 {
			return fmt.Errorf("%s has no positions there; see godwit group describe %s", c.Name, c.Name)
		}
		slices.SortFunc(names, comparePartitions)
		res, err := adm.DeleteOffsets(ctx, c.Name, gone)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		return c.report(e, names, res)
	})
}

func (c *groupDeleteOffsets) report(e *env, names []partition, res kadm.DeleteOffsetsResponses) error {
	var failed []error
	for _, p := range names {
		err, ok := res.Lookup(p.Topic, p.Partition)
		switch {
		case !ok || err != nil:
			failed = append(failed, fmt.Errorf("%s: %s/%d: %w", c.Name, p.Topic, p.Partition, err))
			continue
		case c.JSON:
			err = writeJSON(e.out, map[string]any{"group": c.Name, "topic": p.Topic, "partition": p.Partition, "deleted": true})
		default:
			_, err = fmt.Fprintf(e.out, "deleted the position of %s in %s/%d\n", c.Name, p.Topic, p.Partition)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
