package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
)

// reader is a client with a session. It knows of the partitions only what it was told.
type reader struct {
	f       *fetchStand
	version int16
	id      int32
	epoch   int32
	want    map[partKey]*readPart
	changed map[partKey]bool // offsets that the next request has to tell
	forget  []partKey
	failed  map[partKey]int16 // of the last response
}

type readPart struct {
	st     *meta.Stream
	offset int64
	hw     int64
	start  int64
}

func (r *reader) key(st *meta.Stream, index int32) partKey {
	if r.version >= 13 {
		return partKey{id: st.ID, index: index}
	}
	return partKey{topic: st.Name, index: index}
}

func (r *reader) add(st *meta.Stream, index int32) {
	k := r.key(st, index)
	// A request that names a partition and forgets it means the latter: it is added by a later one.
	if r.want[k] == nil && !slices.Contains(r.forget, k) {
		r.want[k] = &readPart{st: st, hw: -2, start: -2}
		r.changed[k] = true
	}
}

func (r *reader) drop(k partKey) {
	delete(r.want, k)
	delete(r.changed, k)
	r.forget = append(r.forget, k)
}

// request is the next request of the session.
func (r *reader) request(maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxBytes, req.SessionID, req.SessionEpoch = 1, maxBytes, r.id, r.epoch
	for k, p := range r.want {
		if r.epoch != 0 && !r.changed[k] {
			continue
		}
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = k.topic, k.id
		t.Partitions = append(t.Partitions, want(k.index, p.offset))
		req.Topics = append(req.Topics, t)
	}
	for _, k := range r.forget {
		req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: k.topic, TopicID: k.id, Partitions: []int32{k.index}})
	}
	clear(r.changed)
	r.forget = nil
	return req
}

// poll fetches, and holds what came against what was known.
func (r *reader) poll(t failer, maxBytes int32) (bytes int) {
	full := r.epoch == 0
	resp := r.f.fetch(r.version, r.request(maxBytes))
	if resp.ErrorCode != 0 {
		t.Fatalf("session %d epoch %d: %v", r.id, r.epoch, kerr.ErrorForCode(resp.ErrorCode))
	}
	if full {
		r.id, r.epoch = resp.SessionID, 0
	}
	r.epoch = nextEpoch(r.epoch)
	clear(r.failed)
	seen := 0
	for i := range resp.Topics {
		for k := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[k]
			key := partKey{resp.Topics[i].Topic, resp.Topics[i].TopicID, p.Partition}
			bytes += len(p.RecordBatches)
			r.told(t, key, p, full)
			seen++
		}
	}
	if full && seen != len(r.want) {
		t.Fatalf("a full fetch of %d partitions has %d in its response", len(r.want), seen)
	}
	return bytes
}

func (r *reader) told(t failer, key partKey, p *kmsg.FetchResponseTopicPartition, full bool) {
	w := r.want[key]
	switch {
	case w == nil:
		t.Fatalf("%v is not fetched and in the response", key)
	case p.ErrorCode == kerr.OffsetOutOfRange.Code:
		w.offset, w.hw, w.start = r.f.truth(w.st, key.index).Start, -2, -2
		r.changed[key] = true
		return
	case p.ErrorCode != 0:
		r.failed[key] = p.ErrorCode
		w.hw, w.start = -2, -2
		return
	case !full && len(p.RecordBatches) == 0 && p.HighWatermark == w.hw && p.LogStartOffset == w.start:
		t.Fatalf("%v is in the response and has no news: %+v", key, p)
	}
	w.hw, w.start = p.HighWatermark, p.LogStartOffset
	for b := p.RecordBatches; len(b) > 0; {
		info, err := recordbatch.ParseHeader(b)
		if err != nil || info.BaseOffset > w.offset || info.LastOffset() < w.offset {
			t.Fatalf("%v: batch [%d, %d] for offset %d: %v", key, info.BaseOffset, info.LastOffset(), w.offset, err)
		}
		w.offset = info.LastOffset() + 1
		r.changed[key] = true
		b = b[info.Size:]
	}
}

