package difftest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// play is one case of the tape: requests that belong together.
type play struct {
	api  kmsg.Key
	name string
	run  func(x *exchange)
}

// exchange plays one case at one version against both sides.
type exchange struct {
	t       *testing.T
	sides   []*side
	conns   []*conn
	play    play
	version int16
	prefix  string
	number  int
	base    int64 // timestamp of the case's records, Unix ms
	hits    *[]hit
}

// name makes the name of a topic or group of the case.
func (x *exchange) name(s string) string { return x.prefix + s }

// at sets a request's version: that of the case for its API, the highest that both serve for others.
func (x *exchange) at(req kmsg.Request) {
	if req.Key() == int16(x.play.api) {
		req.SetVersion(x.version)
		return
	}
	_, highest := both(x.sides, kmsg.Key(req.Key()))
	req.SetVersion(highest)
}

// each sends a request to both sides and compares the answers. label names the request within the case.
func (x *exchange) each(label string, make func(i int, s *side) kmsg.Request) []kmsg.Response {
	return x.on(label, x.conns, make)
}

// same is each with the same request for both.
func (x *exchange) same(label string, req kmsg.Request) []kmsg.Response {
	return x.each(label, func(int, *side) kmsg.Request { return req })
}

// on is each over given connections, one to each side.
func (x *exchange) on(label string, conns []*conn, make func(i int, s *side) kmsg.Request) []kmsg.Response {
	x.t.Helper()
	return x.begin(label, conns, make)()
}

// begin sends a request to both sides; the function that it returns waits for the answers and compares them.
func (x *exchange) begin(label string, conns []*conn, make func(i int, s *side) kmsg.Request) func() []kmsg.Response {
	x.t.Helper()
	answers, errs := [2]kmsg.Response{}, [2]error{}
	var version int16
	var api kmsg.Key
	var wg sync.WaitGroup
	for i, s := range x.sides {
		req := make(i, s)
		x.at(req)
		version, api = req.GetVersion(), kmsg.Key(req.Key())
		c, body := conns[i], copyOf(req)
		wg.Go(func() { answers[i], errs[i] = c.ask(body) })
	}
	return func() []kmsg.Response {
		x.t.Helper()
		wg.Wait()
		x.differ(label, api, version, answers, errs)
		return answers[:]
	}
}

// copyOf makes a request that shares no memory with req, by its encoding.
func copyOf(req kmsg.Request) kmsg.Request {
	out := kmsg.RequestForKey(req.Key())
	out.SetVersion(req.GetVersion())
	if err := out.ReadFrom(req.AppendTo(nil)); err != nil {
		panic(err)
	}
	return out
}

func (x *exchange) differ(label string, api kmsg.Key, version int16, answers [2]kmsg.Response, errs [2]error) {
	x.t.Helper()
	at := x.play.name
	if label != "" {
		at += "/" + label
	}
	h := hit{api: api.Name(), at: at, version: version, peer: x.sides[1].name}
	var trees [2]*tree
	for i, s := range x.sides {
		switch {
		case errors.Is(errs[i], errClosed) || errors.Is(errs[i], errSilent):
			h.values[i] = errs[i].Error()
		case errs[i] != nil:
			x.t.Fatalf("%s v%d, %s: %v", h.api, version, at, errs[i])
		case answers[i] == nil:
			h.values[i] = "no answer due"
		default:
			h.values[i] = "answer"
			unsent(answers[i])
			r := reader{s: s, prefix: x.prefix, base: x.base}
			trees[i] = r.tree(reflect.ValueOf(answers[i]).Elem(), "")
		}
	}
	if h.values[0] != h.values[1] {
		h.field = "connection"
		*x.hits = append(*x.hits, h)
	}
	if trees[0] == nil || trees[1] == nil {
		return
	}
	compare("", trees[0], trees[1], func(path, a, b string) {
		h.field, h.values = path, [2]string{a, b}
		*x.hits = append(*x.hits, h)
	})
}

// quietly sends a request to one side without comparing.
func (x *exchange) quietly(i int, req kmsg.Request) kmsg.Response {
	x.t.Helper()
	x.at(req)
	resp, err := x.conns[i].ask(req)
	if err != nil {
		x.t.Fatalf("%s: %T: %v", x.sides[i].name, req, err)
	}
	return resp
}

