package kafka

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/coord/share"
)

func sessionParts(indexes ...int32) (out []share.Partition) {
	for _, i := range indexes {
		out = append(out, share.Partition{Stream: base.StreamID{1}, Index: i})
	}
	return out
}

func sessionMember(name string) shareMember {
	return shareMember{share.Key{Namespace: base.DefaultNamespace, Group: "g"}, name}
}

// wantFault checks the code of an error; 0 for none.
func wantFault(t *testing.T, what string, err error, want base.Code) {
	t.Helper()
	var got base.Code
	if err != nil {
		got = base.CodeOf(err)
	}
	if got != want {
		t.Errorf("%s: code %d (%v), want %d", what, got, err, want)
	}
}

func TestShareSessions(t *testing.T) {
	c := newShareSessions(2, nil)
	a, b, d := sessionMember("a"), sessionMember("b"), sessionMember("d")
	fetch := func(m shareMember, epoch int32, want base.Code, wantParts []int32, t2 shareTurn) {
		t.Helper()
		t2.epoch = epoch
		got, err := c.fetch(m, t2)
		wantFault(t, "fetch", err, want)
		if !slices.Equal(got, sessionParts(wantParts...)) {
			t.Errorf("%s fetches %v, want %v", m.member, got, wantParts)
		}
	}
	fetch(a, 1, base.CodeShareSessionNotFound, nil, shareTurn{})
	fetch(a, -1, base.CodeShareSessionNotFound, nil, shareTurn{})
	wantFault(t, "acknowledge", c.acknowledge(a, 1), base.CodeShareSessionNotFound)
	wantFault(t, "acknowledge first", c.acknowledge(a, 0), base.CodeInvalidShareSession)
	fetch(a, 0, base.CodeInvalidRequest, nil, shareTurn{acks: true})
	fetch(a, 0, 0, []int32{2, 0, 1}, shareTurn{add: sessionParts(2, 0, 1, 0)})
	fetch(a, 2, base.CodeInvalidShareSession, nil, shareTurn{})
	fetch(a, 1, 0, []int32{2, 1, 5}, shareTurn{add: sessionParts(5, 2), drop: sessionParts(0, 7), acks: true})
	fetch(a, 1, base.CodeInvalidShareSession, nil, shareTurn{})
	c.served(a, sessionParts(2))
	wantFault(t, "acknowledge late", c.acknowledge(a, 1), base.CodeInvalidShareSession)
	wantFault(t, "acknowledge", c.acknowledge(a, 2), 0)
	fetch(a, 3, 0, []int32{1, 5, 2}, shareTurn{})

	// Another session of the same member takes the place of the first; others have to fit.
	fetch(b, 0, 0, []int32{0}, shareTurn{add: sessionParts(0)})
	fetch(d, 0, base.CodeShareSessionLimit, nil, shareTurn{add: sessionParts(0)})
	fetch(a, 0, 0, []int32{3}, shareTurn{add: sessionParts(3)})
	fetch(a, 4, base.CodeInvalidShareSession, nil, shareTurn{})

	// A request that ends the session brings its last acknowledgements.
	fetch(a, -1, 0, nil, shareTurn{acks: true})
	if got := c.end(a); !slices.Equal(got, sessionParts(3)) {
		t.Errorf("ended with %v", got)
	}
	if got := c.end(a); got != nil {
		t.Errorf("ended again with %v", got)
	}
	wantFault(t, "acknowledge the last", c.acknowledge(b, -1), 0)
	c.end(b)
	fetch(d, 0, 0, nil, shareTurn{})
	if n := c.count(); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

func TestShareSessionsEndWithTheirConnection(t *testing.T) {
	c := newShareSessions(10, nil)
	first, second := &conn{}, &conn{}
	for name, owner := range map[string]*conn{"a": first, "b": second} {
		_, err := c.fetch(sessionMember(name), shareTurn{add: sessionParts(1), owner: owner})
		wantFault(t, "fetch", err, 0)
	}
	ended := c.leave(first)
	if len(ended) != 1 || ended[0].member != sessionMember("a") || !slices.Equal(ended[0].parts, sessionParts(1)) {
		t.Errorf("ended %+v", ended)
	}
	if len(c.leave(first)) != 0 || c.count() != 1 {
		t.Error("a session of another connection ended")
	}
}

// TestShareSessionModel compares sessions with what clients believe.
func TestShareSessionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newShareSessions(2, nil)
		type belief struct {
			epoch int32
			parts map[share.Partition]bool
		}
		known := map[string]*belief{}
		part := rapid.Map(rapid.Int32Range(0, 5), func(i int32) share.Partition { return sessionParts(i)[0] })
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "member")
			turn := shareTurn{
				epoch: rapid.Int32Range(-1, 4).Draw(rt, "epoch"),
				add:   rapid.SliceOfN(part, 0, 4).Draw(rt, "add"), drop: rapid.SliceOfN(part, 0, 3).Draw(rt, "drop"),
			}
			b, had := known[name]
			if had && rapid.Bool().Draw(rt, "right") {
				turn.epoch = b.epoch
			}
			got, err := c.fetch(sessionMember(name), turn)
			switch {
			case turn.epoch == 0 && !had && len(known) == 2:
				if err == nil {
					rt.Fatal("there are more sessions than may be")
				}
				continue
			case turn.epoch == 0:
				b = &belief{epoch: 1, parts: map[share.Partition]bool{}}
				known[name] = b
				turn.drop = nil
			case !had || turn.epoch != -1 && turn.epoch != b.epoch:
				if err == nil {
					rt.Fatalf("epoch %d is accepted", turn.epoch)
				}
				continue
			case turn.epoch == -1:
				c.end(sessionMember(name))
				delete(known, name)
				continue
			default:
				b.epoch++
			}
			for _, p := range turn.add {
				b.parts[p] = true
			}
			for _, p := range turn.drop {
				delete(b.parts, p)
			}
			if err != nil || len(got) != len(b.parts) || slices.ContainsFunc(got, func(p share.Partition) bool { return !b.parts[p] }) {
				rt.Fatalf("%s fetches %v, %v; want %v", name, got, err, b.parts)
			}
			c.served(sessionMember(name), got[:len(got)/2])
		}
	})
}

func TestShareAcknowledgementsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		version int16
		renews  bool
		batches []shareAck
		ok      bool
	}{
		{1, false, nil, true},
		{1, false, []shareAck{{0, 9, []int8{ackAccept}}, {10, 11, []int8{ackGap, ackReject}}, {20, 20, []int8{ackRelease}}}, true},
		{1, false, []shareAck{{3, 2, []int8{ackAccept}}}, false},
		{1, false, []shareAck{{5, 6, []int8{ackAccept}}, {4, 4, []int8{ackAccept}}}, false},
		{1, false, []shareAck{{5, 6, nil}}, false},
		{1, false, []shareAck{{5, 6, []int8{1, 1, 1}}}, false},
		{1, false, []shareAck{{5, 6, []int8{ackRenew}}}, false},
		{1, true, []shareAck{{5, 6, []int8{ackRenew}}}, false},
		{2, false, []shareAck{{5, 6, []int8{ackRenew}}}, false},
		{2, true, []shareAck{{5, 6, []int8{ackRenew}}}, true},
		{2, true, []shareAck{{5, 6, []int8{5}}}, false},
		{2, true, []shareAck{{5, 6, []int8{-1}}}, false},
	} {
		err := checkShareAcks(tc.batches, tc.version, tc.renews)
		if (err == nil) != tc.ok || err != nil && base.CodeOf(err) != base.CodeInvalidRequest {
			t.Errorf("version %d, renews %v, %v: %v", tc.version, tc.renews, tc.batches, err)
		}
	}
}
