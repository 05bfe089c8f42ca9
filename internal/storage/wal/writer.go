package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/invariants"
	"godwit/internal/storage/segment"
	"godwit/internal/vfs"
)

// Durability says when a record counts as written.
type Durability uint8

// The levels of durability.
const (
	Sync Durability = iota // after fdatasync
	OS                     // after write: it survives the process, not the machine
)

func (d Durability) String() string {
	if d == OS {
		return "os"
	}
	return "sync"
}

// Options of a writer.
type Options struct {
	FileSize    int64      // bytes of one file, at least 64 KiB, below 4 GiB
	ReserveFree int64      // free bytes that a new data file must leave on the disk
	Durability  Durability // Sync by default
	Clock       clock.Clock
	Rand        *rand.Rand // salts of files
}

// Record is one entry on its way to the log. Frame.Payload is not used: the payload comes in
// pieces. The writer refers to all of it until Done.
type Record struct {
	Frame   segment.Frame
	Payload [][]byte
	Control bool   // may use the room kept for when the disk is full
	Gen     uint32 // the shard's generation of proposals: see Writer.refuse
	Barrier bool   // no frame: sync what was written before, whatever the durability; it is placed behind it
	Roll    bool   // of a barrier: go on with a new file, unless this one is empty
	Done    func(at Placement, err error)
}

// Placement is where a record's payload begins. The file is borrowed: who keeps it indexes it in the store.
type Placement struct {
	File *segment.File
	Pos  uint32
}

// maxGroup bounds the bytes of one group: a sync that ends meanwhile waits for its write to be noticed.
const maxGroup = 1 << 20

// Stats are the writer's counters since it was made.
type Stats struct {
	Records, Groups, Syncs, Bytes, Files atomic.Int64
	SyncNanos                            atomic.Int64
}

// answer is what becomes of a record, or a call that waits for the answers before it.
type answer struct {
	r    *Record
	at   Placement
	err  error
	call func()
}

func (a *answer) give() {
	if a.call != nil {
		a.call()
		return
	}
	a.r.Done(a.at, a.err)
}

// Writer appends to the log. Append is safe for concurrent use; everything else belongs to the one
// goroutine that calls Run or Step.
type Writer struct {
	Stats Stats

	store *segment.Store
	opts  Options

	mu     sync.Mutex
	queue  []*Record
	queued int           // bytes in queue
	wake   chan struct{} // capacity 1: the queue is not empty

	rolled chan struct{} // capacity 1: see Rolled

	file   *segment.File
	tail   uint32 // where the next frame begins
	zeroed uint32 // bytes below this were written before, in this file or as zeros
	marked base.Position
	term   uint64
	failed error
	// fenced has the highest generation of a shard of which a record was refused. What the shard proposed after
	// that record, not knowing, is refused too, so that its entries have no gap.
	fenced map[base.ShardID]uint32

	synced atomic.Uint64 // base.Position
	state  atomic.Uint32

	spare []*Record
	heads []byte
	bufs  [][]byte

	answers []answer      // not given yet, in order
	settled int           // so many of them may be given; the others wait for a sync
	sink    chan []answer // to the goroutine that gives them; nil: they are given at the end of a step
	flight  flight
}

// The states a writer reports.
const (
	StateHealthy uint32 = iota
	StateFull
	StateFailed
)

// Begin makes a writer whose first file is number, following prev up to prevEnd.
func Begin(store *segment.Store, o Options, term uint64, number uint32, prev base.Position) (*Writer, error) {
	w := &Writer{store: store, opts: o, wake: make(chan struct{}, 1), rolled: make(chan struct{}, 1), term: term, fenced: map[base.ShardID]uint32{}}
	if err := w.begin(number, prev, false); err != nil {
		return nil, err
	}
	return w, nil
}

