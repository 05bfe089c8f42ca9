package group

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// twin is the dumb implementation: one map, searched through.
type twin struct {
	offsets map[Key]map[Partition]position
	records map[Key]Record
}

func (w *twin) apply(c Command) {
	switch c := c.(type) {
	case *CommitOffsets:
		if w.offsets[c.Key] == nil {
			w.offsets[c.Key] = map[Partition]position{}
		}
		for _, at := range c.Offsets {
			w.offsets[c.Key][at.Partition] = position{at.Offset, at.Epoch, c.Time, c.Expires, at.Metadata}
		}
	case *DeleteOffsets:
		for _, p := range c.Partitions {
			if at, ok := w.offsets[c.Key][p]; ok && (c.Before == 0 || at.time < c.Before) {
				delete(w.offsets[c.Key], p)
			}
		}
	case *DeleteGroup:
		if !c.IfUnused || len(w.offsets[c.Key]) == 0 && len(w.records[c.Key].Members) == 0 {
			delete(w.offsets, c.Key)
			delete(w.records, c.Key)
		}
	case *StreamDeleted:
		for _, of := range w.offsets {
			maps.DeleteFunc(of, func(p Partition, _ position) bool { return p.Stream == c.Stream })
		}
	case *SaveGroup:
		w.records[c.Key] = c.Record
	}
}

// genKey and the like draw from few values, so that commands meet.
func genKey(t *rapid.T) Key {
	return Key{rapid.SampledFrom([]string{"default", "tenant"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")}
}

func genPartition(t *rapid.T) Partition {
	return Partition{base.StreamID{rapid.ByteRange(0, 2).Draw(t, "stream")}, rapid.Int32Range(0, 2).Draw(t, "partition")}
}

func genCommand(t *rapid.T) Command {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return &DeleteOffsets{Key: genKey(t), Before: rapid.Int64Range(0, 100).Draw(t, "before"), Partitions: rapid.SliceOfN(rapid.Custom(genPartition), 1, 3).Draw(t, "partitions")}
	case 1:
		return &DeleteGroup{Key: genKey(t), IfUnused: rapid.Bool().Draw(t, "unused")}
	case 2:
		return &StreamDeleted{genPartition(t).Stream}
	case 3, 4:
		r := Record{Time: rapid.Int64().Draw(t, "time"), Generation: rapid.Int32().Draw(t, "generation"), ProtocolType: "consumer", Protocol: "p", Leader: "m"}
		for range rapid.IntRange(0, 2).Draw(t, "members") {
			r.Members = append(r.Members, MemberRecord{
				MemberID: "m", ClientID: "c", SessionTimeout: 10, RebalanceTimeout: 20,
				Protocols: []Protocol{{"p", []byte{1}}, {"q", nil}}, Assignment: rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "assignment"),
			})
		}
		return &SaveGroup{Key: genKey(t), Record: r}
	default:
		c := &CommitOffsets{Key: genKey(t), Time: rapid.Int64Range(0, 100).Draw(t, "time"), Expires: rapid.Int64Range(0, 1).Draw(t, "expires")}
		for range rapid.IntRange(1, 3).Draw(t, "offsets") {
			c.Offsets = append(c.Offsets, CommitOffset{genPartition(t), rapid.Int64().Draw(t, "offset"), rapid.Int32().Draw(t, "epoch"), rapid.SampledFrom([]string{"", "note"}).Draw(t, "metadata")})
		}
		return c
	}
}

// TestOffsetsAgreeWithTwin applies the same commands to both, and to a copy that lives from checkpoints.
func TestOffsetsAgreeWithTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := NewOffsets()
		w := &twin{map[Key]map[Partition]position{}, map[Key]Record{}}
		stored := map[string][]byte{}
		for range rapid.IntRange(1, 40).Draw(rt, "commands") {
			c := genCommand(rt)
			encoded := AppendCommand(nil, c)
			decoded, err := DecodeCommand(encoded)
			if err != nil || !bytes.Equal(AppendCommand(nil, decoded), encoded) {
				rt.Fatalf("%+v came back as %+v, %v", c, decoded, err)
			}
			o.Apply(decoded)
			w.apply(c)
			o.Check()
			if rapid.IntRange(0, 3).Draw(rt, "checkpoint") == 0 {
				store(o, stored)
				compare(rt, restored(rt, stored), w)
			}
		}
		compare(rt, o, w)
	})
}

