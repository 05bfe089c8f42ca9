package txn

import (
	"bytes"
	"strings"
	"testing"

	"godwit/internal/base"
)

func samples() []Command {
	k := Key{"default", "payments"}
	p := []Partition{{Stream: base.StreamID{1}, Index: 0}, {Stream: base.StreamID{1}, Index: 3}, {Stream: base.StreamID{2}, Index: 1}}
	return []Command{
		&Update{Key: k, Head: Head{Ongoing, 7, 3, -1, -1, -1, 60_000, 0, 4, 1_000, 1_500}, Partitions: p, Groups: []string{"readers", "writers"}},
		&Update{Key: k, Head: Head{PrepareCommit, 7, fencingEpoch, 7, highestEpoch, 8, 60_000, Version2, 5, 1_000, 2_000}},
		&Update{Key: Key{"", "e"}, Head: Head{ProducerID: 1 << 60, LastProducerID: -1, LastEpoch: -1, NextProducerID: -1, TimeoutMs: 1, Started: -1}},
		&Confirm{k, 5, 3_000, p[1:], []string{"readers"}},
		&Confirm{Key: k},
		&StreamDeleted{base.StreamID{9}},
		&Forget{k},
	}
}

// TestCommandBytes holds the format of commands: what is in a journal must be read for ever.
func TestCommandBytes(t *testing.T) {
	stream := func(b byte) string { return string(b) + strings.Repeat("\x00", 15) }
	for _, c := range []struct {
		cmd  Command
		want string
	}{
		{&Update{Key: Key{"d", "tx"}, Head: Head{PrepareAbort, 100, 6, 90, 5, -1, 1_000, Version2, 3, 7, 8},
			Partitions: []Partition{{Stream: base.StreamID{'a'}, Index: 1}, {Stream: base.StreamID{'a'}, Index: 3}, {Stream: base.StreamID{'b'}, Index: 2}}, Groups: []string{"g", "h"}},
			"\x01\x01\x01d\x02tx\x03\xc8\x01\x0c\xb4\x01\x0a\x01\xd0\x0f\x04\x06\x0e\x10\x02" + stream('a') + "\x02\x02\x04" + stream('b') + "\x01\x04\x02\x01g\x01h"},
		{&Confirm{Key{"d", "tx"}, 3, 9, []Partition{{Stream: base.StreamID{'a'}, Index: 1}}, []string{"g"}},
			"\x01\x02\x01d\x02tx\x06\x12\x01" + stream('a') + "\x01\x02\x01\x01g"},
		{&StreamDeleted{base.StreamID{'a'}}, "\x01\x03" + stream('a')},
		{&Forget{Key{"d", "tx"}}, "\x01\x04\x01d\x02tx"},
	} {
		if got := AppendCommand(nil, c.cmd); string(got) != c.want {
			t.Errorf("%T\ngot  %x\nwant %x", c.cmd, got, c.want)
		}
	}
}

// TestValueBytes holds the format of checkpoints.
func TestValueBytes(t *testing.T) {
	s := NewState()
	s.Apply(&Update{Key: Key{"d", "tx"}, Head: Head{Ongoing, 100, 6, -1, -1, -1, 1_000, 0, 3, 7, 8}, Partitions: []Partition{{Stream: base.StreamID{'a'}, Index: 1}}, Groups: []string{"h", "g"}})
	s.Apply(&Forget{Key{"d", "gone"}})
	want := map[string]string{
		"\x01d\x02tx":   "\x01\x01\xc8\x01\x0c\x01\x01\x01\xd0\x0f\x00\x06\x0e\x10\x01a" + strings.Repeat("\x00", 15) + "\x01\x02\x02\x01g\x01h",
		"\x01d\x04gone": "",
	}
	s.Checkpoint(func(k, v []byte) {
		if w, ok := want[string(k)]; !ok || w != string(v) || (v == nil) != (w == "") {
			t.Errorf("%q\ngot  %x\nwant %x", k, v, w)
		}
		delete(want, string(k))
	})
	if len(want) > 0 {
		t.Errorf("not handed out: %q", want)
	}
	s.Checkpoint(func(k, _ []byte) { t.Errorf("%q is handed out again", k) })
}

func TestCommandsComeBack(t *testing.T) {
	for _, c := range samples() {
		b := AppendCommand(nil, c)
		back, err := DecodeCommand(b)
		if err != nil || !bytes.Equal(AppendCommand(nil, back), b) {
			t.Errorf("%+v came back as %+v, %v", c, back, err)
		}
		for n := range b {
			if _, err := DecodeCommand(b[:n]); base.CodeOf(err) != base.CodeCorruption {
				t.Errorf("%T cut to %d of %d bytes: %v", c, n, len(b), err)
			}
		}
		if _, err := DecodeCommand(append(b, 0)); err == nil {
			t.Errorf("%T with a byte too many is read", c)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range samples() {
		f.Add(AppendCommand(nil, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCommand(b)
		if err != nil {
			if base.CodeOf(err) != base.CodeCorruption {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeCommand(AppendCommand(nil, c))
		if err != nil || !bytes.Equal(AppendCommand(nil, again), AppendCommand(nil, c)) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
		s := NewState()
		s.Apply(c)
		back := NewState()
		s.Checkpoint(func(k, v []byte) {
			if v == nil {
				return
			}
			if err := back.Restore(k, v); err != nil {
				t.Fatal(err)
			}
		})
		if !back.equal(s) {
			t.Fatalf("%+v: the state came back otherwise", c)
		}
	})
}

func FuzzRestore(f *testing.F) {
	for _, c := range samples()[:3] {
		s := NewState()
		s.Apply(c)
		s.Checkpoint(func(k, v []byte) { f.Add(k, v) })
	}
	f.Fuzz(func(t *testing.T, k, v []byte) {
		s := NewState()
		if err := s.Restore(k, v); err != nil && base.CodeOf(err) != base.CodeCorruption {
			t.Fatal(err)
		}
	})
}
