package kafka

import (
	"context"
	"sync"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
)

// memLogs is a node with logs in memory. Appends are committed when flow is open, at once by default.
type memLogs struct {
	*node
	epoch int32

	lm      sync.Mutex
	logs    map[base.LogID]*memLog
	watches map[*memWatch]bool
	reads   int // calls of Read
	held    []*broker.Append

	shareQueues memQueues
	hold        bool

	producers int64

	txns   map[memTxn]bool // open transactions
	guard  partlog.Guard   // the last one given out
	verify func(*broker.TxnCheck) []error
}

// memTxn is a producer's transaction in a log.
type memTxn struct {
	log      base.LogID
	producer int64
}

type memLog struct {
	batches []memBatch
	start   int64
	end     int64
	epochs  []partlog.Epoch
	open    int64 // last stable offset while a transaction is open; 0: none is
	aborted []partlog.Aborted
	gone    bool
}

type memBatch struct {
	base, last int64
	b          []byte
}

func newMemLogs() *memLogs {
	return &memLogs{node: newNode(), epoch: 5, logs: map[base.LogID]*memLog{}, watches: map[*memWatch]bool{}, txns: map[memTxn]bool{}}
}

func (m *memLogs) LeaderEpoch(meta.Partition) int32 { return m.epoch }

// log is under the lock.
func (m *memLogs) log(id base.LogID) *memLog {
	l := m.logs[id]
	if l == nil {
		l = &memLog{}
		m.logs[id] = l
	}
	return l
}

