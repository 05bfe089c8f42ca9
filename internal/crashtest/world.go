package crashtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/group"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
	"godwit/internal/vfs"
)

// Op is one step of a run. What its numbers mean depends on the kind.
type Op struct {
	Kind Kind
	A, B uint16
}

// Kind is a kind of step.
type Kind uint8

// The kinds of steps.
const (
	Produce      Kind = iota // A: log, B: size and producer
	Turns                    // let A loops take a turn
	Checkpoint               //
	Retain                   // advance the clock by A seconds, then apply retention
	Delete                   // raise the start of log A to the share B of its records
	CreateStream             //
	DropStream               // A: stream
	Roll                     // go on with a new log file, then checkpoint
	Compact                  // compact by key, and move what is alive out of mostly dead files; A even: go on with a new file first
	Cut                      // power off now
	CutAt                    // power off at the A-th change of the disk from now
	Restart                  // orderly
	FailSync                 // the next A syncs fail with EIO
	FillDisk                 // writes fail with ENOSPC for a while
	Transact                 // A: log, B: size and producer
	EndTxn                   // A: log, B: producer, and whether it commits
	kinds
)

var kindNames = [...]string{"produce", "turns", "checkpoint", "retain", "delete", "create", "drop", "roll", "compact", "cut", "cut-at", "restart", "fail-sync", "fill-disk", "transact", "end-txn"}

func (o Op) String() string { return fmt.Sprintf("%s %d %d", kindNames[o.Kind], o.A, o.B) }

// Kinds is the number of kinds of steps.
func Kinds() int { return int(kinds) }

// Config is how a run is set up.
type Config struct {
	Seed       uint64
	DropSyncs  bool // a disk, or a program, that does not sync: runs must fail
	Percentage int  // of unsynced blocks that a power loss leaves; below 0: by chance
}

// world is one machine over its lives.
type world struct {
	cfg     Config
	rng     *rand.Rand
	disk    *vfs.Crashing
	faults  *vfs.Faults
	clock   *clock.Manual
	e       *engine.Engine
	streams []*stream
	next    int // numbers streams and payloads

	cutIn    atomic.Int64 // changes until the power goes; 0: not armed
	cutRng   *rand.Rand   // for the cut alone, which comes from whichever goroutine changes the disk
	cutting  atomic.Bool
	after    *vfs.Crashing // valid once dead
	dead     atomic.Bool
	producer []producer
}

// producer is an idempotent producer of one log.
type producer struct {
	log  *logModel
	id   int64
	next int32
}

// Run carries out the steps from one seed. The error says what did not hold.
func Run(cfg Config, ops []Op) (err error) {
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), disk: vfs.NewCrashing(),
		clock: clock.NewManual(time.UnixMilli(1_700_000_000_000))}
	if err := w.start(); err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	for i, op := range ops {
		if err := w.step(op); err != nil {
			return fmt.Errorf("step %d, %v: %w", i, op, err)
		}
		if w.dead.Load() {
			if err := w.revive(); err != nil {
				return fmt.Errorf("after the power loss at step %d, %v: %w", i, op, err)
			}
		}
	}
	w.cut()
	return w.revive()
}

func (w *world) options() engine.Options {
	return engine.Options{
		FS: w.faults, Dir: "/data", Clock: w.clock, Rand: rand.New(rand.NewPCG(w.rng.Uint64(), 2)),
		Shards: 3, FileSize: 96 << 10, Stepped: true, Groups: group.DefaultOptions(),
		Limits: meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1},
	}
}

// start boots the machine on its disk.
func (w *world) start() error {
	w.faults = vfs.NewFaults(w.disk, w.rng.Uint64())
	w.dead.Store(false)
	w.cutting.Store(false)
	w.cutIn.Store(0)
	w.cutRng = rand.New(rand.NewPCG(w.rng.Uint64(), 3))
	if w.cfg.DropSyncs {
		w.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", After: 1, Drop: true})
	}
	w.faults.Hook(func(vfs.Event) {
		if w.cutIn.Load() > 0 && w.cutIn.Add(-1) == 0 {
			w.cut()
		}
	})
	e, err := engine.Open(w.options())
	if err != nil {
		return err
	}
	w.e = e
	return e.Start()
}

// cut takes the power away: what the disk holds is decided now. The machine does not notice and may run on; nothing
// that it does from here on counts, nor reaches the disk that the next life boots from.
func (w *world) cut() {
	if w.cutting.Swap(true) {
		return
	}
	percent := w.cfg.Percentage
	if percent < 0 {
		percent = w.cutRng.IntN(101)
	}
	w.after = w.disk.CrashClone(w.cutRng, percent)
	w.dead.Store(true)
}

