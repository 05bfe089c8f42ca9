package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type infoCmd struct {
	brokerFlags
	HTTP string `name:"http" placeholder:"HOST:PORT" help:"HTTP address of the broker, to ask for its health and the loss ledger as well."`
}

// Help is shown below the usage.
func (infoCmd) Help() string {
	return `Without --http everything comes by the Kafka protocol, from any broker; durability only Godwit tells.
With --http the exit code is 1 while the broker is not ready.

    godwit info
    godwit info --http 127.0.0.1:8080
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
	Health     *health      `json:"health,omitempty"`     // with --http
	Client     string       `json:"client"`               // version of this program
}

type brokerInfo struct {
	ID        int32  `json:"id"`
	Address   string `json:"address"`
	APIs      []api  `json:"apis"` // versions of the Kafka protocol
	Directory string `json:"directory"`
	Data      int64  `json:"dataBytes"`
	Total     int64  `json:"totalBytes"`
	Usable    int64  `json:"usableBytes"`
}

// api is one request of the Kafka protocol with the versions that a broker takes.
type api struct {
	Key  int16  `json:"key"`
	Name string `json:"name"`
	Min  int16  `json:"min"`
	Max  int16  `json:"max"`
}

// health is what the HTTP address tells.
type health struct {
	Ready  bool              `json:"ready"`
	Reason string            `json:"reason,omitempty"` // why not
	Losses []json.RawMessage `json:"losses"`           // the loss ledger
}

// Run implements the command.
func (c *infoCmd) Run(e *env) error {
	return c.admin(e.ctx, func(ctx context.Context, adm *kadm.Client) error {
		in, err := c.gather(ctx, adm)
		if err != nil {
			return err
		}
		in.Client = e.programs.Version
		if c.HTTP != "" {
			if in.Health, err = askHealth(ctx, c.HTTP); err != nil {
				return err
			}
		}
		if c.JSON {
			err = writeJSON(e.out, in)
		} else {
			err = table(e.out, in.rows())
		}
		if err == nil && in.Health != nil && !in.Health.Ready {
			err = fmt.Errorf("the broker is not ready: %s", in.Health.Reason)
		}
		return err
	})
}

// rows is the information for a person.
func (in *information) rows() [][]any {
	rows := [][]any{{"Cluster", in.Cluster}, {"Controller", in.Controller},
		{"Topics", fmt.Sprintf("%d with %d partition(s)", in.Topics, in.Partitions)}, {"Groups", in.Groups}}
	if in.Durability != "" {
		rows = append(rows, []any{"Durability", in.Durability})
	}
	for _, b := range in.Brokers {
		rows = append(rows, []any{fmt.Sprintf("Broker %d", b.ID), b.Address},
			[]any{"", fmt.Sprintf("%d Kafka APIs%s", len(b.APIs), newest(b.APIs, kmsg.Produce, kmsg.Fetch))})
		if b.Directory != "" {
			rows = append(rows, []any{"", fmt.Sprintf("%s of records in %s", bytesText(b.Data), b.Directory)})
		}
		if b.Total > 0 {
			rows = append(rows, []any{"", fmt.Sprintf("%s of %s free", bytesText(b.Usable), bytesText(b.Total))})
		}
	}
	if h := in.Health; h != nil {
		ready := "yes"
		if !h.Ready {
			ready = "no: " + h.Reason
		}
		rows = append(rows, []any{"Ready", ready}, []any{"Losses", fmt.Sprintf("%d recorded; --json lists them", len(h.Losses))})
	}
	return append(rows, []any{"This program", in.Client})
}

// newest names some APIs with their highest versions.
func newest(apis []api, keys ...kmsg.Key) string {
	text := ""
	for _, a := range apis {
		if slices.Contains(keys, kmsg.Key(a.Key)) {
			text += fmt.Sprintf(", %s to version %d", a.Name, a.Max)
		}
	}
	return text
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
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range m.Brokers {
		bi := brokerInfo{ID: b.NodeID, Address: fmt.Sprintf("%s:%d", b.Host, b.Port)}
		if v, ok := versions[b.NodeID]; ok && v.Err == nil {
			v.EachKeySorted(func(key, least, most int16) { bi.APIs = append(bi.APIs, api{key, kmsg.NameForKey(key), least, most}) })
		}
		for _, d := range dirs[b.NodeID] {
			bi.Directory = d.Dir
			bi.Total, bi.Usable = max(0, d.TotalBytes), max(0, d.UsableBytes)
			bi.Data += d.Size()
		}
		in.Brokers = append(in.Brokers, bi)
	}
	in.Durability = brokerConfig(ctx, adm, m.Controller, "godwit.durability") // other brokers have none
	return in, nil
}

// maxAnswer bounds an answer of the HTTP address, bytes.
const maxAnswer = 64 << 20

// askHealth asks the HTTP address of a broker.
func askHealth(ctx context.Context, addr string) (*health, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	get := func(path string) (int, []byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(addr, "/")+path, nil)
		if err != nil {
			return 0, nil, usage("--http %q is not an address", addr)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, fmt.Errorf("the HTTP address does not answer: %w; see --http of godwit serve", err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return resp.StatusCode, body, err
	}
	h := &health{Losses: []json.RawMessage{}}
	status, body, err := get("/readyz")
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusServiceUnavailable:
		h.Reason = strings.TrimSpace(string(body))
	case status != http.StatusOK:
		return nil, fmt.Errorf("this is not the HTTP address of a Godwit broker: /readyz answers with status %d", status)
	default:
		h.Ready = true
	}
	if status, body, err = get("/losses"); err == nil && status == http.StatusOK {
		err = json.Unmarshal(body, &h.Losses)
	} else if err == nil {
		err = fmt.Errorf("/losses answers with status %d: %s", status, strings.TrimSpace(string(body)))
	}
	return h, err
}