// check compares what the client was told with how things are.
func (r *reader) check(t failer, bytes int) {
	behind := false
	for k, w := range r.want {
		st := r.f.truth(w.st, k.index)
		if w.st.Name == "" || r.failed[k] != 0 || w.offset < st.Start {
			continue
		}
		if w.hw != -2 && (w.hw != st.HighWatermark || w.start != st.Start) {
			t.Fatalf("%v: the client knows high watermark %d and start %d, they are %+v", k, w.hw, w.start, st)
		}
		behind = behind || w.hw != -2 && w.offset < st.HighWatermark && !r.changed[k]
	}
	if behind && bytes == 0 && len(r.failed) == 0 {
		t.Fatal("there are records to be had, and none came")
	}
}

func (f *fetchStand) truth(st *meta.Stream, index int32) (out struct{ Start, HighWatermark int64 }) {
	s, _ := f.m.State(st.Partitions[index].Log)
	out.Start, out.HighWatermark = s.Start, s.HighWatermark
	return out
}

// TestSessionTellsAllThatChanges: whatever happens to logs and topics, and whatever a client asks for, after each
// poll it knows the offsets of all its partitions, was told nothing twice, and got records if there were any.
func TestSessionTellsAllThatChanges(t *testing.T) {
	for _, version := range []int16{12, 17} {
		rapid.Check(t, func(t *rapid.T) {
			f := newFetchStand(t, nil)
			var streams []*meta.Stream
			for i := range 3 {
				streams = append(streams, f.topic(fmt.Sprintf("t%d", i), 4))
			}
			r := &reader{f: f, version: version, want: map[partKey]*readPart{}, changed: map[partKey]bool{}, failed: map[partKey]int16{}}
			r.add(streams[0], 0)
			pick := func() (int, int32) {
				return rapid.IntRange(0, 2).Draw(t, "topic"), int32(rapid.IntRange(0, 3).Draw(t, "partition"))
			}
			t.Repeat(map[string]func(*rapid.T){
				"append": func(t *rapid.T) {
					i, k := pick()
					f.m.put(streams[i].Partitions[k].Log, batchOf(rapid.IntRange(1, 3).Draw(t, "records"), 50))
				},
				"trim": func(t *rapid.T) {
					i, k := pick()
					st := f.truth(streams[i], k)
					f.m.trim(streams[i].Partitions[k].Log, rapid.Int64Range(st.Start, st.HighWatermark).Draw(t, "start"))
				},
				"add": func(t *rapid.T) {
					i, k := pick()
					r.add(streams[i], k)
				},
				"forget": func(t *rapid.T) {
					i, k := pick()
					if k := r.key(streams[i], k); r.want[k] != nil && len(r.want) > 1 {
						r.drop(k)
					}
				},
				"recreate": func(t *rapid.T) {
					i, _ := pick()
					r.recreate(t, streams, i)
				},
				"poll": func(t *rapid.T) {
					r.check(t, r.poll(t, int32(rapid.SampledFrom([]int{0, 150, 500, 1 << 20}).Draw(t, "max"))))
				},
				"again": func(t *rapid.T) { r.again() },
			})
		})
	}
}

// recreate deletes a topic and makes another of its name. A client by name goes on with the new one.
func (r *reader) recreate(t *rapid.T, streams []*meta.Stream, i int) {
	old := streams[i]
	r.f.m.drop(t, old)
	streams[i] = r.f.topic(old.Name, 4)
	for k := range r.want {
		if r.want[k].st != old {
			continue
		}
		if r.version < 13 {
			r.want[k].st = streams[i]
			continue
		}
		// A client by ID gets an error and gives up on it.
		resp := r.f.fetch(r.version, r.request(1<<20))
		r.epoch = nextEpoch(r.epoch)
		if r.epoch == 1 {
			r.id = resp.SessionID
		}
		for w := range r.want {
			if r.want[w].st == old {
				r.drop(w)
			}
		}
		r.add(streams[i], 0)
		r.again()
		return
	}
}

