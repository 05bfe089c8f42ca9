package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/storage/segment"
	"godwit/internal/vfs"
)

type bench struct {
	t      *testing.T
	disk   *vfs.Crashing
	faults *vfs.Faults
	store  *segment.Store
	w      *Writer
	opts   Options
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{t: t, disk: vfs.NewCrashing()}
	if o.FileSize == 0 {
		o.FileSize = 64 << 10
	}
	o.Clock, o.Rand = clock.NewManual(time.UnixMilli(1000)), rand.New(rand.NewPCG(3, 4))
	b.opts = o
	b.faults = vfs.NewFaults(b.disk, 1)
	if err := vfs.MkdirAll(b.faults, "/log", 0o755); err != nil {
		t.Fatal(err)
	}
	b.store = segment.NewStore(b.faults, "/log")
	var err error
	if b.w, err = Begin(b.store, o, 1, 1, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// append queues an entry and notes how it ends.
func (b *bench) append(index uint64, text string, control bool, results *[]string) {
	b.w.Append(&Record{Frame: segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: index, Term: b.w.Term(), Command: []byte(text)},
		Control: control, Gen: 1, Done: func(at Placement, err error) {
			code := "ok"
			if err != nil {
				code = fmt.Sprint(base.CodeOf(err))
			}
			*results = append(*results, fmt.Sprintf("%s:%s", text, code))
		}})
}

// entries replays what a power loss leaves.
func (b *bench) entries(percent int) (texts []string, res *Replayed, err error) {
	disk := b.disk.CrashClone(rand.New(rand.NewPCG(5, 6)), percent)
	store := segment.NewStore(disk, "/log")
	defer store.Close()
	if _, err := store.OpenAll(); err != nil {
		return nil, nil, err
	}
	res, err = Replay(store, 0, func(_ Placement, fr *segment.Frame) error {
		texts = append(texts, string(fr.Command))
		return nil
	})
	return texts, res, err
}

func TestGroupCommit(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	for i := range uint64(5) {
		b.append(i+1, fmt.Sprint(i), false, &got)
	}
	b.w.Step()
	if fmt.Sprint(got) != "[0:ok 1:ok 2:ok 3:ok 4:ok]" {
		t.Fatalf("results %v", got)
	}
	if n := b.w.Stats.Syncs.Load(); n != 1 {
		t.Fatalf("%d syncs for one group, want 1", n)
	}
	texts, res, err := b.entries(0)
	if err != nil || fmt.Sprint(texts) != "[0 1 2 3 4]" || res.End != b.w.Synced() {
		t.Fatalf("replayed %v, %+v, %v; synced up to %v", texts, res, err, b.w.Synced())
	}
}

func TestOSDurabilitySyncsOnlyAtBarriers(t *testing.T) {
	b := newBench(t, Options{Durability: OS})
	var got []string
	b.append(1, "a", false, &got)
	b.w.Step()
	if texts, _, err := b.entries(0); err != nil || len(texts) != 0 || len(got) != 1 {
		t.Fatalf("without a sync %v is on disk (%v), answered %v", texts, err, got)
	}
	b.w.Append(&Record{Barrier: true, Done: func(at Placement, err error) {
		if err != nil || base.At(at.File.Number, at.Pos) != b.w.Synced() {
			t.Errorf("barrier at %v, %v; synced %v", at, err, b.w.Synced())
		}
		got = append(got, "barrier")
	}})
	b.w.Step()
	if texts, _, err := b.entries(0); err != nil || len(texts) != 1 || len(got) != 2 {
		t.Fatalf("after a barrier %v is on disk (%v), answered %v", texts, err, got)
	}
}

func TestRollKeepsOrder(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	pad := string(make([]byte, 9000))
	for i := range uint64(20) {
		b.append(i+1, fmt.Sprintf("%02d", i)+pad, false, &got)
		if i%3 == 0 {
			b.w.Step()
		}
	}
	b.w.Step()
	texts, _, err := b.entries(0)
	if err != nil || len(texts) != 20 || b.w.Stats.Files.Load() < 3 {
		t.Fatalf("%d entries in %d files, %v", len(texts), b.w.Stats.Files.Load(), err)
	}
	for i, s := range texts {
		if s[:2] != fmt.Sprintf("%02d", i) {
			t.Fatalf("entry %d is %s", i, s[:2])
		}
	}
}

func TestTooLargeIsRefused(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	b.append(1, string(make([]byte, b.w.MaxPayload()+16-segment.FrameHeader)), false, &got)
	b.w.Step()
	if want := fmt.Sprint(":", base.CodeMessageTooLarge); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		t.Fatalf("result ends in %q", got[0][max(0, len(got[0])-8):])
	}
	b2 := newBench(t, Options{})
	got = nil
	b2.append(1, string(make([]byte, b2.w.MaxPayload()-segment.FrameHeader)), false, &got)
	b2.w.Step()
	if len(got) != 1 || !strings.HasSuffix(got[0], ":ok") {
		t.Fatal("the largest entry was refused")
	}
}