func store(o *Offsets, stored map[string][]byte) {
	o.Checkpoint(func(k, v []byte) {
		if v == nil {
			delete(stored, string(k))
		} else {
			stored[string(k)] = v
		}
	})
}

func restored(t *rapid.T, stored map[string][]byte) *Offsets {
	o := NewOffsets()
	for k, v := range stored {
		if err := o.Restore([]byte(k), v); err != nil {
			t.Fatal(err)
		}
	}
	o.Check()
	o.Checkpoint(func(k, v []byte) { t.Fatalf("restored state is dirty at %q", k) })
	return o
}

func compare(t *rapid.T, o *Offsets, w *twin) {
	lowest := map[Partition]int64{}
	n := 0
	for k, of := range w.offsets {
		all := o.Fetch(&FetchOffsetsRequest{Key: k, All: true}).Offsets
		if len(all) != len(of) {
			t.Fatalf("group %v: %d offsets, want %d", k, len(all), len(of))
		}
		for _, at := range all {
			want := of[at.Partition]
			if got := o.groups[k].offsets[at.Partition].position; got != want {
				t.Fatalf("group %v, %v: %+v, want %+v", k, at.Partition, got, want)
			}
			if low, ok := lowest[at.Partition]; !ok || at.Offset < low {
				lowest[at.Partition] = at.Offset
			}
			n++
		}
	}
	if n != o.Len() {
		t.Fatalf("%d offsets, want %d", o.Len(), n)
	}
	for p, want := range lowest {
		if _, got, ok := o.Lowest(p); !ok || got != want {
			t.Fatalf("lowest of %v: %d, %t, want %d", p, got, ok, want)
		}
	}
	for k, r := range w.records {
		got := o.record(k)
		if got == nil || !bytes.Equal(got.appendTo(nil), r.appendTo(nil)) {
			t.Fatalf("record of %v: %+v, want %+v", k, got, r)
		}
	}
}

// TestFormats pins the bytes of the journal and the checkpoint.
func TestFormats(t *testing.T) {
	k, p := Key{"default", "g"}, Partition{base.StreamID{15: 7}, 3}
	const stream = "00000000000000000000000000000007"
	record := Record{Time: 1, Generation: 2, ProtocolType: "consumer", Protocol: "range", Leader: "m", Members: []MemberRecord{{
		MemberID: "m", InstanceID: "i", ClientID: "c", ClientHost: "/h", SessionTimeout: 3, RebalanceTimeout: 4,
		Protocols: []Protocol{{"range", []byte{9}}}, Assignment: []byte{8},
	}}}
	const recordHex = "0204" + "08636f6e73756d6572" + "0572616e6765" + "016d" + "01" + "016d" + "0169" + "0163" + "022f68" + "0608" + "01" + "0572616e6765" + "0109" + "0108"
	const keyHex = "0764656661756c740167"
	for _, tc := range []struct {
		command Command
		want    string
	}{
		{&CommitOffsets{Key: k, Time: 1, Expires: 2, Offsets: []CommitOffset{{p, 5, -1, "x"}}}, "0101" + keyHex + "0204" + "01" + stream + "06" + "0a" + "01" + "0178"},
		{&DeleteOffsets{Key: k, Before: 6, Partitions: []Partition{p}}, "0102" + keyHex + "0c" + "01" + stream + "06"},
		{&DeleteGroup{Key: k, IfUnused: true}, "0103" + keyHex + "01"},
		{&StreamDeleted{p.Stream}, "0104" + stream},
		{&SaveGroup{Key: k, Record: record}, "0105" + keyHex + recordHex},
	} {
		if got := fmt.Sprintf("%x", AppendCommand(nil, tc.command)); got != tc.want {
			t.Errorf("%T is written as\n%s, want\n%s", tc.command, got, tc.want)
		}
	}
	o := NewOffsets()
	o.Apply(&SaveGroup{Key: k, Record: record})
	o.Apply(&CommitOffsets{Key: k, Time: 1, Expires: 2, Offsets: []CommitOffset{{p, 5, -1, "x"}}})
	var got []string
	o.Checkpoint(func(key, value []byte) { got = append(got, fmt.Sprintf("%x=%x", key, value)) })
	want := []string{"67" + keyHex + "=01" + recordHex, "6f" + keyHex + stream + "00000003" + "=01" + "0a0102040178"}
	if !slices.Equal(got, want) {
		t.Errorf("checkpoint is\n%s, want\n%s", got, want)
	}
}

