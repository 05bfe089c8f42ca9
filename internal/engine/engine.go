package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/coord/txn"
	"godwit/internal/journal"
	"godwit/internal/journal/single"
	"godwit/internal/meta"
	"godwit/internal/shard"
	"godwit/internal/storage/compact"
	"godwit/internal/storage/segment"
	"godwit/internal/storage/state"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// Options of an engine. Zero values of the sizes and times mean the defaults that Open fills in.
type Options struct {
	FS     vfs.FS
	Dir    string
	Clock  clock.Clock
	Rand   *rand.Rand // identifiers, salts, and the order of turns when stepped; used under a lock
	Log    *slog.Logger
	Shards int // data shards of a new node; 63 by default, fixed once the directory exists

	FileSize       int64 // of a WAL file, bytes; 256 MiB by default
	ReserveFree    int64 // bytes of free disk that data may not use
	Durability     wal.Durability
	ProducerExpiry time.Duration     // producer.id.expiration.ms; 24 h by default
	TopicDefaults  map[string]string // broker-wide topic configuration
	Limits         meta.Limits
	Groups         group.Options
	Shares         share.Options   // share.DefaultOptions by default
	Streams        streams.Options // streams.DefaultOptions by default
	Txns           txn.Options     // txn.DefaultOptions by default

	DeadLetterPrefix *string // errors.deadletterqueue.topic.name.prefix; "dlq." by default, "" for any name

	CheckpointEvery time.Duration // 30 s by default
	RetentionEvery  time.Duration // 10 s by default

	Stepped bool // nothing runs by itself: see Step
}

func (o *Options) fill() {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	defT := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Shards == 0 {
		o.Shards = 63
	}
	def(&o.FileSize, 256<<20)
	if o.DeadLetterPrefix == nil {
		o.DeadLetterPrefix = new("dlq.")
	}
	if o.Shares.MaxSize == 0 {
		o.Shares = share.DefaultOptions()
	}
	if o.Streams.MaxSize == 0 {
		o.Streams = streams.DefaultOptions()
	}
	if o.Txns.MaxTimeout == 0 {
		o.Txns = txn.DefaultOptions()
	}
	defT(&o.ProducerExpiry, 24*time.Hour)
	defT(&o.CheckpointEvery, 30*time.Second)
	defT(&o.RetentionEvery, 10*time.Second)
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Engine is one node's shards over one journal.
type Engine struct {
	opts Options
	lock io.Closer

	identity Identity
	store    *segment.Store
	state    *state.Store

	writer  *wal.Writer
	single  *single.Journal
	journal journal.Journal
	loops   []*loop
	logs    logMap
	term    atomic.Uint64
	closed  atomic.Bool

	view    atomic.Pointer[meta.View]
	changed broadcast // the view

	groupConfigs configMap
	queueWatches queueWatches

	randMu sync.Mutex // guards opts.Rand

	ckpt   checkpointer
	losses lossTotals

	compacting sync.Mutex // one run at a time
	compactor  *compact.Compactor

	stop    chan struct{}
	running sync.WaitGroup
}

// broadcast wakes everyone who waits for the next change.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

func (e *Engine) loop(id base.ShardID) *loop {
	if int(id) >= len(e.loops) {
		return e.loops[0] // it will not know the log
	}
	return e.loops[id]
}

// Start lets the loops and tasks run. The engine serves when it returns.
func (e *Engine) Start() error {
	if !e.opts.Stepped {
		go e.single.Run()
	}
	e.lead(e.writer.Term())
	if err := e.bootstrap(); err != nil {
		return err
	}
	if !e.opts.Stepped {
		e.every(e.opts.CheckpointEvery, "checkpoint", e.Checkpoint)
		e.every(e.opts.RetentionEvery, "retention", e.Retain)
		e.every(e.opts.RetentionEvery, "compaction", e.Compact)
		e.every(expireEvery, "expiry", e.Expire)
		e.running.Go(e.watchFiles)
	}
	return nil
}

// expireEvery is how often idle offsets and producers are looked for; each look visits all of them.
const expireEvery = time.Minute

// every runs a task again and again until the engine stops; a failure is logged and the task tried
// again at its next time.
func (e *Engine) every(d time.Duration, name string, task func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	e.running.Go(func() {
		defer cancel()
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if err := task(ctx); err != nil && !errors.Is(err, context.Canceled) {
					e.opts.Log.Warn(name+" failed; it is tried again", "error", err)
				}
			case <-e.stop:
				return
			}
		}
	})
	go func() {
		<-e.stop
		cancel()
	}()
}

