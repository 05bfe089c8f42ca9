package queue

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"godwit/internal/base"
)

// everyCommand has each kind of command with all fields set.
func everyCommand() []Command {
	s := Step{Seq: 3, Time: 1000}
	m := Meta{Offset: 7, Lane: "x", Priority: 2, NotBefore: 1001, Expires: 1002}
	return []Command{
		&Acquire{Step: s, Consumer: "a", Deadline: 1030, Gaps: []Span{{1, 1}}, Spans: []Span{{2, 5}, {9, 9}}},
		&Settle{Step: s, Changes: []Change{{Span: Span{2, 4}, Op: OpRelease, Until: 5}, {Span: Span{5, 5}, Op: OpArchive, Cause: CauseLimit, Report: true}}},
		&Admit{Step: s, End: 9, Records: []Admitted{{m, true}}},
		&Promote{Step: s, Records: []Promoted{{m, 1}}, Stale: []LaterKey{{6, 8}}},
		&Trim{Step: s, Start: 4, Report: true},
		&Reset{Step: s, Start: 4},
		&Confirm{Step: s, IDs: []uint64{1, 300}},
	}
}

// everyState is a queue that has something of everything to store.
func everyState() *Queue {
	q := New(Options{Lock: 30, Horizon: 10, MaxDeliveries: 1}, store{})
	apply := func(cmd Command) { q.Apply(cmd) }
	apply(q.Admit(1000, 6, []Meta{{Offset: 1, Lane: "x", Priority: 2, Expires: 2000}, {Offset: 3, NotBefore: 1005}, {Offset: 4, NotBefore: 5000, Priority: 1}}))
	cmd, _ := q.Acquire(1000, &Want{Consumer: "a", Records: 3})
	apply(cmd)
	cmd, _ = q.Acknowledge(1000, "a", []Ack{{Span: Span{0, 0}, Type: AckAccept}, {Span: Span{2, 2}, Type: AckReject}}, true)
	apply(cmd)
	return q
}

// TestFormats pins the bytes of the journal and the checkpoint.
func TestFormats(t *testing.T) {
	const step, meta = "03d00f", "0e017802d20fd40f"
	want := []string{
		"0101" + step + "01618c10" + "010200" + "0204031200",
		"0102" + step + "02" + "0402020a0000" + "0a0001000201",
		"0103" + step + "1201" + meta + "01",
		"0104" + step + "01" + meta + "02" + "010c10",
		"0105" + step + "0801",
		"0106" + step + "08",
		"0107" + step + "0201ac02",
	}
	for i, c := range everyCommand() {
		if got := fmt.Sprintf("%x", AppendCommand(nil, c)); got != want[i] {
			t.Errorf("%T is written as\n%s, want\n%s", c, got, want[i])
		}
	}
	var got []string
	everyState().Checkpoint(func(k, v []byte) { got = append(got, fmt.Sprintf("%x=%x", k, v)) })
	state := []string{
		"650000000000000001=0101040002d00f",
		"68=0103000101d00f020c060206000200000000",
		"6c00000000000013880000000000000004=01000001010000",
		"720000000000000001=010205010101618c100201020178a01f03010001da0f000002010001000000",
	}
	if !slices.Equal(got, state) {
		t.Errorf("checkpoint is\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(state, "\n"))
	}
}

func TestDamageIsReported(t *testing.T) {
	for _, c := range everyCommand() {
		whole := AppendCommand(nil, c)
		for n := range whole {
			if c, err := DecodeCommand(whole[:n]); err == nil || base.CodeOf(err) != base.CodeCorruption {
				t.Errorf("the first %d bytes of %d passed as %+v, %v", n, len(whole), c, err)
			}
		}
		if _, err := DecodeCommand(append(slices.Clone(whole), 0)); err == nil {
			t.Errorf("%T with a byte more passed", c)
		}
	}
	for _, b := range [][]byte{{2, 1, 0, 0}, {1, 0, 0, 0}, {1, 8, 0, 0}} {
		if _, err := DecodeCommand(b); err == nil {
			t.Errorf("%x passed", b)
		}
	}
	everyState().Checkpoint(func(k, v []byte) {
		for n := range k {
			if New(Options{}, nil).Restore(k[:n], v) == nil {
				t.Errorf("the first %d bytes of key %x passed", n, k)
			}
		}
		for n := range v {
			if New(Options{}, nil).Restore(k, v[:n]) == nil {
				t.Errorf("the first %d bytes of value %x of key %x passed", n, v, k)
			}
		}
	})
}

// TestLostKeysAreReported: without one of its keys, a queue is not restored in silence.
func TestLostKeysAreReported(t *testing.T) {
	s := store{}
	s.save(everyState())
	for lost := range s {
		if lost[0] == keyLater || lost[0] == keyEffect {
			continue // nothing tells how many there were
		}
		q := New(Options{}, s)
		for k, v := range s {
			if k != lost {
				if err := q.Restore([]byte(k), v); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := q.Restored(); err == nil || base.CodeOf(err) != base.CodeCorruption {
			t.Errorf("without %q: %v", lost, err)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range everyCommand() {
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
	})
}

func FuzzRestore(f *testing.F) {
	everyState().Checkpoint(func(k, v []byte) { f.Add(k, v) })
	f.Fuzz(func(t *testing.T, k, v []byte) {
		q := New(Options{}, nil)
		if err := q.Restore(k, v); err != nil && base.CodeOf(err) != base.CodeCorruption {
			t.Fatal(err)
		}
		if err := q.Restored(); err == nil {
			q.applied.check()
		} else if base.CodeOf(err) != base.CodeCorruption {
			t.Fatal(err)
		}
	})
}
