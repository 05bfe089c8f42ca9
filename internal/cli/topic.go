package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type topicCmd struct {
	Create   topicCreate   `cmd:"" help:"Create topics."`
	List     topicList     `cmd:"" help:"List topics."`
	Describe topicDescribe `cmd:"" help:"Show a topic's partitions, offsets and configuration."`
	Alter    topicAlter    `cmd:"" help:"Change a topic's configuration, or add partitions."`
	Delete   topicDelete   `cmd:"" help:"Delete topics with all their records."`
}

type topicCreate struct {
	brokerFlags
	Names      []string          `arg:"" name:"name" help:"Names of the topics."`
	Partitions int32             `default:"-1" placeholder:"N" help:"Number of partitions; the broker's default if not given."`
	Replicas   int16             `default:"-1" placeholder:"N" help:"Replication factor; the broker's default if not given."`
	Set        map[string]string `name:"config" placeholder:"NAME=VALUE" help:"Configuration, may be given several times."`
	DryRun     bool              `help:"Only check whether it would work."`
}

// Help is shown below the usage.
func (topicCreate) Help() string {
	return `What is not given comes from the broker: its number of partitions, its defaults of the configuration.

    godwit topic create orders --partitions 12
    godwit topic create users --config cleanup.policy=compact --config retention.ms=-1`
}

// Run implements the command.
func (c *topicCreate) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		configs := map[string]*string{}
		for k, v := range c.Set {
			configs[k] = &v
		}
		create := adm.CreateTopics
		if c.DryRun {
			create = adm.ValidateCreateTopics
		}
		res, err := create(ctx, c.Partitions, c.Replicas, configs, c.Names...)
		if err != nil {
			return err
		}
		return each(c.Names, func(name string) error {
			r := res[name]
			switch {
			case r.Err != nil:
				return withMessage(name, r.Err, r.ErrMessage)
			case c.JSON:
				return writeJSON(e.out, map[string]any{"topic": name, "id": idText(r.ID), "partitions": r.NumPartitions, "dryRun": c.DryRun})
			case c.DryRun:
				_, err = fmt.Fprintf(e.out, "%s could be created with %d partition(s)\n", name, r.NumPartitions)
			default:
				_, err = fmt.Fprintf(e.out, "created %s with %d partition(s)\n", name, r.NumPartitions)
			}
			return err
		})
	})
}

// each reports on all topics of a command, also on those behind one that failed.
func each(names []string, report func(name string) error) error {
	var failed []error
	for _, name := range names {
		if err := report(name); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// idText writes a topic ID as Kafka does.
func idText(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

type topicList struct {
	brokerFlags
}

// Help is shown below the usage.
func (topicList) Help() string {
	return `Examples:

    godwit topic list
    godwit topic list --json --broker broker.example:9092`
}

// Run implements the command.
func (c *topicList) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		topics, err := adm.ListTopics(ctx)
		if err != nil {
			return err
		}
		rows := [][]any{{"TOPIC", "PARTITIONS", "REPLICAS", "ID"}}
		for _, t := range topics.Sorted() {
			if c.JSON {
				err := writeJSON(e.out, map[string]any{"topic": t.Topic, "id": idText(t.ID), "partitions": len(t.Partitions), "replicas": t.Partitions.NumReplicas()})
				if err != nil {
					return err
				}
			}
			rows = append(rows, []any{t.Topic, len(t.Partitions), t.Partitions.NumReplicas(), idText(t.ID)})
		}
		switch {
		case c.JSON:
			return nil
		case len(rows) == 1:
			_, err = fmt.Fprintln(e.out, "There are no topics. Create one: godwit topic create NAME")
			return err
		}
		return table(e.out, rows)
	})
}

type topicDescribe struct {
	brokerFlags
	Name string `arg:"" help:"Name of the topic."`
	All  bool   `help:"Show all configuration, not only what was set."`
}

// Help is shown below the usage.
func (topicDescribe) Help() string {
	return `OFFSETS are those between start and end: as many as there are records, unless the topic is compacted or has transactions.

    godwit topic describe orders
    godwit topic describe orders --all --json`
}

// described is a topic as --json shows it.
type described struct {
	Topic      string            `json:"topic"`
	ID         string            `json:"id"`
	Partitions []describedPart   `json:"partitions"`
	Configs    []describedConfig `json:"configs"`
}

type describedPart struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	Start       int64   `json:"start"`
	End         int64   `json:"end"`
	Bytes       int64   `json:"bytes"`
}

type describedConfig struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Run implements the command.
func (c *topicDescribe) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		d, err := c.gather(ctx, adm)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(e.out, d)
		}
		fmt.Fprintf(e.out, "Topic %s, ID %s\n\n", d.Topic, d.ID)
		rows := [][]any{{"PARTITION", "LEADER", "EPOCH", "REPLICAS", "START", "END", "OFFSETS", "SIZE"}}
		for _, p := range d.Partitions {
			rows = append(rows, []any{p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.Start, p.End, p.End - p.Start, bytesText(p.Bytes)})
		}
		if err := table(e.out, rows); err != nil {
			return err
		}
		rows = [][]any{{"\nCONFIGURATION", "VALUE", "SOURCE"}}
		for _, k := range d.Configs {
			rows = append(rows, []any{k.Name, k.Value, k.Source})
		}
		if len(rows) == 1 {
			_, err := fmt.Fprintln(e.out, "\nNo configuration was set; --all shows the defaults.")
			return err
		}
		return table(e.out, rows)
	})
}