// lead tells every shard that it may propose under a term.
func (e *Engine) lead(term uint64) {
	e.term.Store(term)
	for _, l := range e.loops {
		l.post(message{leading: term})
	}
}

// Term is the term under which the node writes now; a partition's leader epoch.
func (e *Engine) Term() uint64 { return e.term.Load() }

// View is the metadata.
func (e *Engine) View() *meta.View { return e.view.Load() }

// AwaitView waits until the metadata fulfils a condition.
func (e *Engine) AwaitView(ctx context.Context, ok func(*meta.View) bool) error {
	for {
		c := e.changed.wait()
		if ok(e.View()) {
			return nil
		}
		if err := e.await(ctx, c); err != nil {
			return err
		}
	}
}

// await waits for c; when stepped, by letting others take their turns.
func (e *Engine) await(ctx context.Context, c <-chan struct{}) error {
	for e.opts.Stepped {
		select {
		case <-c:
			return nil
		default:
		}
		if !e.Step() {
			return base.Errorf(base.CodeNotReady, "nothing is left to do, and what was waited for has not happened")
		}
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return base.Errorf(base.CodeTimeout, "not done in time: %v", ctx.Err())
	case <-e.stop:
		return base.Errorf(base.CodeShutdown, "the broker is stopping")
	}
}

// ticket lets a caller give up on a function that it left with a loop: once withdraw has returned, the function has run
// or never will, and what it writes to is the caller's own again.
type ticket struct {
	state atomic.Int32 // 0: waiting, 1: run, 2: withdrawn
	ran   chan struct{}
}

func newTicket() *ticket { return &ticket{ran: make(chan struct{})} }

// use reports whether the function should run; then it ends with done.
func (t *ticket) use() bool { return t.state.CompareAndSwap(0, 1) }

func (t *ticket) done() { close(t.ran) }

func (t *ticket) withdraw() {
	if !t.state.CompareAndSwap(0, 2) {
		<-t.ran
	}
}

// Call runs fn in the loop of a shard and waits for it.
func (e *Engine) Call(ctx context.Context, id base.ShardID, fn func(m *shard.Machine)) error {
	t := newTicket()
	e.loop(id).post(message{call: func(l *loop) {
		if t.use() {
			fn(l.m)
			t.done()
		}
	}})
	err := e.await(ctx, t.ran)
	if err != nil {
		t.withdraw()
	}
	return err
}

// consult has the loop of a shard run fn, and waits until fn, or what it sets going there, calls reply, which it has to do once. It
// returns what reply was given. When ctx ends first, fn has run or never will.
func (e *Engine) consult(ctx context.Context, id base.ShardID, fn func(l *loop, reply func(error))) error {
	done, t := make(chan struct{}), newTicket()
	var failure error
	e.loop(id).post(message{call: func(l *loop) {
		if t.use() {
			fn(l, func(err error) { failure = err; close(done) })
			t.done()
		}
	}})
	if err := e.await(ctx, done); err != nil {
		t.withdraw()
		return err
	}
	return failure
}