func (m *memLogs) signal(id base.LogID) {
	for w := range m.watches {
		if w.on[id] {
			w.ready = append(w.ready, id)
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
}

func (m *memLogs) Append(a *broker.Append) {
	m.lm.Lock()
	if m.hold {
		m.held = append(m.held, a)
		m.lm.Unlock()
		return
	}
	m.lm.Unlock()
	m.commit(a)
}

// release commits what was held, in an order that is not that of the requests.
func (m *memLogs) release() {
	m.lm.Lock()
	held := m.held
	m.held, m.hold = nil, false
	m.lm.Unlock()
	for i := len(held) - 1; i >= 0; i-- {
		m.commit(held[i])
	}
}

func (m *memLogs) commit(a *broker.Append) {
	m.lm.Lock()
	for i := range a.Items {
		it := &a.Items[i]
		l := m.log(it.Log)
		if l.gone {
			it.Err = base.Errorf(base.CodeUnknownPartition, "gone")
			continue
		}
		if !m.verified(it) {
			continue
		}
		it.BaseOffset, it.LogStart = l.end, l.start
		recordbatch.SetBaseOffset(it.Data, l.end)
		recordbatch.SetLeaderEpoch(it.Data, m.epoch)
		n := int64(it.Batches[0].LastOffsetDelta) + 1
		l.batches = append(l.batches, memBatch{l.end, l.end + n - 1, append([]byte(nil), it.Data...)})
		if k := len(l.epochs); k == 0 || l.epochs[k-1].Epoch < m.epoch {
			l.epochs = append(l.epochs, partlog.Epoch{Epoch: m.epoch, Start: l.end})
		}
		l.end += n
		m.signal(it.Log)
	}
	m.lm.Unlock()
	a.Done(a)
	if a.Release != nil {
		a.Release()
	}
}

// verified lets a guard open a transaction, and refuses an item that has none.
func (m *memLogs) verified(it *broker.AppendItem) bool {
	info := &it.Batches[0]
	at := memTxn{it.Log, info.ProducerID}
	if !info.IsTransactional() || m.txns[at] {
		return true
	}
	if it.Guard == 0 {
		m.guard++
		it.Guard, it.Err = m.guard, base.Errorf(base.CodeUnverifiedTxn, "not verified")
		return false
	}
	m.txns[at] = true
	return true
}

func (m *memLogs) VerifyTxn(ctx context.Context, c *broker.TxnCheck) []error {
	if m.verify == nil {
		return m.node.VerifyTxn(ctx, c)
	}
	return m.verify(c)
}

func (m *memLogs) State(id base.LogID) (broker.LogState, bool) {
	m.lm.Lock()
	defer m.lm.Unlock()
	return m.state(id)
}

func (m *memLogs) state(id base.LogID) (broker.LogState, bool) {
	l := m.log(id)
	size := int64(0)
	for _, b := range l.batches {
		size += int64(len(b.b))
	}
	st := broker.LogState{Start: l.start, HighWatermark: l.end, LastStable: l.end, Size: size}
	if l.open > 0 {
		st.LastStable = l.open
	}
	return st, !l.gone
}

func (m *memLogs) Read(id base.LogID, offset int64, maxBytes int, minOne bool) (Records, error) {
	return m.read(id, offset, maxBytes, minOne, false)
}

func (m *memLogs) ReadCommitted(id base.LogID, offset int64, maxBytes int, minOne bool) (Records, error) {
	return m.read(id, offset, maxBytes, minOne, true)
}

func (m *memLogs) read(id base.LogID, offset int64, maxBytes int, minOne, committed bool) (Records, error) {
	m.lm.Lock()
	defer m.lm.Unlock()
	m.reads++
	st, ok := m.state(id)
	if !ok {
		return nil, base.Errorf(base.CodeUnknownPartition, "gone")
	}
	r := &memory{st: st}
	if offset < st.Start || offset > st.HighWatermark {
		return r, base.Errorf(base.CodeOffsetOutOfRange, "out of range")
	}
	for _, b := range m.log(id).batches {
		if b.last < offset {
			continue
		}
		if committed && b.base >= st.LastStable {
			break
		}
		if len(r.b)+len(b.b) > maxBytes && !(minOne && len(r.b) == 0) {
			break
		}
		r.b = append(r.b, b.b...)
		if committed {
			r.aborted = partlog.AbortedWithin(m.log(id).aborted, offset, b.last+1)
		}
	}
	return r, nil
}

func (m *memLogs) EpochEnd(id base.LogID, epoch int32) (int32, int64) {
	m.lm.Lock()
	defer m.lm.Unlock()
	l := m.log(id)
	return partlog.EpochEnd(l.epochs, l.start, l.end, m.epoch, epoch)
}

func (m *memLogs) AllocateProducerID(context.Context) (int64, error) {
	m.lm.Lock()
	defer m.lm.Unlock()
	m.producers++
	return m.producers, nil
}

// OffsetForTime looks at batches only: the time of all records of one is 1000.
func (m *memLogs) OffsetForTime(_ context.Context, p meta.Partition, ts int64) (offset, at int64, epoch int32, err error) {
	m.lm.Lock()
	defer m.lm.Unlock()
	if l := m.log(p.Log); ts <= 1000 && l.start < l.end {
		return l.start, 1000, m.epoch, nil
	}
	return -1, -1, -1, nil
}

func (m *memLogs) MaxTimestamp(ctx context.Context, p meta.Partition) (offset, at int64, epoch int32, err error) {
	return m.OffsetForTime(ctx, p, 1000)
}

// begin opens a transaction at the end of a log.
func (m *memLogs) begin(id base.LogID) {
	m.lm.Lock()
	defer m.lm.Unlock()
	m.log(id).open = m.log(id).end
}

// finish ends the open transaction of a log, with a marker at its end.
func (m *memLogs) finish(id base.LogID, producer int64, commit bool) {
	m.lm.Lock()
	l := m.log(id)
	marker := recordbatch.Marker{ProducerID: producer, Type: recordbatch.ControlCommit}
	if !commit {
		marker.Type = recordbatch.ControlAbort
		l.aborted = append(l.aborted, partlog.Aborted{ProducerID: producer, First: l.open, Last: l.end, LastStable: l.end + 1})
	}
	l.open = 0
	m.lm.Unlock()
	m.put(id, marker.AppendTo(nil))
}

// trim raises a log's start.
func (m *memLogs) trim(id base.LogID, start int64) {
	m.lm.Lock()
	defer m.lm.Unlock()
	m.log(id).start = start
	m.signal(id)
}

// drop deletes a topic with its logs.
func (m *memLogs) drop(t failer, st *meta.Stream) {
	t.Helper()
	if err := m.node.decide(func() (*meta.Command, error) { return m.node.meta.DecideDelete(st.ID) }, false); err != nil {
		t.Fatal(err)
	}
	m.lm.Lock()
	defer m.lm.Unlock()
	for _, p := range st.Partitions {
		m.log(p.Log).gone = true
		m.signal(p.Log)
	}
}

func (m *memLogs) NewWatch() Watch {
	m.lm.Lock()
	defer m.lm.Unlock()
	w := &memWatch{m: m, on: map[base.LogID]bool{}, c: make(chan struct{}, 1)}
	m.watches[w] = true
	return w
}

// memWatch is a watch over logs in memory; its fields are under the logs' lock.
type memWatch struct {
	m     *memLogs
	on    map[base.LogID]bool
	ready []base.LogID
	c     chan struct{}
}

func (w *memWatch) Add(id base.LogID) {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	if !w.m.log(id).gone {
		w.on[id] = true
	}
}

func (w *memWatch) Remove(id base.LogID) {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	delete(w.on, id)
}

func (w *memWatch) C() <-chan struct{} { return w.c }

func (w *memWatch) Take() []base.LogID {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	out := w.ready
	w.ready = nil
	select {
	case <-w.c:
	default:
	}
	return out
}

func (w *memWatch) Close() {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	delete(w.m.watches, w)
}

// batchOf is a batch of n records of some bytes each, as a client sends it.
func batchOf(n, size int) []byte {
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{BaseTimestamp: 1000, MaxTimestamp: 1000, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LeaderEpoch: -1}, 0, 0)
	for i := range n {
		b.Add(&recordbatch.Record{OffsetDelta: int32(i), Offset: int64(i), Timestamp: 1000, Value: make([]byte, size)})
	}
	out, err := b.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// put appends a batch to a log.
func (m *memLogs) put(id base.LogID, batch []byte) {
	info, err := recordbatch.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	m.commit(&broker.Append{Items: []broker.AppendItem{{Log: id, Guard: 1, Data: append([]byte(nil), batch...), Batches: []recordbatch.Info{info}}}, Done: func(*broker.Append) {}})
}