// revive boots from what the power loss left, and checks everything.
func (w *world) revive() error {
	for !w.dead.Load() { // another goroutine is cutting
		runtime.Gosched()
	}
	w.e.Abort()
	w.disk, w.after = w.after, nil
	if err := w.start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if w.dead.Load() {
		return fmt.Errorf("died again")
	}
	return w.verify()
}

// step carries out one step. Errors that the broker may answer with under faults are not failures of the run.
func (w *world) step(op Op) error {
	ctx := context.Background()
	switch op.Kind {
	case Produce:
		w.produce(int(op.A), int(op.B))
	case Transact:
		w.transact(int(op.A), int(op.B))
	case EndTxn:
		w.end(int(op.A), int(op.B))
	case Turns:
		for range op.A % 32 {
			w.e.Step()
		}
	case Checkpoint:
		return w.tolerate(w.e.Checkpoint(ctx))
	case Retain:
		w.clock.Advance(time.Duration(op.A%900) * time.Second)
		w.expectRetention()
		return w.tolerate(w.e.Retain(ctx))
	case Delete:
		return w.deleteRecords(ctx, int(op.A), int(op.B))
	case CreateStream:
		return w.createStream(ctx, 1+int(op.A%3))
	case DropStream:
		return w.dropStream(ctx, int(op.A))
	case Roll:
		if err := w.e.Roll(ctx); err != nil {
			return w.tolerate(err)
		}
		return w.tolerate(w.e.Checkpoint(ctx))
	case Compact:
		if op.A%2 == 0 {
			if err := w.e.Roll(ctx); err != nil {
				return w.tolerate(err)
			}
			if err := w.e.Checkpoint(ctx); err != nil {
				return w.tolerate(err)
			}
		}
		return w.tolerate(w.e.Compact(ctx))
	case Cut:
		w.cut()
	case CutAt:
		w.cutIn.Store(int64(op.A%400) + 1)
	case Restart:
		return w.restart(ctx)
	case FailSync:
		w.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: int(op.A%2) + 1, Err: syscall.EIO})
	case FillDisk:
		w.faults.Inject(vfs.Rule{Ops: vfs.OpCreate, Path: "wal-*", Count: int(op.A%3) + 1, Err: syscall.ENOSPC})
	}
	return nil
}

// tolerate passes errors that a faulty disk explains.
func (w *world) tolerate(err error) error {
	if err == nil || w.dead.Load() {
		return nil
	}
	switch base.CodeOf(err) {
	case base.CodeStorage, base.CodeDiskFull, base.CodeNotReady, base.CodeUnknownPartition, base.CodeUnknownStream:
		return nil
	}
	return err
}

func (w *world) restart(ctx context.Context) error {
	w.faults.Clear()
	if w.cfg.DropSyncs {
		w.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", After: 1, Drop: true})
	}
	if err := w.tolerate(w.e.Close(ctx)); err != nil || w.dead.Load() {
		return err
	}
	if err := w.start(); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if w.dead.Load() {
		return nil
	}
	return w.verify()
}

// logs lists the logs that may be written to.
func (w *world) logs() (out []*logModel) {
	for _, s := range w.streams {
		if s.created && !s.doomed {
			out = append(out, s.logs...)
		}
	}
	return out
}

func (w *world) produce(a, b int) {
	logs := w.logs()
	if len(logs) == 0 {
		return
	}
	req := &engine.Append{}
	var all []*sent
	for k := range 1 + b%3 {
		m := logs[(a+k)%len(logs)]
		records := int32(1 + (b>>2)%4)
		p := (*producer)(nil)
		if b%5 == 0 {
			p = w.producerOf(m)
		}
		var s *sent
		var info recordbatch.Info
		if m.compacted {
			s, info = w.keyedBatch(records)
		} else {
			s, info = w.batch(records, (b>>4)%3000, p)
		}
		m.batches = append(m.batches, s)
		all = append(all, s)
		req.Items = append(req.Items, engine.AppendItem{Log: m.id, Shard: m.shard,
			Data: append([]byte(nil), s.data...), Batches: []recordbatch.Info{info}})
	}
	req.Done = func(r *engine.Append) {
		if w.dead.Load() {
			return
		}
		for i := range r.Items {
			it := &r.Items[i]
			switch {
			case it.Err == nil:
				all[i].acked, all[i].base = true, it.BaseOffset
			case !base.CodeOf(it.Err).Retriable():
				all[i].refused = true
			}
		}
	}
	w.e.Append(req)
}

