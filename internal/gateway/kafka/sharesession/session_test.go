package sharesession

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

func sessionMember(name string) Member {
	return Member{share.Key{Namespace: base.DefaultNamespace, Group: "g"}, name}
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
	c := New(2)
	a, b, d := sessionMember("a"), sessionMember("b"), sessionMember("d")
	fetch := func(m Member, epoch int32, want base.Code, wantParts []int32, t2 Turn) {
		t.Helper()
		t2.Epoch = epoch
		got, err := c.Fetch(m, t2)
		wantFault(t, "fetch", err, want)
		if !slices.Equal(got, sessionParts(wantParts...)) {
			t.Errorf("%s fetches %v, want %v", m.ID, got, wantParts)
		}
	}
	fetch(a, 1, base.CodeShareSessionNotFound, nil, Turn{})
	fetch(a, -1, base.CodeShareSessionNotFound, nil, Turn{})
	wantFault(t, "acknowledge", c.Acknowledge(a, 1), base.CodeShareSessionNotFound)
	wantFault(t, "acknowledge first", c.Acknowledge(a, 0), base.CodeInvalidShareSession)
	fetch(a, 0, base.CodeInvalidRequest, nil, Turn{Acks: true})
	fetch(a, 0, 0, []int32{2, 0, 1}, Turn{Add: sessionParts(2, 0, 1, 0)})
	fetch(a, 2, base.CodeInvalidShareSession, nil, Turn{})
	fetch(a, 1, 0, []int32{2, 1, 5}, Turn{Add: sessionParts(5, 2), Drop: sessionParts(0, 7), Acks: true})
	fetch(a, 1, base.CodeInvalidShareSession, nil, Turn{})
	c.Served(a, sessionParts(2))
	wantFault(t, "acknowledge late", c.Acknowledge(a, 1), base.CodeInvalidShareSession)
	wantFault(t, "acknowledge", c.Acknowledge(a, 2), 0)
	fetch(a, 3, 0, []int32{1, 5, 2}, Turn{})

	// Another session of the same member takes the place of the first; others have to fit.
	fetch(b, 0, 0, []int32{0}, Turn{Add: sessionParts(0)})
	fetch(d, 0, base.CodeShareSessionLimit, nil, Turn{Add: sessionParts(0)})
	fetch(a, 0, 0, []int32{3}, Turn{Add: sessionParts(3)})
	fetch(a, 4, base.CodeInvalidShareSession, nil, Turn{})

	// A request that ends the session brings its last acknowledgements.
	fetch(a, -1, 0, nil, Turn{Acks: true})
	if got := c.End(a); !slices.Equal(got, sessionParts(3)) {
		t.Errorf("ended with %v", got)
	}
	if got := c.End(a); got != nil {
		t.Errorf("ended again with %v", got)
	}
	wantFault(t, "acknowledge the last", c.Acknowledge(b, -1), 0)
	c.End(b)
	fetch(d, 0, 0, nil, Turn{})
	if n := c.Count(); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

func TestShareSessionsEndWithTheirConnection(t *testing.T) {
	c := New(10)
	first, second := new(int), new(int)
	for name, owner := range map[string]*int{"a": first, "b": second} {
		_, err := c.Fetch(sessionMember(name), Turn{Add: sessionParts(1), Owner: owner})
		wantFault(t, "fetch", err, 0)
	}
	ended := c.Leave(first)
	if len(ended) != 1 || ended[0].Member != sessionMember("a") || !slices.Equal(ended[0].Parts, sessionParts(1)) {
		t.Errorf("ended %+v", ended)
	}
	if len(c.Leave(first)) != 0 || c.Count() != 1 {
		t.Error("a session of another connection ended")
	}
}

// TestShareSessionModel compares sessions with what clients believe.
func TestShareSessionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := New(2)
		type belief struct {
			epoch int32
			parts map[share.Partition]bool
		}
		known := map[string]*belief{}
		part := rapid.Map(rapid.Int32Range(0, 5), func(i int32) share.Partition { return sessionParts(i)[0] })
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "member")
			turn := Turn{
				Epoch: rapid.Int32Range(-1, 4).Draw(rt, "epoch"),
				Add:   rapid.SliceOfN(part, 0, 4).Draw(rt, "add"), Drop: rapid.SliceOfN(part, 0, 3).Draw(rt, "drop"),
			}
			b, had := known[name]
			if had && rapid.Bool().Draw(rt, "right") {
				turn.Epoch = b.epoch
			}
			got, err := c.Fetch(sessionMember(name), turn)
			switch {
			case turn.Epoch == 0 && !had && len(known) == 2:
				if err == nil {
					rt.Fatal("there are more sessions than may be")
				}
				continue
			case turn.Epoch == 0:
				b = &belief{epoch: 1, parts: map[share.Partition]bool{}}
				known[name] = b
				turn.Drop = nil
			case !had || turn.Epoch != -1 && turn.Epoch != b.epoch:
				if err == nil {
					rt.Fatalf("epoch %d is accepted", turn.Epoch)
				}
				continue
			case turn.Epoch == -1:
				c.End(sessionMember(name))
				delete(known, name)
				continue
			default:
				b.epoch++
			}
			for _, p := range turn.Add {
				b.parts[p] = true
			}
			for _, p := range turn.Drop {
				delete(b.parts, p)
			}
			if err != nil || len(got) != len(b.parts) || slices.ContainsFunc(got, func(p share.Partition) bool { return !b.parts[p] }) {
				rt.Fatalf("%s fetches %v, %v; want %v", name, got, err, b.parts)
			}
			c.Served(sessionMember(name), got[:len(got)/2])
		}
	})
}

func TestShareAcknowledgementsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		version int16
		renews  bool
		batches []Ack
		ok      bool
	}{
		{1, false, nil, true},
		{1, false, []Ack{{0, 9, []int8{AckAccept}}, {10, 11, []int8{AckGap, AckReject}}, {20, 20, []int8{AckRelease}}}, true},
		{1, false, []Ack{{3, 2, []int8{AckAccept}}}, false},
		{1, false, []Ack{{5, 6, []int8{AckAccept}}, {4, 4, []int8{AckAccept}}}, false},
		{1, false, []Ack{{5, 6, nil}}, false},
		{1, false, []Ack{{5, 6, []int8{1, 1, 1}}}, false},
		{1, false, []Ack{{5, 6, []int8{AckRenew}}}, false},
		{1, true, []Ack{{5, 6, []int8{AckRenew}}}, false},
		{2, false, []Ack{{5, 6, []int8{AckRenew}}}, false},
		{2, true, []Ack{{5, 6, []int8{AckRenew}}}, true},
		{2, true, []Ack{{5, 6, []int8{5}}}, false},
		{2, true, []Ack{{5, 6, []int8{-1}}}, false},
	} {
		err := CheckAcks(tc.batches, tc.version, tc.renews)
		if (err == nil) != tc.ok || err != nil && base.CodeOf(err) != base.CodeInvalidRequest {
			t.Errorf("version %d, renews %v, %v: %v", tc.version, tc.renews, tc.batches, err)
		}
	}
}