func (c *topicDescribe) gather(ctx context.Context, adm *kadm.Client) (*described, error) {
	topics, err := adm.ListTopics(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	t := topics[c.Name]
	if t.Err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, t.Err)
	}
	starts, err := listed(adm.ListStartOffsets(ctx, c.Name))
	if err != nil {
		return nil, err
	}
	ends, err := listed(adm.ListEndOffsets(ctx, c.Name))
	if err != nil {
		return nil, err
	}
	sizes := map[int32]int64{}
	if dirs, err := adm.DescribeAllLogDirs(ctx, nil); err == nil {
		dirs.Each(func(d kadm.DescribedLogDir) {
			d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
				if p.Topic == c.Name {
					sizes[p.Partition] = p.Size
				}
			})
		})
	}
	d := &described{Topic: t.Topic, ID: idText(t.ID)}
	for _, p := range t.Partitions.Sorted() {
		s, _ := starts.Lookup(c.Name, p.Partition)
		n, _ := ends.Lookup(c.Name, p.Partition)
		d.Partitions = append(d.Partitions, describedPart{p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, s.Offset, n.Offset, sizes[p.Partition]})
	}
	configs, err := adm.DescribeTopicConfigs(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	for _, r := range configs {
		if r.Err != nil {
			return nil, withMessage(c.Name, r.Err, r.ErrMessage)
		}
		for _, k := range r.Configs {
			if c.All || k.Source == kmsg.ConfigSourceDynamicTopicConfig {
				d.Configs = append(d.Configs, describedConfig{k.Key, k.MaybeValue(), strings.ToLower(strings.ReplaceAll(k.Source.String(), "_", " "))})
			}
		}
	}
	slices.SortFunc(d.Configs, func(a, b describedConfig) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

type topicAlter struct {
	brokerFlags
	Name       string            `arg:"" help:"Name of the topic."`
	Set        map[string]string `name:"config" placeholder:"NAME=VALUE" help:"Configuration to set, may be given several times."`
	Unset      []string          `placeholder:"NAME" help:"Configuration to return to its default, may be given several times."`
	Partitions int               `placeholder:"N" help:"Number of partitions from now on: more than there are."`
}

// Help is shown below the usage.
func (topicAlter) Help() string {
	return `All changes of the configuration are made together or not at all; then partitions are added.

    godwit topic alter orders --config retention.ms=86400000 --unset retention.bytes
    godwit topic alter orders --partitions 24`
}

// Run implements the command.
func (c *topicAlter) Run(e *env) error {
	if len(c.Set)+len(c.Unset) == 0 && c.Partitions == 0 {
		return usage("nothing to change: give --config, --unset or --partitions")
	}
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		var alter []kadm.AlterConfig
		for _, k := range slices.Sorted(maps.Keys(c.Set)) {
			v := c.Set[k]
			alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: &v})
		}
		for _, k := range c.Unset {
			alter = append(alter, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: k})
		}
		if len(alter) > 0 {
			res, err := adm.AlterTopicConfigs(ctx, alter, c.Name)
			if err != nil {
				return err
			}
			for _, r := range res {
				if r.Err != nil {
					return withMessage(c.Name, r.Err, r.ErrMessage)
				}
			}
		}
		if c.Partitions > 0 {
			res, err := adm.UpdatePartitions(ctx, c.Partitions, c.Name)
			if err != nil {
				return err
			}
			if r := res[c.Name]; r.Err != nil {
				return withMessage(c.Name, r.Err, r.ErrMessage)
			}
		}
		if c.JSON {
			return writeJSON(e.out, map[string]any{"topic": c.Name, "changed": len(alter), "partitions": c.Partitions})
		}
		_, err := fmt.Fprintf(e.out, "changed %s\n", c.Name)
		return err
	})
}

type topicDelete struct {
	brokerFlags
	Names []string `arg:"" name:"name" help:"Names of the topics."`
}

// Help is shown below the usage.
func (topicDelete) Help() string {
	return `The records are gone at once, and there is no way back. Several topics are deleted one after the other; what failed is
told at the end.

    godwit topic delete orders`
}

// Run implements the command.
func (c *topicDelete) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		res, err := adm.DeleteTopics(ctx, c.Names...)
		if err != nil {
			return err
		}
		return each(c.Names, func(name string) error {
			r := res[name]
			switch {
			case r.Err != nil:
				return withMessage(name, r.Err, r.ErrMessage)
			case c.JSON:
				return writeJSON(e.out, map[string]any{"topic": name, "deleted": true})
			}
			_, err := fmt.Fprintf(e.out, "deleted %s\n", name)
			return err
		})
	})
}