// begin starts file number; checkFree refuses to do so if that would eat into the reserve.
func (w *Writer) begin(number uint32, prev base.Position, checkFree bool) error {
	if checkFree && w.opts.ReserveFree > 0 {
		du, err := w.store.FS.GetDiskUsage(w.store.Dir)
		if err == nil && int64(min(du.AvailBytes, 1<<62)) < w.opts.FileSize+w.opts.ReserveFree {
			return syscall.ENOSPC
		}
	}
	f, err := segment.Create(w.store.FS, w.store.Dir, segment.Header{
		Kind: segment.KindWAL, Number: number, Salt: w.opts.Rand.Uint32(), PrevFile: prev.File(), PrevEnd: prev.Offset(),
		Term: w.term, Created: w.opts.Clock.Now().UnixMilli(),
	}, w.opts.FileSize)
	if err != nil {
		return err
	}
	if err := f.Publish(); err != nil {
		return err
	}
	w.store.Register(f)
	w.file, w.tail, w.zeroed = f, segment.DataStart, segment.DataStart
	w.marked = base.At(number, w.tail)
	w.synced.Store(uint64(w.marked))
	w.Stats.Files.Add(1)
	select {
	case w.rolled <- struct{}{}:
	default:
	}
	return nil
}

// Rolled receives after the writer began a file.
func (w *Writer) Rolled() <-chan struct{} { return w.rolled }

// Append queues a record. Done may be called before Append returns.
func (w *Writer) Append(r *Record) {
	size := r.size()
	w.mu.Lock()
	w.queue = append(w.queue, r)
	w.queued += size
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Synced is the position below which everything is on disk.
func (w *Writer) Synced() base.Position { return base.Position(w.synced.Load()) }

// State is StateHealthy, StateFull or StateFailed.
func (w *Writer) State() uint32 { return w.state.Load() }

// MaxPayload is the largest record, head and payload together, that a file can hold.
func (w *Writer) MaxPayload() int {
	return int(w.opts.FileSize-w.controlRoom()) - segment.Padded(segment.DataStart+1)
}

// controlRoom is what data leaves free in every file for control records.
func (w *Writer) controlRoom() int64 { return min(1<<20, w.opts.FileSize/8) }

// answerQueue is how many groups may wait to be answered while the next ones are written.
const answerQueue = 16

// Attended has answers given by a goroutine of their own, in their order, until the returned function is called; it returns when
// all are given. It must be called before the writer runs.
func (w *Writer) Attended() (finish func()) {
	w.sink = make(chan []answer, answerQueue)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for batch := range w.sink {
			for i := range batch {
				batch[i].give()
			}
		}
	}()
	return func() {
		close(w.sink)
		<-done
		w.sink = nil
	}
}

// RunUntilFailed writes until stop is closed, then writes what is queued and returns false; or until
// a failure, and returns true. What is queued at a failure is refused.
func (w *Writer) RunUntilFailed(stop <-chan struct{}) bool {
	land := w.fly()
	defer land()
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	for w.failed == nil {
		select {
		case <-w.wake:
			w.advance()
			idle.Reset(idleAfter)
		case l := <-w.flight.landed:
			w.land(l)
			w.advance()
			idle.Reset(idleAfter)
		case <-idle.C:
			if w.Idle() {
				idle.Reset(0)
			}
		case <-stop:
			for w.Step() {
			}
			w.Idle()
			return false
		}
	}
	for w.Step() {
	}
	return true
}

// Failed is the error that made the writer fail; nil while it is healthy.
func (w *Writer) Failed() error { return w.failed }

// Pending reports whether records are queued, or wait for a sync. It belongs to the writer's goroutine.
func (w *Writer) Pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) > 0 || w.unsettled()
}

// unsettled reports whether something waits for a sync.
func (w *Writer) unsettled() bool { return w.settled < len(w.answers) }

// take empties the queue.
func (w *Writer) take() []*Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	recs := w.queue
	w.queue, w.queued = w.spare[:0], 0
	w.spare = nil
	return recs
}

// took takes the slice back for the next queue.
func (w *Writer) took(recs []*Record) {
	clear(recs)
	w.spare = recs
}

// Step writes everything that is queued now, has it durable and answered, and reports whether there was anything.
func (w *Writer) Step() bool {
	recs := w.take()
	any := len(recs) > 0 || w.unsettled()
	for rest := recs; len(rest) > 0; {
		rest = w.writeGroup(rest)
		w.flush()
		w.deliver()
	}
	w.flush()
	w.deliver()
	w.took(recs)
	return any
}

// WriteAhead writes everything that is queued now and leaves the sync to a later Step, as happens while another sync is
// under way.
func (w *Writer) WriteAhead() {
	recs := w.take()
	for rest := recs; len(rest) > 0; {
		rest = w.writeGroup(rest)
		w.deliver()
	}
	w.took(recs)
}

