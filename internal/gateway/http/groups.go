package http

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"godwit/internal/base"
	"godwit/internal/broker"
)

// Groups tells of consumer groups and how far they are behind; broker.Lags does.
type Groups interface {
	Groups(ctx context.Context, namespace string, committed bool) ([]broker.GroupLag, error)
	Group(ctx context.Context, namespace, name string, committed bool) (*broker.GroupLag, error)
}

// groupsTime is for how long lags are counted; what is not counted by then is told to be missing.
const groupsTime = 20 * time.Second

// groupJSON is a group in a list, and the head of one alone.
type groupJSON struct {
	Group        string   `json:"group"`
	Type         string   `json:"type"`
	ProtocolType string   `json:"protocolType"`
	State        string   `json:"state"`
	Members      int      `json:"members"`
	Partitions   int      `json:"partitions"`
	Lag          *lagJSON `json:"lag"` // of all partitions; null if that of one is not known
}

// lagJSON is a lag in three units. Seconds is null if the first unread record has no timestamp.
type lagJSON struct {
	Records int64    `json:"records"`
	Bytes   int64    `json:"bytes"`
	Seconds *float64 `json:"seconds"`
}

// groupDetail is one group.
type groupDetail struct {
	Cluster      string          `json:"cluster"`
	Isolation    string          `json:"isolation"`
	Group        string          `json:"group"`
	Type         string          `json:"type"`
	ProtocolType string          `json:"protocolType"`
	State        string          `json:"state"`
	Assignor     string          `json:"assignor"`
	Lag          *lagJSON        `json:"lag"`
	Members      []memberJSON    `json:"members"`
	Partitions   []partitionJSON `json:"partitions"`
}

type memberJSON struct {
	MemberID   string         `json:"memberId"`
	InstanceID string         `json:"instanceId,omitempty"`
	ClientID   string         `json:"clientId"`
	Host       string         `json:"host"`
	Assigned   []assignedJSON `json:"assigned"`
}

type assignedJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// partitionJSON is a position. Committed is null where nothing is; then, and where Error says why, there is no lag.
type partitionJSON struct {
	Topic       string   `json:"topic"`
	TopicID     string   `json:"topicId"`
	Partition   int32    `json:"partition"`
	Member      string   `json:"member,omitempty"`
	Committed   *int64   `json:"committed"`
	LeaderEpoch int32    `json:"leaderEpoch"`
	Metadata    string   `json:"metadata,omitempty"`
	Start       int64    `json:"start"`
	End         int64    `json:"end"`
	Lag         *lagJSON `json:"lag"`
	Error       string   `json:"error,omitempty"`
}

func lagOf(records, bytes, age int64) *lagJSON {
	out := &lagJSON{Records: records, Bytes: bytes}
	if age >= 0 {
		s := float64(age) / 1000
		out.Seconds = &s
	}
	return out
}

func totalOf(partitions []broker.PartitionLag) *lagJSON {
	t := broker.Total(partitions)
	if !t.Whole {
		return nil
	}
	return lagOf(t.Records, t.Bytes, t.Age)
}

// isolation names what the ends of logs are.
func isolation(committed bool) string {
	if committed {
		return "read_committed"
	}
	return "read_uncommitted"
}

// asked reads the parameters of a request about groups. False: it was answered.
func asked(w http.ResponseWriter, r *http.Request) (namespace string, committed, ok bool) {
	q := r.URL.Query()
	if namespace = q.Get("namespace"); namespace == "" {
		namespace = base.DefaultNamespace
	}
	switch level := q.Get("isolation"); level {
	case "", isolation(false):
	case isolation(true):
		committed = true
	default:
		http.Error(w, "isolation is read_uncommitted, the default, or read_committed", http.StatusBadRequest)
		return "", false, false
	}
	return namespace, committed, true
}

func (s *Server) groups(w http.ResponseWriter, r *http.Request) {
	namespace, committed, ok := asked(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), groupsTime)
	defer cancel()
	all, err := s.opts.Groups.Groups(ctx, namespace, committed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out := make([]groupJSON, len(all))
	for i := range all {
		g := &all[i]
		out[i] = groupJSON{g.Group, g.Type, g.ProtocolType, string(g.State), len(g.Members), len(g.Partitions), totalOf(g.Partitions)}
	}
	s.json(w, map[string]any{"cluster": s.opts.Cluster, "isolation": isolation(committed), "groups": out})
}

func (s *Server) group(w http.ResponseWriter, r *http.Request) {
	namespace, committed, ok := asked(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), groupsTime)
	defer cancel()
	g, err := s.opts.Groups.Group(ctx, namespace, r.PathValue("name"), committed)
	switch {
	case err != nil && base.CodeOf(err) == base.CodeUnknownGroup:
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out := groupDetail{Cluster: s.opts.Cluster, Isolation: isolation(committed), Group: g.Group, Type: g.Type, ProtocolType: g.ProtocolType,
		State: string(g.State), Assignor: g.Protocol, Lag: totalOf(g.Partitions), Members: []memberJSON{}, Partitions: []partitionJSON{}}
	for _, m := range g.Members {
		mj := memberJSON{m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, []assignedJSON{}}
		for _, p := range m.Assigned {
			mj.Assigned = append(mj.Assigned, assignedJSON{p.Topic, p.Partition})
		}
		out.Members = append(out.Members, mj)
	}
	for i := range g.Partitions {
		out.Partitions = append(out.Partitions, partitionOf(&g.Partitions[i]))
	}
	s.json(w, out)
}

func partitionOf(p *broker.PartitionLag) partitionJSON {
	out := partitionJSON{Topic: p.Topic, TopicID: p.Stream.String(), Partition: p.Partition, Member: p.Member,
		LeaderEpoch: p.Epoch, Metadata: p.Metadata, Start: p.Start, End: p.End}
	if p.Committed >= 0 {
		out.Committed = &p.Committed
	}
	switch {
	case p.Err != nil:
		out.Error = p.Err.Error()
	case p.Committed >= 0:
		out.Lag = lagOf(p.Records, p.Bytes, p.Age)
	}
	return out
}

// json answers with what is true now only.
func (s *Server) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.opts.Log.Debug("an answer was not taken", "error", err)
	}
}
