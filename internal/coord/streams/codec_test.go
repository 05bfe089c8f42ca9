package streams

import (
	"bytes"
	"testing"

	"godwit/internal/base"
)

func sampleTopology() *Topology {
	return &Topology{Epoch: 2, Subtopologies: []Subtopology{
		{ID: "0", Sources: []string{"in", "more"}, Sinks: []string{"r"}, Copartitions: []Copartition{{Sources: []int16{0, 1}}}},
		{ID: "1", Changelogs: []TopicInfo{{Name: "c", Replicas: 1, Configs: []Pair{{"cleanup.policy", "compact"}}}},
			Repartitions: []TopicInfo{{Name: "r", Partitions: 3}}, Copartitions: []Copartition{{Repartitions: []int16{0}}}},
	}}
}

func samples() []Command {
	k := Key{Namespace: "default", Group: "app"}
	tasks := Tasks{Active: []Task{{TaskID{"0", 1}, 3}, {TaskID{"0", 4}, 2}, {TaskID{"1", 0}, 3}}, Standby: []TaskID{{"1", 1}}}
	return []Command{
		&Update{Key: k, Head: Head{3, 2, 1_000, 0x0123456789abcdef, 2, 1, "zone"}, Topology: sampleTopology(), Removed: []string{"x"},
			Members: []Member{
				{ID: "m", Epoch: 2, Previous: 1, Status: Unrevoked, Instance: "i", Rack: "r", ClientID: "c", ClientHost: "/127.0.0.1", Rebalance: 300_000, TopologyEpoch: 2,
					Process: "p", Endpoint: Endpoint{"h", 9_000}, Tags: []Pair{{"zone", "a"}}, Assigned: tasks, Revoking: Tasks{Standby: []TaskID{{"1", 2}}}, Target: Tasks{Active: tasks.Active[:1]}},
				{ID: "n", Status: Stable},
			}},
		&Update{Key: k},
		&DeleteGroup{k},
	}
}

// TestCommandBytes holds the format of commands: what is in a journal must be read for ever.
func TestCommandBytes(t *testing.T) {
	got := AppendCommand(nil, &Update{Key: Key{Namespace: "d", Group: "g"}, Head: Head{2, 1, 5, 7, -1, 0, ""},
		Topology: &Topology{Epoch: 1, Subtopologies: []Subtopology{{ID: "s", Sources: []string{"t"}, Sinks: []string{"u"},
			Changelogs: []TopicInfo{{"c", 0, 1, []Pair{{"k", "v"}}}}, Repartitions: []TopicInfo{{Name: "r", Partitions: 2}}, Copartitions: []Copartition{{[]int16{0}, []int16{0}}}}}},
		Members: []Member{{ID: "m", Epoch: 1, Status: Stable, Instance: "i", Rack: "r", ClientID: "c", ClientHost: "h", Rebalance: 9, TopologyEpoch: 1, Process: "p",
			Endpoint: Endpoint{"e", 1}, Tags: []Pair{{"a", "b"}}, Assigned: Tasks{Active: []Task{{TaskID{"s", 1}, 1}, {TaskID{"s", 3}, 2}}}, Target: Tasks{Standby: []TaskID{{"s", 0}}}}},
		Removed: []string{"x"}})
	want := "\x01\x01\x01d\x01g\x04\x02\x0a\x00\x00\x00\x00\x00\x00\x00\x07\x01\x00\x00" +
		"\x01\x02\x01\x01s\x01\x01t\x01\x01u\x01\x01c\x00\x02\x01\x01k\x01v\x01\x01r\x04\x00\x00\x01\x01\x00\x01\x00" +
		"\x01\x01m\x02\x00\x01\x01i\x01r\x01c\x01h\x12\x02\x01p\x01e\x02\x01\x01a\x01b" +
		"\x01\x01s\x02\x02\x02\x04\x04\x00" + "\x00\x00" + "\x00\x01\x01s\x01\x00" +
		"\x01\x01x"
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("got  %x\nwant %x", got, want)
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
	s.Apply(samples()[0])
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