// deliver passes the answers on that are settled. While the writer runs by itself another goroutine gives them, so that the
// next group is written meanwhile.
func (w *Writer) deliver() {
	if w.settled == 0 {
		return
	}
	batch := w.answers[:w.settled:w.settled]
	w.answers = append([]answer(nil), w.answers[w.settled:]...)
	w.settled = 0
	if w.sink != nil {
		w.sink <- batch
		return
	}
	for i := range batch {
		batch[i].give()
	}
}

// answer adds an answer that depends on no sync of its own; it keeps its place in the order.
func (w *Writer) answer(a answer) {
	if !w.unsettled() {
		w.settled++
	}
	w.answers = append(w.answers, a)
}

// After calls fn behind all answers that were due so far. It belongs to the writer's goroutine.
func (w *Writer) After(fn func()) {
	w.answer(answer{call: fn})
	w.deliver()
}

// writeGroup writes the longest prefix of recs that makes one group, and returns what is left.
func (w *Writer) writeGroup(recs []*Record) []*Record {
	if w.failed != nil || w.isFenced(recs[0]) {
		w.refuse(recs[0], w.refusal())
		return recs[1:]
	}
	w.heads, w.bufs = w.heads[:0], w.bufs[:0]
	at, n, bytes := w.tail, 0, 0
	for ; n < len(recs) && bytes < maxGroup; n++ {
		r := recs[n]
		if w.isFenced(r) {
			break
		}
		if r.Barrier {
			if w.opts.Durability == OS || r.Roll {
				n++
				break
			}
			continue
		}
		size := r.size()
		if !w.fits(at, size, r.Control) {
			break
		}
		at += uint32(segment.Padded(size))
		bytes += size
	}
	if n == 0 {
		return w.makeRoom(recs)
	}
	group := recs[:n]
	w.encode(group, at)
	if err := w.write(at); err != nil {
		w.join()
		w.fail(err)
		for _, r := range group {
			w.refuse(r, w.refusal())
		}
		return recs[n:]
	}
	w.complete(group)
	if w.opts.Durability == OS {
		w.settleUnsynced(group[n-1].Barrier)
	}
	if group[n-1].Roll && w.failed == nil && w.tail > segment.DataStart {
		if err := w.roll(); errors.Is(err, syscall.ENOSPC) {
			w.setFull(true)
		} else if err != nil {
			w.fail(err)
		}
	}
	return recs[n:]
}

// isFenced reports whether a record was proposed in ignorance of a refusal: of an earlier record of its
// shard, or of everything under an earlier term.
func (w *Writer) isFenced(r *Record) bool {
	if !r.isEntry() {
		return false
	}
	if r.Frame.Term < w.term {
		return true
	}
	gen, ok := w.fenced[r.Frame.Shard]
	return ok && r.Gen <= gen
}

func (r *Record) isEntry() bool { return !r.Barrier && r.Frame.Kind == segment.FrameEntry }

// fence has what a shard proposed behind a refused record refused too.
func (w *Writer) fence(r *Record) {
	if r.isEntry() {
		w.fenced[r.Frame.Shard] = max(w.fenced[r.Frame.Shard], r.Gen)
	}
}

func (w *Writer) refuse(r *Record, err error) {
	w.fence(r)
	w.answer(answer{r: r, err: err})
}

func (r *Record) size() int {
	n := r.Frame.HeadSize()
	for _, p := range r.Payload {
		n += len(p)
	}
	return n
}

func (w *Writer) fits(at uint32, size int, control bool) bool {
	end := int64(at) + int64(segment.Padded(size))
	if control {
		return end <= w.opts.FileSize
	}
	return end <= w.opts.FileSize-w.controlRoom()
}

// padding fills the gap between frames.
var padding [8]byte

// encode gathers the frames of a group that begins at the tail.
func (w *Writer) encode(group []*Record, end uint32) {
	need := 0
	for _, r := range group {
		need += r.Frame.HeadSize()
	}
	if cap(w.heads) < need {
		w.heads = make([]byte, 0, need*2)
	}
	at, synced := w.tail, w.Synced()
	for _, r := range group {
		if r.Barrier {
			continue
		}
		r.Frame.Synced = synced
		from := len(w.heads)
		w.heads = r.Frame.AppendHead(w.heads, w.file.Salt, at, r.Payload)
		w.bufs = append(w.bufs, w.heads[from:len(w.heads):len(w.heads)])
		for _, p := range r.Payload {
			if len(p) > 0 {
				w.bufs = append(w.bufs, p)
			}
		}
		size := r.size()
		if pad := segment.Padded(size) - size; pad > 0 {
			w.bufs = append(w.bufs, padding[:pad])
		}
		at += uint32(segment.Padded(size))
	}
	invariants.Check(at == end, "group ends at %d, %d bytes were encoded", end, at)
}