// again begins anew with a full fetch.
func (r *reader) again() {
	r.epoch, r.forget = 0, nil
	for _, w := range r.want {
		w.hw, w.start = -2, -2
	}
}

func TestSessionErrors(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 2)
	full := func(version int16) int32 {
		req := fetchOf(st, want(0, 0))
		req.SessionEpoch = 0
		return f.fetch(version, req).SessionID
	}
	next := func(version int16, id, epoch int32) *kmsg.FetchResponse {
		req := kmsg.NewPtrFetchRequest()
		req.SessionID, req.SessionEpoch = id, epoch
		return f.fetch(version, req)
	}
	byName, byID := full(12), full(13)
	if byName == 0 || byID == 0 || full(6) != 0 {
		t.Fatalf("sessions %d, %d", byName, byID)
	}
	for _, tc := range []struct {
		name      string
		version   int16
		id, epoch int32
		err       *kerr.Error
	}{
		{"unknown", 12, byName + 1, 1, kerr.FetchSessionIDNotFound},
		{"none", 12, 0, 1, kerr.FetchSessionIDNotFound},
		{"epoch too high", 12, byName, 2, kerr.InvalidFetchSessionEpoch},
		{"names for IDs", 12, byID, 1, kerr.FetchSessionTopicIDError},
		{"IDs for names", 13, byName, 1, kerr.FetchSessionTopicIDError},
		{"first", 12, byName, 1, nil},
		{"repeated", 12, byName, 1, kerr.InvalidFetchSessionEpoch},
		{"second", 12, byName, 2, nil},
	} {
		resp := next(tc.version, tc.id, tc.epoch)
		wantCode(t, tc.name, resp.ErrorCode, tc.err)
		if tc.err != nil && (resp.SessionID != 0 || len(resp.Topics) > 0) {
			t.Errorf("%s: %+v", tc.name, resp)
		}
	}
	// A full fetch ends the session that it names.
	req := fetchOf(st, want(0, 0))
	req.SessionID, req.SessionEpoch = byName, -1
	if resp := f.fetch(12, req); resp.SessionID != 0 || resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	wantCode(t, "ended", next(12, byName, 3).ErrorCode, kerr.FetchSessionIDNotFound)
	// A session from which everything was taken ends.
	last := kmsg.NewPtrFetchRequest()
	last.SessionID, last.SessionEpoch = byID, 1
	last.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: st.ID, Partitions: []int32{0}}}
	if resp := f.fetch(13, last); resp.ErrorCode != 0 || len(resp.Topics) > 0 {
		t.Errorf("%+v", resp)
	}
	wantCode(t, "emptied", next(13, byID, 2).ErrorCode, kerr.FetchSessionIDNotFound)
}

// TestSessionSparesQuietPartitions: a poll of many partitions reads those that changed and no others.
func TestSessionSparesQuietPartitions(t *testing.T) {
	f := newFetchStand(t, nil)
	const n = 500
	st := f.topic("t", n)
	req := fetchOf(st)
	for i := range n {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, want(int32(i), 0))
	}
	req.SessionEpoch = 0
	id := f.fetch(13, req).SessionID
	poll := func(epoch int32, parts ...kmsg.FetchRequestTopicPartition) (int, *kmsg.FetchResponse) {
		before := f.reads()
		req := fetchOf(st, parts...)
		req.SessionID, req.SessionEpoch = id, epoch
		resp := f.fetch(13, req)
		return f.reads() - before, resp
	}
	poll(1)
	if n, resp := poll(2); n != 0 || len(resp.Topics) != 0 {
		t.Errorf("an idle poll looked at %d partitions: %+v", n, resp)
	}
	f.m.put(st.Partitions[7].Log, batchOf(1, 10))
	f.m.put(st.Partitions[99].Log, batchOf(1, 10))
	if n, resp := poll(3); n != 2 || len(resp.Topics[0].Partitions) != 2 {
		t.Errorf("a poll after two appends looked at %d partitions: %+v", n, resp)
	}
	if n, resp := poll(4, want(7, 1), want(99, 1)); n != 2 || len(resp.Topics) != 0 {
		t.Errorf("%d looks, %+v", n, resp)
	}
	if n, _ := poll(5); n != 0 {
		t.Errorf("partitions that were read to their end are looked at %d times", n)
	}
}