// topic makes a topic on both sides.
func (x *exchange) topic(name string, partitions int32, configs map[string]string) string {
	x.t.Helper()
	full := x.name(name)
	for i, s := range x.sides {
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = full, partitions, 1
		for k, v := range configs {
			rc := kmsg.NewCreateTopicsRequestTopicConfig()
			rc.Name, rc.Value = k, &v
			rt.Configs = append(rt.Configs, rc)
		}
		req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, rt)
		for _, t := range x.quietly(i, req).(*kmsg.CreateTopicsResponse).Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				x.t.Fatalf("%s: making %s: %v", s.name, full, err)
			}
		}
		x.learn(i, full)
	}
	return full
}

// learn asks a side for what it calls a topic; false if it has none of the name.
func (x *exchange) learn(i int, topic string) (known bool) {
	x.t.Helper()
	s := x.sides[i]
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := x.conns[i].call(req)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode != 0 {
			continue
		}
		known = true
		s.topics[t.TopicID] = topic
		for _, p := range t.Partitions {
			s.epochs[p.LeaderEpoch] = true
		}
	}
	return known
}

// id is a side's ID of a topic; of an unknown one, an ID that no topic has.
func (s *side) id(topic string) [16]byte {
	for id, name := range s.topics {
		if name == topic {
			return id
		}
	}
	return [16]byte{1, 2, 3, 4}
}

// both is the range of versions of an API that both sides serve; 0, -1 if there is none.
func both(sides []*side, k kmsg.Key) (lowest, highest int16) {
	highest = 1 << 14
	for _, s := range sides {
		a, ok := s.apis[int16(k)]
		if !ok {
			return 0, -1
		}
		if k == kmsg.Produce {
			a.MinVersion = max(a.MinVersion, 3) // announced for old clients only
		}
		if k == kmsg.JoinGroup {
			a.MinVersion = max(a.MinVersion, 1) // in version 0 kfake takes the missing rebalance timeout for 0
		}
		lowest, highest = max(lowest, a.MinVersion), min(highest, a.MaxVersion)
	}
	return lowest, highest
}

// versions are those at which the cases of an API are played.
func versions(sides []*side, k kmsg.Key) (out []int16) {
	lowest, highest := both(sides, k)
	if highest < lowest {
		return nil
	}
	out = []int16{lowest, (lowest + highest) / 2, highest}
	return slices.Compact(out)
}

// seed is that of the tape: of the order of its cases and of what records hold.
const seed = 20

// tape plays all cases, and more of them, against Godwit and a peer and returns what differed. The cases are numbered from first on.
func tape(t *testing.T, peer *side, first int, more ...play) (hits []hit) {
	t.Helper()
	sides := []*side{startGodwit(t), peer}
	conns := []*conn{}
	for _, s := range sides {
		s.meet(t)
		c := dial(t, s)
		t.Cleanup(c.close)
		conns = append(conns, c)
	}
	plays, last := slices.Concat(dataPlays(), adminPlays(), groupPlays()), slices.Concat(consumerPlays(), sharePlays(), queuePlays(), txnPlays(), streamsPlays(), more)
	for k := range sides[0].apis {
		if !slices.ContainsFunc(slices.Concat(plays, last), func(p play) bool { return int16(p.api) == k }) {
			t.Errorf("%s is served and not played", kmsg.NameForKey(k))
		}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(plays), func(i, j int) { plays[i], plays[j] = plays[j], plays[i] })
	base := time.Now().UnixMilli() - time.Minute.Milliseconds()
	n := first
	for _, p := range slices.Concat(plays, last) {
		if !strings.HasPrefix(p.name, *only) {
			continue
		}
		for _, v := range versions(sides, p.api) {
			for _, s := range sides {
				s.forget()
			}
			x := &exchange{t: t, sides: sides, conns: conns, play: p, version: v, number: n, prefix: fmt.Sprintf("c%d-", n), base: base, hits: &hits}
			p.run(x)
			n++
		}
	}
	return hits
}