// write writes the gathered bytes.
func (w *Writer) write(end uint32) error {
	if len(w.bufs) > 0 {
		if err := vfs.Writev(w.file.Handle(), int64(w.tail), w.bufs); err != nil {
			return err
		}
		clear(w.bufs)
	}
	w.Stats.Bytes.Add(int64(end - w.tail))
	w.tail, w.zeroed = end, max(w.zeroed, end)
	return nil
}

// complete makes the answers of a group that was written; they wait for a sync.
func (w *Writer) complete(group []*Record) {
	w.Stats.Groups.Add(1)
	w.Stats.Records.Add(int64(len(group)))
	at := w.tail
	for _, r := range group {
		if !r.Barrier {
			at -= uint32(segment.Padded(r.size()))
		}
	}
	for _, r := range group {
		if r.Barrier {
			w.answers = append(w.answers, answer{r: r, at: Placement{w.file, at}})
			continue
		}
		size, head := r.size(), r.Frame.HeadSize()
		w.answers = append(w.answers, answer{r: r, at: Placement{w.file, at + uint32(head)}})
		at += uint32(segment.Padded(size))
	}
}

// makeRoom goes on to the next file, or refuses the first record if there can be none.
func (w *Writer) makeRoom(recs []*Record) []*Record {
	r := recs[0]
	if limit := w.MaxPayload(); r.size() > limit {
		w.refuse(r, base.Errorf(base.CodeMessageTooLarge, "entry of %d bytes exceeds the %d that a log file holds", r.size(), limit))
		return recs[1:]
	}
	err := w.roll()
	switch {
	case err == nil:
		w.setFull(false)
		return recs
	case errors.Is(err, syscall.ENOSPC):
		w.setFull(true)
	default:
		w.fail(err)
	}
	w.refuse(r, w.refusal())
	return recs[1:]
}

// roll syncs the file to its end and starts the next one.
func (w *Writer) roll() error {
	if w.flush(); w.failed != nil {
		return w.failed
	}
	if w.Synced() != w.end() {
		if w.sync(); w.failed != nil {
			return w.failed
		}
	}
	return w.begin(w.file.Number+1, w.end(), true)
}

func (w *Writer) setFull(full bool) {
	switch {
	case w.failed != nil:
		w.state.Store(StateFailed)
	case full:
		w.state.Store(StateFull)
	default:
		w.state.Store(StateHealthy)
	}
}

// fail ends writing until Recover, and refuses what waits for a sync.
func (w *Writer) fail(err error) {
	w.failed = err
	w.state.Store(StateFailed)
	for i := w.settled; i < len(w.answers); i++ {
		if a := &w.answers[i]; a.r != nil && a.err == nil {
			*a = answer{r: a.r, err: w.refusal()}
			w.fence(a.r)
		}
	}
	w.settled = len(w.answers)
}

// refusal is what records get while the writer cannot write.
func (w *Writer) refusal() error {
	switch {
	case w.failed != nil && errors.Is(w.failed, syscall.ENOSPC):
		return &base.Error{Code: base.CodeDiskFull, Msg: fmt.Sprintf("the disk is full: %v", w.failed)}
	case w.failed != nil:
		return &base.Error{Code: base.CodeStorage, Msg: fmt.Sprintf("the log cannot be written: %v", w.failed)}
	case w.State() == StateFull:
		return base.Errorf(base.CodeDiskFull, "the disk is full: free space, or lower the retention of some topic")
	}
	return base.Errorf(base.CodeStorage, "an earlier write of this shard was refused: try again")
}

// Recover begins a new file under a new term after a failure, and returns the term. What was not known to
// be synced before is void from then on. It must not be called on a writer that has not failed, nor beside Step.
func (w *Writer) Recover() (term uint64, err error) {
	invariants.Check(w.failed != nil, "recovering a writer that has not failed")
	w.term++
	if err := w.begin(w.file.Number+1, w.Synced(), false); err != nil {
		w.term--
		w.failed = err
		return 0, err
	}
	w.failed = nil
	w.setFull(false)
	return w.term, nil
}

// Term is the term of frames written now.
func (w *Writer) Term() uint64 { return w.term }
