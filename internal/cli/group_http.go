package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// guessTime is for how long an address is tried that nobody asked for.
const guessTime = 2 * time.Second

// guess finds where the broker says that it answers HTTP, and the cluster that has to answer there. An empty address is nowhere.
func guess(ctx context.Context, adm *kadm.Client, b *brokerFlags) (addr, cluster string) {
	m, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return "", ""
	}
	host, port, err := net.SplitHostPort(brokerConfig(ctx, adm, m.Controller, "godwit.http"))
	if err != nil {
		return "", ""
	}
	ours, _, _ := net.SplitHostPort(b.Broker)
	ip, away := net.ParseIP(host), !isLoopback(ours)
	switch {
	case host == "" || ip != nil && ip.IsUnspecified():
		host = ours
	case isLoopback(host) && away:
		return "", "" // it listens where we cannot reach it
	}
	return net.JoinHostPort(host, port), m.Cluster
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// brokerConfig reads one configuration of a broker; empty if it has none of the name.
func brokerConfig(ctx context.Context, adm *kadm.Client, id int32, name string) string {
	configs, err := adm.DescribeBrokerConfigs(ctx, id)
	if err != nil {
		return ""
	}
	for _, r := range configs {
		for _, k := range r.Configs {
			if k.Key == name {
				return k.MaybeValue()
			}
		}
	}
	return ""
}

// ask gets a JSON answer about groups into out. It reports false if exact lags are not to be had and nobody insists on them.
func (l *lagFlags) ask(ctx context.Context, adm *kadm.Client, b *brokerFlags, path string, out any) (bool, error) {
	switch l.HTTP {
	case "off":
		return false, nil
	case "":
	default:
		err := l.get(ctx, l.HTTP, path, "", out)
		return err == nil, err
	}
	addr, cluster := guess(ctx, adm, b)
	if addr == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, guessTime)
	defer cancel()
	return l.get(ctx, addr, path, cluster, out) == nil, nil
}

// get asks one address. The answer must come from the cluster, unless that is empty.
func (l *lagFlags) get(ctx context.Context, addr, path, cluster string, out any) error {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	if path = strings.TrimSuffix(addr, "/") + path; l.ReadCommitted {
		path += "?isolation=read_committed"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return usage("--http %q is not an address", addr)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the HTTP address does not answer: %w; see --http of godwit serve", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with status %d: %s", path, resp.StatusCode, strings.TrimSpace(string(body)))
	}
	var from struct{ Cluster *string }
	if err := json.Unmarshal(body, &from); err != nil || from.Cluster == nil {
		return fmt.Errorf("%s is not answered by a Godwit broker", path)
	}
	if cluster != "" && *from.Cluster != cluster {
		return fmt.Errorf("%s is answered by another cluster", path)
	}
	return json.Unmarshal(body, out)
}

// askGroups gets the lag of all groups, nil for one that is not known in whole; a nil map if nobody tells.
func (l *lagFlags) askGroups(ctx context.Context, adm *kadm.Client, b *brokerFlags) (map[string]*groupLag, error) {
	var answer struct {
		Groups []struct {
			Group string
			Lag   *groupLag
		}
	}
	ok, err := l.ask(ctx, adm, b, "/v1/groups", &answer)
	if !ok {
		return nil, err
	}
	out := map[string]*groupLag{}
	for _, g := range answer.Groups {
		out[g.Group] = g.Lag
	}
	return out, nil
}

// exactGroup is what the answer about one group tells of its lag.
type exactGroup struct {
	Lag        *groupLag
	Partitions []groupPartition
}

// askGroup gets the lag of one group; nil if nobody tells.
func (l *lagFlags) askGroup(ctx context.Context, adm *kadm.Client, b *brokerFlags, name string) (*exactGroup, error) {
	out := &exactGroup{}
	ok, err := l.ask(ctx, adm, b, "/v1/groups/"+url.PathEscape(name), out)
	if !ok {
		return nil, err
	}
	return out, nil
}

// take replaces what was counted by offsets.
func (g *groupView) take(x *exactGroup) {
	at := map[partition]*groupPartition{}
	for i := range x.Partitions {
		at[x.Partitions[i].partition] = &x.Partitions[i]
	}
	g.Lag, g.OffsetsBehind = x.Lag, nil
	for i := range g.Partitions {
		p := &g.Partitions[i]
		p.OffsetsBehind = nil
		if e := at[p.partition]; e != nil {
			p.Committed, p.Start, p.End, p.Lag, p.Error = e.Committed, e.Start, e.End, e.Lag, e.Error
		}
	}
}