// Decide runs fn in the loop of a shard; the command that it returns is proposed at once, and Decide waits for it
// to be applied. A nil command with a nil error means that there is nothing to do.
func (e *Engine) Decide(ctx context.Context, id base.ShardID, fn func(m *shard.Machine, now int64) (*shard.Command, error)) (*shard.Applied, error) {
	done, t := make(chan struct{}), newTicket()
	var applied *shard.Applied
	var failure error
	e.loop(id).post(message{call: func(l *loop) {
		if !t.use() {
			return
		}
		l.flush()
		c, err := fn(l.m, l.now())
		t.done()
		if err != nil || c == nil {
			failure = err
			close(done)
			return
		}
		l.command(c, func(a *shard.Applied, err error) {
			applied, failure = a, err
			close(done)
		})
	}})
	if err := e.await(ctx, done); err != nil {
		t.withdraw()
		return nil, err
	}
	return applied, failure
}

// publish shows what an entry changed, to readers and to those who wait.
func (e *Engine) publish(l *loop, a *shard.Applied) {
	for _, id := range a.Created {
		e.logs.put(id, &logState{shard: l.id})
	}
	for _, t := range a.Trimmed {
		e.show(l, t.Log)
		e.store.Trim(t.Log, t.Start)
	}
	for _, id := range a.Grown {
		e.show(l, id)
	}
	for _, id := range a.Purged {
		e.show(l, id)
	}
	for _, id := range a.Dropped {
		s := e.logs.get(id)
		e.logs.drop(id)
		e.store.Drop(id)
		if s != nil {
			s.signal(id)
		}
	}
	if len(a.Losses) > 0 {
		e.losses.add(a.Losses)
		for _, loss := range a.Losses {
			e.opts.Log.Warn("records were removed before a group saw them", "group", loss.Group, "topic", loss.Name, "partition", loss.Partition, "from", loss.From, "to", loss.To, "count", loss.Count, "cause", string(loss.Cause))
		}
	}
	if a.Meta {
		e.view.Store(l.m.Meta.View)
		e.changed.wake()
		if !a.Stream.IsZero() && l.term != 0 {
			l.effects.dispatch(l, a.Stream)
		}
	}
}

func (e *Engine) show(l *loop, id base.LogID) {
	log, ok := l.m.Log(id)
	s := e.logs.get(id)
	if ok && s != nil {
		s.publish(log)
		s.signal(id)
	}
}

// Durability is the level at which the node acknowledges.
func (e *Engine) Durability() wal.Durability { return e.opts.Durability }

// Store is the index of data files, for the compactor and metrics.
func (e *Engine) Store() *segment.Store { return e.store }

// Writer has the counters of the log.
func (e *Engine) Writer() *wal.Writer { return e.writer }

// Close stops: requests that come later are refused, what is queued is written, the state checkpointed.
func (e *Engine) Close(ctx context.Context) error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.Checkpoint(ctx)
	close(e.stop)
	if !e.opts.Stepped {
		e.running.Wait()
		e.single.Stop()
	}
	for _, l := range e.loops {
		l.stop()
	}
	return errors.Join(err, e.release())
}

// release gives back files and locks, without writing anything.
func (e *Engine) release() error {
	var errs []error
	if e.state != nil {
		errs = append(errs, e.state.Close())
	}
	e.store.Close()
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing %s: %w", e.opts.Dir, err)
	}
	return nil
}

// Roll goes on with a new log file, so that the present one can be sealed.
func (e *Engine) Roll(ctx context.Context) error {
	done := make(chan struct{})
	var failure error
	e.writer.Append(&wal.Record{Barrier: true, Roll: true, Done: func(_ wal.Placement, err error) { failure = err; close(done) }})
	if err := e.await(ctx, done); err != nil {
		return err
	}
	return failure
}

// Abort gives up without writing anything, as if the process had been killed. Only a stepped engine can be aborted.
func (e *Engine) Abort() {
	if !e.closed.Swap(true) {
		close(e.stop)
		e.release()
	}
}
