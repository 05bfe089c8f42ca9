package cli

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

type infoCmd struct {
	brokerFlags
}

// Help is shown below the usage.
func (infoCmd) Help() string {
	return `    godwit info
    godwit info --broker broker.example:9092 --json`
}

// information is what --json shows.
type information struct {
	Cluster    string       `json:"cluster"`
	Controller int32        `json:"controller"`
	Brokers    []brokerInfo `json:"brokers"`
	Topics     int          `json:"topics"`
	Partitions int          `json:"partitions"`
	Groups     int          `json:"groups"`
	Durability string       `json:"durability,omitempty"` // Godwit only
}

type brokerInfo struct {
	ID        int32  `json:"id"`
	Address   string `json:"address"`
	Directory string `json:"directory"`
	Data      int64  `json:"dataBytes"`
	Total     int64  `json:"totalBytes"`
	Usable    int64  `json:"usableBytes"`
}

// Run implements the command.
func (c *infoCmd) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		in, err := c.gather(ctx, adm)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(e.out, in)
		}
		rows := [][]any{{"Cluster", in.Cluster}, {"Controller", in.Controller},
			{"Topics", fmt.Sprintf("%d with %d partition(s)", in.Topics, in.Partitions)}, {"Groups", in.Groups}}
		if in.Durability != "" {
			rows = append(rows, []any{"Durability", in.Durability})
		}
		for _, b := range in.Brokers {
			rows = append(rows, []any{fmt.Sprintf("Broker %d", b.ID), b.Address},
				[]any{"", fmt.Sprintf("%s of records in %s; %s of %s free", bytesText(b.Data), b.Directory, bytesText(b.Usable), bytesText(b.Total))})
		}
		return table(e.out, rows)
	})
}

func (c *infoCmd) gather(ctx context.Context, adm *kadm.Client) (*information, error) {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	in := &information{Cluster: m.Cluster, Controller: m.Controller, Topics: len(m.Topics)}
	m.Topics.EachPartition(func(kadm.PartitionDetail) { in.Partitions++ })
	groups, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	in.Groups = len(groups)
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, b := range m.Brokers {
		bi := brokerInfo{ID: b.NodeID, Address: fmt.Sprintf("%s:%d", b.Host, b.Port)}
		for _, d := range dirs[b.NodeID] {
			bi.Directory = d.Dir
			bi.Total, bi.Usable = d.TotalBytes, d.UsableBytes
			bi.Data += d.Size()
		}
		in.Brokers = append(in.Brokers, bi)
	}
	in.Durability = c.durability(ctx, adm, m.Controller)
	return in, nil
}

// durability reads Godwit's own setting; other brokers have none.
func (c *infoCmd) durability(ctx context.Context, adm *kadm.Client, id int32) string {
	configs, err := adm.DescribeBrokerConfigs(ctx, id)
	if err != nil {
		return ""
	}
	for _, r := range configs {
		for _, k := range r.Configs {
			if k.Key == "godwit.durability" {
				return k.MaybeValue()
			}
		}
	}
	return ""
}