// TestSessionServesInTurn: with room for one batch, partitions take turns.
func TestSessionServesInTurn(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 3)
	for range 4 {
		for _, p := range st.Partitions {
			f.m.put(p.Log, batchOf(1, 100))
		}
	}
	r := &reader{f: f, version: 13, want: map[partKey]*readPart{}, changed: map[partKey]bool{}, failed: map[partKey]int16{}}
	for i := range st.Partitions {
		r.add(st, int32(i))
	}
	for round := range 4 {
		for range st.Partitions {
			r.poll(t, 1)
		}
		for k, w := range r.want {
			// The first poll makes the session and does not count.
			if w.offset < int64(round) {
				t.Errorf("round %d: partition %v is at %d", round, k, w.offset)
			}
		}
	}
}

func TestSessionOfAReplacedTopic(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 1)
	req := fetchOf(st, want(0, 0))
	req.SessionEpoch = 0
	id := f.fetch(13, req).SessionID
	poll := func(epoch int32) int16 {
		req := kmsg.NewPtrFetchRequest()
		req.SessionID, req.SessionEpoch = id, epoch
		return only(t, f.fetch(13, req)).ErrorCode
	}
	f.m.drop(t, st)
	wantCode(t, "deleted", poll(1), kerr.UnknownTopicOrPartition)
	f.topic("t", 1)
	wantCode(t, "replaced", poll(2), kerr.InconsistentTopicID)
}

func TestSessionsAreEvicted(t *testing.T) {
	c := newSessions(3, nil)
	rc := &request{namespace: base.DefaultNamespace}
	make3 := func(n int) []*fetchPart {
		var out []*fetchPart
		for i := range n {
			out = append(out, &fetchPart{key: partKey{topic: "t", index: int32(i)}})
		}
		return out
	}
	small, middle, large := c.create(rc, false, make3(2)), c.create(rc, false, make3(5)), c.create(rc, false, make3(9))
	if c.create(rc, false, make3(100)) != 0 {
		t.Error("new sessions are evicted")
	}
	for _, s := range c.byID {
		s.created = s.created.Add(-2 * sessionRest)
	}
	if c.create(rc, false, make3(1)) != 0 {
		t.Error("a small session evicts a larger one")
	}
	id := c.create(rc, false, make3(4))
	if id == 0 || c.byID[small] != nil || c.byID[middle] == nil || c.byID[large] == nil {
		t.Error("the smallest does not make room for a larger one")
	}
	c.byID[large].used = time.Now().Add(-2 * sessionRest)
	if c.create(rc, false, nil) == 0 || c.byID[large] != nil {
		t.Error("a session that is not used keeps its place")
	}
}

// TestSessionRestsWithoutItsConnection: the watch goes with the connection, the session does not.
func TestSessionRestsWithoutItsConnection(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 1)
	req := fetchOf(st, want(0, 0))
	req.SessionEpoch = 0
	id := f.fetch(13, req).SessionID
	poll := func(epoch int32) *kmsg.FetchResponse {
		req := kmsg.NewPtrFetchRequest()
		req.MinBytes, req.SessionID, req.SessionEpoch = 1, id, epoch
		return f.fetch(13, req)
	}
	poll(1)
	f.waiters(1)
	f.s.sessions.leave(nil) // the requests of this test have no connection
	f.waiters(0)
	f.m.put(st.Partitions[0].Log, batchOf(1, 10))
	if len(only(t, poll(2)).RecordBatches) == 0 {
		t.Error("what came while the session rested is not seen")
	}
	f.waiters(1)
	f.s.sessions.remove(base.DefaultNamespace, id)
	f.waiters(0)
	if _, err := f.run(context.Background(), 13, kmsg.NewPtrFetchRequest()); err != nil {
		t.Error(err)
	}
}