func (w *world) producerOf(m *logModel) *producer {
	for i := range w.producer {
		if w.producer[i].log == m {
			return &w.producer[i]
		}
	}
	w.next++
	w.producer = append(w.producer, producer{log: m, id: int64(w.next)})
	return &w.producer[len(w.producer)-1]
}

// batch makes a batch whose content is unlike that of any other.
func (w *world) batch(records int32, size int, p *producer) (*sent, recordbatch.Info) {
	w.next++
	b := make([]byte, recordbatch.HeaderSize+8+size)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	now := uint64(w.clock.Now().UnixMilli())
	binary.BigEndian.PutUint64(b[27:], now)
	binary.BigEndian.PutUint64(b[35:], now)
	pid, epoch, seq := int64(-1), int16(-1), int32(-1)
	if p != nil {
		pid, epoch, seq = p.id, 0, p.next
		p.next += records
	}
	binary.BigEndian.PutUint64(b[43:], uint64(pid))
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(seq))
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	binary.BigEndian.PutUint64(b[61:], uint64(w.next))
	for i := 69; i < len(b); i++ {
		b[i] = byte(w.rng.Uint32())
	}
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	info, err := recordbatch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	return &sent{data: b, records: records}, info
}

// readAll reads a log back, batch by batch, with offset and epoch zeroed.
func (w *world) readAll(m *logModel) (start, watermark int64, got []found, err error) {
	st, ok := w.e.State(m.id)
	if !ok {
		return 0, 0, nil, fmt.Errorf("log %d is gone", m.id)
	}
	for next := st.Start; next < st.HighWatermark; {
		r, err := w.e.Read(m.id, next, 1+w.rng.IntN(20_000), true)
		if err != nil {
			return 0, 0, nil, err
		}
		b, err := r.AppendTo(nil)
		r.Release()
		if err != nil {
			return 0, 0, nil, err
		}
		if len(b) == 0 && m.compacted {
			break
		}
		if len(b) == 0 {
			return 0, 0, nil, fmt.Errorf("log %d: nothing to read at %d, the high watermark is %d", m.id, next, st.HighWatermark)
		}
		for len(b) > 0 {
			info, err := recordbatch.ParseHeader(b)
			if err != nil || !recordbatch.VerifyCRC(b[:info.Size]) {
				return 0, 0, nil, fmt.Errorf("log %d: damaged batch at %d: %v", m.id, next, err)
			}
			one := bytes.Clone(b[:info.Size])
			recordbatch.SetBaseOffset(one, 0)
			recordbatch.SetLeaderEpoch(one, 0)
			got = append(got, found{info.BaseOffset, info.Records, one})
			next = info.LastOffset() + 1
			b = b[info.Size:]
		}
	}
	return st.Start, st.HighWatermark, got, nil
}

// verify checks the whole machine against the model, right after a start.
func (w *world) verify() error {
	w.producer = nil // their sequences may have gaps now
	view := w.e.View()
	kept := w.streams[:0]
	for _, s := range w.streams {
		st, ok := view.StreamByID(s.id)
		switch {
		case ok && s.deleted:
			return fmt.Errorf("stream %s was deleted and is back", s.name)
		case !ok && s.created && !s.doomed:
			return fmt.Errorf("stream %s was created and is gone", s.name)
		case !ok:
			continue
		}
		s.doomed, s.created = false, true
		if err := w.adopt(s, st); err != nil {
			return err
		}
		for _, m := range s.logs {
			start, watermark, got, err := w.readAll(m)
			if err != nil {
				return err
			}
			if err := m.check(start, watermark, got); err != nil {
				return err
			}
			st, _ := w.e.State(m.id)
			if err := m.checkTxns(st, w.e.Aborted(m.id), got); err != nil {
				return err
			}
			m.settle(start, watermark)
			m.settleTxns()
		}
		kept = append(kept, s)
	}
	w.streams = kept
	return nil
}

// adopt fills in the logs of a stream whose creation was not answered.
func (w *world) adopt(s *stream, st *meta.Stream) error {
	err := w.e.AwaitView(context.Background(), func(v *meta.View) bool {
		st, _ = v.StreamByID(s.id)
		return st == nil || st.Ready == len(st.Partitions)
	})
	if err != nil {
		return fmt.Errorf("stream %s does not become ready: %w", s.name, err)
	}
	if s.logs == nil {
		for _, p := range st.Partitions {
			s.logs = append(s.logs, &logModel{id: p.Log, shard: p.Shard, compacted: s.compacted})
		}
	}
	return nil
}
