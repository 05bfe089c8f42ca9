package load

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHeaderComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Run: rapid.Uint64().Draw(t, "run"), Producer: rapid.Uint32().Draw(t, "producer"), Key: rapid.Uint32().Draw(t, "key"),
			Phase: rapid.Uint32().Draw(t, "phase"), Sequence: rapid.Uint64().Draw(t, "sequence"), Intended: rapid.Int64().Draw(t, "intended"),
		}
		b := make([]byte, HeaderSize+rapid.IntRange(0, 9).Draw(t, "more"))
		h.Put(b)
		if got, err := ParseHeader(b); err != nil || got != h {
			t.Fatalf("got %+v, %v of %+v", got, err, h)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderSize)
		h.Put(again)
		if string(again) != string(b[:HeaderSize]) {
			t.Errorf("%x was read as %+v", b, h)
		}
		// A handler takes anything.
		s := NewSession(Options{Run: h.Run, Keys: 3, Destinations: 1, Size: len(b), InFlight: 1})
		if !s.Subscription("s").Handler()(delivery(b)) {
			t.Error("a foreign message was not taken")
		}
		if a := s.Audit(); a.Foreign != 1 || a.Delivered != 0 {
			t.Errorf("nothing was sent, and it counts: %+v", a)
		}
	})
}