func TestDamageIsReported(t *testing.T) {
	whole := AppendCommand(nil, &CommitOffsets{Key: Key{"default", "g"}, Offsets: []CommitOffset{{Metadata: "x"}}})
	for n := range whole {
		if c, err := DecodeCommand(whole[:n]); err == nil {
			t.Errorf("the first %d bytes of %d passed as %+v", n, len(whole), c)
		} else if base.CodeOf(err) != base.CodeCorruption {
			t.Errorf("the first %d bytes of %d: %v", n, len(whole), err)
		}
	}
	for _, b := range [][]byte{append(slices.Clone(whole), 0), {2, 1}, {1, 0}, {1, 9}} {
		if _, err := DecodeCommand(b); err == nil {
			t.Errorf("%x passed", b)
		}
	}
	o := NewOffsets()
	o.Apply(&CommitOffsets{Key: Key{"default", "g"}, Offsets: []CommitOffset{{Metadata: "x"}}})
	o.Apply(&SaveGroup{Key: Key{"default", "g"}})
	o.Checkpoint(func(k, v []byte) {
		for n := range k {
			if NewOffsets().Restore(k[:n], v) == nil {
				t.Errorf("the first %d bytes of key %x passed", n, k)
			}
		}
		for n := range v {
			if NewOffsets().Restore(k, v[:n]) == nil {
				t.Errorf("the first %d bytes of value %x passed", n, v)
			}
		}
	})
}

func TestLowestOfNothing(t *testing.T) {
	if _, _, ok := NewOffsets().Lowest(Partition{}); ok {
		t.Error("an empty state has a lowest position")
	}
	if at := NewCoordinator(DefaultOptions(), NewOffsets(), 0).NextDeadline(); at != math.MaxInt64 {
		t.Errorf("an idle coordinator has a deadline at %d", at)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range []Command{
		&CommitOffsets{Key: Key{"default", "g"}, Time: 1, Offsets: []CommitOffset{{Metadata: "x", Offset: 5, Epoch: -1}}},
		&DeleteOffsets{Key: Key{"default", "g"}, Partitions: []Partition{{}}},
		&DeleteGroup{Key: Key{"default", "g"}},
		&StreamDeleted{},
		&SaveGroup{Key: Key{"default", "g"}, Record: Record{Members: []MemberRecord{{MemberID: "m", Protocols: []Protocol{{"p", []byte{1}}}}}}},
	} {
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
		o := NewOffsets()
		o.Apply(c)
		o.Check()
	})
}

func FuzzRestore(f *testing.F) {
	o := NewOffsets()
	o.Apply(&CommitOffsets{Key: Key{"default", "g"}, Time: 1, Offsets: []CommitOffset{{Metadata: "x", Offset: 5, Epoch: -1}}})
	o.Apply(&SaveGroup{Key: Key{"default", "g"}, Record: Record{Members: []MemberRecord{{MemberID: "m"}}}})
	o.Checkpoint(func(k, v []byte) { f.Add(k, v) })
	f.Fuzz(func(t *testing.T, k, v []byte) {
		o := NewOffsets()
		if err := o.Restore(k, v); err != nil && base.CodeOf(err) != base.CodeCorruption {
			t.Fatal(err)
		}
		o.Check()
	})
}

func FuzzSubscription(f *testing.F) {
	f.Add(subscription("a", "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if names, ok := subscribedTopics(b); ok && len(names) > len(b)/2 {
			t.Fatalf("%d names out of %d bytes", len(names), len(b))
		}
	})
}
