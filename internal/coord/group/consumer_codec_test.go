package group

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"godwit/internal/base"
)

// saved is a change with something in every field.
func savedConsumers() *SaveConsumers {
	p := Partition{Stream: base.StreamID{15: 7}, Index: 3}
	return &SaveConsumers{
		Key: Key{Namespace: "default", Group: "g"}, Head: ConsumerHead{Epoch: 3, AssignmentEpoch: 2, AssignedAt: 1, Hash: 9}, Removed: []string{"n"},
		Members: []Consumer{{
			MemberID: "m", InstanceID: "i", Rack: "r", ClientID: "c", ClientHost: "/h", Rebalance: 4, Topics: []string{"t"}, Regex: "x", Assignor: "range",
			Epoch: 2, Previous: 1, State: Unrevoked, Assigned: []Owned{{p, 2}}, Revoking: []Owned{{Partition{Stream: p.Stream, Index: 4}, 1}}, Target: []Partition{p},
			Classic: &ClassicClient{Session: 5, Protocols: []Protocol{{"range", []byte{8}}}},
		}},
	}
}

// TestConsumerFormats pins the bytes of the journal and the checkpoint.
func TestConsumerFormats(t *testing.T) {
	const key, stream = "0764656661756c740167", "00000000000000000000000000000007"
	const head = "0604" + "02" + "09"
	const member = "0169" + "0172" + "0163" + "022f68" + "0178" + "0572616e6765" + "01" + "0174" + "08" + "0402" + "02" +
		"01" + stream + "01" + "0604" + "01" + stream + "01" + "0802" + "01" + stream + "01" + "06" + "01" + "0a" + "01" + "0572616e6765" + "0108"
	c := savedConsumers()
	for _, tc := range []struct {
		command Command
		want    string
	}{
		{c, "0106" + key + head + "01" + "016d" + member + "01" + "016e"},
		{&DropConsumers{c.Key}, "0107" + key},
	} {
		b := AppendCommand(nil, tc.command)
		if got := fmt.Sprintf("%x", b); got != tc.want {
			t.Errorf("%T is written as\n%s, want\n%s", tc.command, got, tc.want)
		}
		if got, err := DecodeCommand(b); err != nil || !reflect.DeepEqual(got, tc.command) {
			t.Errorf("%T is read as %+v, %v", tc.command, got, err)
		}
		for n := range b {
			if got, err := DecodeCommand(b[:n]); base.CodeOf(orNil(err)) != base.CodeCorruption {
				t.Errorf("the first %d bytes of %T are read as %+v, %v", n, tc.command, got, err)
			}
		}
	}
	o, fresh := NewOffsets(), NewOffsets()
	o.Apply(c)
	var got []string
	o.Checkpoint(func(k, v []byte) {
		got = append(got, fmt.Sprintf("%x=%x", k, v))
		if v == nil {
			return
		}
		if err := fresh.Restore(k, v); err != nil {
			t.Error(err)
		}
		for n := range v {
			if NewOffsets().Restore(k, v[:n]) == nil {
				t.Errorf("the first %d bytes of the value of %x passed", n, k)
			}
		}
	})
	want := []string{"63" + key + "=01" + head, "6d" + key + "6d" + "=01" + member, "6d" + key + "6e" + "="}
	if !slices.Equal(got, want) {
		t.Errorf("checkpoint is\n%s, want\n%s", got, want)
	}
	if !reflect.DeepEqual(fresh.saved(c.Key), o.saved(c.Key)) {
		t.Errorf("restored %+v, want %+v", fresh.saved(c.Key), o.saved(c.Key))
	}
}

// orNil makes a missing error one that has no code.
func orNil(err error) error {
	if err == nil {
		return fmt.Errorf("none")
	}
	return err
}

// FuzzAssignment reads assignments of the classic protocol; what can be read is written alike.
func FuzzAssignment(f *testing.F) {
	f.Add(appendAssignment(nil, 1, []namedPartition{{"t", 0}, {"t", 2}, {"u", 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, custom, ok := parseAssignment(b)
		n := 0
		if EachAssigned(b, func(string, int32) { n++ }) != ok && ok {
			t.Fatalf("%x is read in one way and not in the other", b)
		}
		if !ok || custom {
			return
		}
		if n != len(list) || 4*len(list) > len(b) {
			t.Fatalf("%d and %d partitions of %d bytes", n, len(list), len(b))
		}
		written := appendAssignment(nil, 1, list)
		again, _, ok := parseAssignment(written)
		if !ok || !bytes.Equal(written, appendAssignment(nil, 1, again)) {
			t.Fatalf("%v is written as %x, which is read as %v", list, written, again)
		}
	})
}

// FuzzClassicSubscription reads what members of the classic protocol offer.
func FuzzClassicSubscription(f *testing.F) {
	f.Add(cooperative([]string{"t"}, []Partition{{Stream: stream("t"), Index: 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := parseSubscription(b)
		if !ok {
			return
		}
		if 2*len(s.topics) > len(b) || 4*len(s.owned) > len(b) || !slices.IsSorted(s.topics) {
			t.Fatalf("%d topics, %d partitions of %d bytes", len(s.topics), len(s.owned), len(b))
		}
	})
}

func TestLongExpressionIsRefused(t *testing.T) {
	if _, err := compile(strings.Repeat("a", maxRegex)); err != nil {
		t.Error(err)
	}
	if _, err := compile(strings.Repeat("a", maxRegex+1)); err == nil || err.Code != base.CodeInvalidRegex {
		t.Errorf("an expression of %d bytes: %v", maxRegex+1, err)
	}
}
