package wal

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

func TestWrittenAheadWaitsForASync(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	b.append(1, "a", false, &got)
	b.w.WriteAhead()
	b.append(2, "b", false, &got)
	b.w.WriteAhead()
	if len(got) != 0 || !b.w.Pending() {
		t.Fatalf("answered %v before a sync", got)
	}
	b.w.Step()
	if fmt.Sprint(got) != "[a:ok b:ok]" || b.w.Stats.Syncs.Load() != 1 || b.w.Pending() {
		t.Fatalf("answered %v after %d syncs", got, b.w.Stats.Syncs.Load())
	}
	if texts, _, err := b.entries(0); err != nil || fmt.Sprint(texts) != "[a b]" {
		t.Fatalf("replayed %v, %v", texts, err)
	}
}

func TestFailedSyncVoidsWhatWasWrittenAhead(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	b.append(1, "before", false, &got)
	b.w.Step()
	b.append(2, "a", false, &got)
	b.w.WriteAhead()
	b.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	b.append(3, "b", false, &got)
	b.w.Step()
	b.append(4, "c", false, &got)
	b.w.Step()
	if _, err := b.w.Recover(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("[before:ok a:%[1]d b:%[1]d c:%[1]d]", base.CodeStorage); fmt.Sprint(got) != want {
		t.Fatalf("results %v, want %s", got, want)
	}
	for _, percent := range []int{0, 50, 100} {
		if texts, _, err := b.entries(percent); err != nil || fmt.Sprint(texts) != "[before]" {
			t.Fatalf("with %d %% of the unsynced blocks: replayed %v, %v", percent, texts, err)
		}
	}
}

func TestFailedWriteVoidsWhatWasWrittenAhead(t *testing.T) {
	b := newBench(t, Options{})
	var got []string
	b.append(1, "a", false, &got)
	b.w.WriteAhead()
	b.faults.Inject(vfs.Rule{Ops: vfs.OpWrite, Path: "wal-*", Count: 1, Err: syscall.EIO, Partial: true})
	b.append(2, "b", false, &got)
	b.w.Step()
	if _, err := b.w.Recover(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("[a:%[1]d b:%[1]d]", base.CodeStorage); fmt.Sprint(got) != want {
		t.Fatalf("results %v, want %s", got, want)
	}
	if texts, _, err := b.entries(100); err != nil || len(texts) != 0 {
		t.Fatalf("replayed %v, %v", texts, err)
	}
}

// TestWritesWhileItSyncs holds the first sync until the next group is written, which would be for ever if one waited for
// the other. Then that sync succeeds or fails.
func TestWritesWhileItSyncs(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			b := newBench(t, Options{FileSize: 64 << 20})
			large := strings.Repeat("x", aheadBytes)
			var got []string
			answered := make(chan struct{})
			syncing, written := make(chan struct{}), make(chan struct{})
			var syncs, writes atomic.Int32
			b.faults.Hook(func(e vfs.Event) {
				switch {
				case e.Op == vfs.OpSync && syncs.Add(1) == 1:
					close(syncing)
					<-written
					if fails {
						b.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Count: 1, Err: syscall.EIO})
					}
				case e.Op == vfs.OpWrite && writes.Add(1) == 2:
					close(written)
				}
			})
			stop, ended := make(chan struct{}), make(chan bool)
			b.append(1, "a", false, &got)
			go func() { ended <- b.w.RunUntilFailed(stop) }()
			<-syncing
			b.append(2, large, false, &got)
			b.w.Append(&Record{Barrier: true, Done: func(Placement, error) { close(answered) }})
			select {
			case <-answered:
			case <-time.After(20 * time.Second):
				t.Fatal("no answers: a sync and the next write wait for each other")
			}
			if !fails {
				close(stop)
			}
			if failed := <-ended; failed != fails {
				t.Fatalf("the writer failed: %v", failed)
			}
			want := fmt.Sprintf("[a:ok %s:ok]", large)
			if fails {
				want = fmt.Sprintf("[a:%[1]d %[2]s:%[1]d]", base.CodeStorage, large)
			}
			if fmt.Sprint(got) != want {
				t.Fatalf("results %.80v", got)
			}
		})
	}
}