func TestFullDiskTakesControlEntries(t *testing.T) {
	b := newBench(t, Options{})
	b.faults.Inject(vfs.Rule{Ops: vfs.OpCreate, Path: "wal-*", Err: syscall.ENOSPC})
	var got []string
	pad := string(make([]byte, 8000))
	for i := range uint64(7) {
		b.append(i+1, fmt.Sprint(i)+pad, false, &got)
	}
	b.w.Step()
	if b.w.State() != StateFull {
		t.Fatalf("state %d with a full disk, results %d", b.w.State(), len(got))
	}
	// What the shard proposed after the refusal, not knowing, is refused too; a new generation is not.
	got = nil
	b.append(8, "stale", true, &got)
	b.w.Append(&Record{Frame: segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: 7, Term: 1, Command: []byte("control")}, Control: true, Gen: 2,
		Done: func(_ Placement, err error) { got = append(got, fmt.Sprint("control:", err)) }})
	b.w.Step()
	if len(got) != 2 || got[0] == "stale:ok" || got[1] != "control:<nil>" {
		t.Fatalf("results %v", got)
	}
	b.faults.Clear()
	b.w.Append(&Record{Frame: segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: 8, Term: 1, Command: []byte("data" + pad)}, Gen: 2,
		Done: func(_ Placement, err error) { got = append(got, fmt.Sprint("data:", err)) }})
	b.w.Step()
	if got[2] != "data:<nil>" || b.w.State() != StateHealthy {
		t.Fatalf("after space came back: %v, state %d", got[2:], b.w.State())
	}
}

func TestFailedGroupIsVoid(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	b.append(1, "before", false, &got)
	b.w.Step()
	b.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	b.append(2, "failed", false, &got)
	b.w.Step()
	if !errors.Is(b.w.Failed(), syscall.EIO) || b.w.State() != StateFailed {
		t.Fatalf("failed %v, state %d", b.w.Failed(), b.w.State())
	}
	b.append(3, "refused", false, &got)
	b.w.Step()
	term, err := b.w.Recover()
	if err != nil || term != 2 {
		t.Fatalf("recovered under term %d, %v", term, err)
	}
	b.w.Append(&Record{Frame: segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: 2, Term: 1, Command: []byte("old term")}, Gen: 9,
		Done: func(_ Placement, err error) { got = append(got, fmt.Sprint("old term:", err != nil)) }})
	b.w.Append(&Record{Frame: segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: 2, Term: 2, Command: []byte("after")}, Gen: 10,
		Done: func(_ Placement, err error) { got = append(got, fmt.Sprint("after:", err)) }})
	b.w.Step()
	storage := base.CodeStorage
	want := fmt.Sprintf("[before:ok failed:%d refused:%d old term:true after:<nil>]", storage, storage)
	if fmt.Sprint(got) != want {
		t.Fatalf("results %v, want %s", got, want)
	}
	for _, percent := range []int{0, 50, 100} {
		texts, _, err := b.entries(percent)
		if err != nil || fmt.Sprint(texts) != "[before after]" {
			t.Fatalf("with %d %% of the unsynced blocks: replayed %v, %v", percent, texts, err)
		}
	}
}

func TestIdleMarksAndZeroes(t *testing.T) {
	b := newBench(t, Options{FileSize: 2 << 20})
	var got []string
	b.append(1, "a", false, &got)
	b.w.Step()
	end := b.w.Synced()
	steps := 0
	for b.w.Idle() {
		steps++
	}
	if steps < 4 || b.w.zeroed < 1<<20 {
		t.Fatalf("%d idle steps, zeroed up to %d", steps, b.w.zeroed)
	}
	// A mark makes damage of what was synced before it recognizable.
	_, res, err := b.entries(0)
	if err != nil || res.End <= end {
		t.Fatalf("no mark: the log ends at %v, %v", res.End, err)
	}
	b.append(2, "b", false, &got)
	b.w.Step()
	if texts, _, err := b.entries(0); err != nil || fmt.Sprint(texts) != "[a b]" {
		t.Fatalf("replayed %v, %v", texts, err)
	}
}

// FuzzReplay hands arbitrary bytes to recovery as the content of a log file behind a valid header.
func FuzzReplay(f *testing.F) {
	h := segment.Header{Kind: segment.KindWAL, Number: 1, Salt: 1}
	fr := segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: 1, Term: 1, Command: []byte("x")}
	f.Add(fr.AppendHead(nil, 1, segment.DataStart, nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		disk := vfs.NewCrashing()
		if err := disk.MkdirAll("/log", 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := segment.Create(disk, "/log", h, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 {
			if _, err := file.Handle().WriteAt(data, segment.DataStart); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Publish(); err != nil {
			t.Fatal(err)
		}
		store := segment.NewStore(disk, "/log")
		store.Register(file)
		defer store.Close()
		res, err := Replay(store, 0, func(Placement, *segment.Frame) error { return nil })
		if err == nil && int(res.End.Offset()) > segment.DataStart+len(data)+7 {
			t.Fatalf("the log ends at %v, the file has %d bytes of data", res.End, len(data))
		}
	})
}
