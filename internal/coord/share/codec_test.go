package share

import (
	"bytes"
	"testing"

	"godwit/internal/base"
)

func samples() []Command {
	k := Key{Namespace: "default", Group: "workers"}
	p := []Partition{{Stream: base.StreamID{1}, Index: 0}, {Stream: base.StreamID{1}, Index: 3}, {Stream: base.StreamID{2}, Index: 1}}
	return []Command{
		&Update{Key: k, Head: Head{3, 2, 1_000, 0x0123456789abcdef}, Removed: []string{"x"},
			Members: []Member{{ID: "m", Epoch: 2, Previous: 1, Rack: "r", ClientID: "c", ClientHost: "/127.0.0.1", Topics: []string{"t", "u"}, Assigned: p, Target: p[:1]},
				{ID: "n", Assigned: p, Target: p}},
			Queues: []QueueChange{{p[0], Queue{Initializing, 1_000, Start{StartAtTime, 500}}}, {p[1], Queue{Status: Deleting, Version: 7}}}},
		&Update{Key: k},
		&ConfirmQueues{k, []QueueVersion{{p[0], 1_000}}},
		&DeleteGroup{k, 5},
		&StreamDeleted{base.StreamID{9}},
		&SetConfig{k, map[string]string{"share.session.timeout.ms": "50000", "a": ""}},
		&SetConfig{Key: k},
	}
}

// TestCommandBytes holds the format of commands: what is in a journal must be read for ever.
func TestCommandBytes(t *testing.T) {
	got := AppendCommand(nil, &Update{Key: Key{Namespace: "d", Group: "g"}, Head: Head{2, 1, 5, 7},
		Members: []Member{{ID: "m", Epoch: 1, Rack: "r", ClientID: "c", ClientHost: "h", Topics: []string{"t"}, Assigned: []Partition{{Stream: base.StreamID{0xaa}, Index: 1}, {Stream: base.StreamID{0xaa}, Index: 3}}}},
		Removed: []string{"x"}, Queues: []QueueChange{{Partition{Stream: base.StreamID{0xbb}, Index: 2}, Queue{Initializing, 9, Start{StartAtOffset, 4}}}}})
	var b []byte
	b = append(b, "\x01\x01\x01d\x01g\x04\x02\x0a\x00\x00\x00\x00\x00\x00\x00\x07\x01\x01m\x02\x00\x01r\x01c\x01h\x01\x01t\x01"...)
	b = append(append(b, 0xaa), make([]byte, 15)...)
	b = append(b, "\x02\x02\x04\x00\x00\x01\x01x\x01"...)
	b = append(append(b, 0xbb), make([]byte, 15)...)
	b = append(b, "\x04\x01\x03\x12\x08"...)
	if !bytes.Equal(got, b) {
		t.Errorf("got  %x\nwant %x", got, b)
	}
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
	s := NewState()
	for _, c := range samples()[:1] {
		s.Apply(c)
	}
	s.Apply(&SetConfig{Key{Namespace: "default", Group: "g"}, map[string]string{"a": "b"}})
	s.Checkpoint(func(k, v []byte) {
		if v != nil {
			f.Add(k, v)
		}
	})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		s := NewState()
		if err := s.Restore(k, v); err != nil && base.CodeOf(err) != base.CodeCorruption {
			t.Fatal(err)
		}
	})
}
