package shard

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/coord/txn"
	"godwit/internal/invariants"
	"godwit/internal/meta"
	"godwit/internal/partlog"
)

// MaxLosses is how many entries of the loss ledger a shard keeps; the oldest go first.
const MaxLosses = 10_000

type log struct {
	*partlog.Log
	dirty  bool
	doomed bool // an entry in flight drops it

	// Aborted transactions have keys of their own, so that a log with many of them costs a checkpoint what changed.
	savedAborted int64   // those with markers up to this offset have keys; -1: none
	goneAborted  []int64 // markers of those whose keys are to be deleted
}

// Machine is the state of one shard.
type Machine struct {
	ID      base.ShardID
	Index   uint64 // of the last applied entry
	Term    uint64 // of the last applied entry
	Time    int64  // of the last applied entry, Unix milliseconds; never goes back
	Meta    *meta.State
	Guess   *meta.State // Meta with what is in flight: the leader decides on it
	Offsets *group.Offsets
	Shares  *share.State
	Streams *streams.State
	Txns    *txn.State

	logs      map[base.LogID]*log
	queues    queueSet
	losses    []Loss
	lossStart uint64 // sequence number of losses[0]

	dirtyLogs    []base.LogID // also those dropped
	goneKeys     [][]byte     // of logs that were dropped
	dirtyStreams []base.StreamID
	dirtyMeta    bool
	savedLosses  uint64 // losses below this number are in the state store
	trimmedLoss  uint64 // losses below this number are deleted there
}

// New is an empty shard. defaults are the broker's topic configuration, for shard 0.
func New(id base.ShardID, defaults map[string]string) *Machine {
	m := &Machine{ID: id, logs: map[base.LogID]*log{}, queues: newQueueSet(), Offsets: group.NewOffsets(), Shares: share.NewState(),
		Streams: streams.NewState(), Txns: txn.NewState()}
	if id == base.MetaShard {
		m.Meta = meta.NewState(defaults)
		m.abandonMeta()
	}
	return m
}

func (m *Machine) abandonMeta() {
	g := *m.Meta
	m.Guess = &g
}

// Log finds a log of this shard.
func (m *Machine) Log(id base.LogID) (*partlog.Log, bool) {
	l := m.logs[id]
	if l == nil {
		return nil, false
	}
	return l.Log, true
}

// Writable finds a log that no entry in flight drops: the leader may propose batches for it.
func (m *Machine) Writable(id base.LogID) (*partlog.Log, bool) {
	l := m.logs[id]
	if l == nil || l.doomed {
		return nil, false
	}
	return l.Log, true
}

// Doom notes that an entry that drops the logs is in flight.
func (m *Machine) Doom(ids []base.LogID) {
	for _, id := range ids {
		if l := m.logs[id]; l != nil {
			l.doomed = true
		}
	}
}

// Logs calls fn for every log, in no order.
func (m *Machine) Logs(fn func(*partlog.Log)) {
	for _, l := range m.logs {
		fn(l.Log)
	}
}

// Losses is the shard's part of the loss ledger, oldest first.
func (m *Machine) Losses() []Loss { return m.losses }

// Abandon drops everything in flight.
func (m *Machine) Abandon() {
	for _, l := range m.logs {
		l.Abandon()
		l.doomed = false
	}
	m.queues.abandon()
	if m.Meta != nil {
		m.abandonMeta()
	}
}

// Applied is what an entry changed that the engine has to show.
type Applied struct {
	Grown   []base.LogID // got records; in the order of the entry
	Created []base.LogID
	Dropped []base.LogID
	Trimmed []Trim
	Purged  []base.LogID // list fewer aborted transactions
	Losses  []Loss
	Stream  base.StreamID // metadata of this stream changed, if not zero
	Meta    bool          // metadata changed
}

// Apply enters one committed entry. Entries come in the order of their index. The command is
// trusted: it was decided by a leader and read back under a checksum.
func (m *Machine) Apply(index, term uint64, time int64, c *Command) (*Applied, error) {
	invariants.Check(index == m.Index+1, "shard %d: entry %d applied after %d", m.ID, index, m.Index)
	m.Index, m.Term, m.Time = index, term, max(m.Time, time)
	out := &Applied{}
	for i := range c.Append {
		a := &c.Append[i]
		l := m.logs[a.Log]
		invariants.Check(l != nil, "shard %d: entry %d appends to log %d, which does not exist", m.ID, index, a.Log)
		l.Apply(&a.Batch, m.Time)
		m.touch(l)
		if n := len(out.Grown); n == 0 || out.Grown[n-1] != a.Log {
			out.Grown = append(out.Grown, a.Log)
		}
	}
	if c.Append != nil {
		return out, nil
	}
	m.applyLogs(c, out)
	if c.Meta != nil {
		mc, err := meta.DecodeCommand(c.Meta)
		if err != nil {
			return nil, err
		}
		out.Stream, out.Meta = m.Meta.Apply(mc), true
		m.dirtyMeta = true
		if !out.Stream.IsZero() {
			m.dirtyStreams = append(m.dirtyStreams, out.Stream)
		}
	}
	if c.Forget != nil {
		m.Offsets.Apply(&group.StreamDeleted{Stream: *c.Forget})
		m.Shares.Apply(&share.StreamDeleted{Stream: *c.Forget})
		m.Txns.Apply(&txn.StreamDeleted{Stream: *c.Forget})
	}
	for _, g := range c.Groups {
		m.Offsets.Apply(g)
	}
	for _, s := range c.Shares {
		m.Shares.Apply(s)
	}
	for _, s := range c.Streams {
		m.Streams.Apply(s)
	}
	for _, t := range c.Txns {
		m.Txns.Apply(t)
	}
	for i := range c.Queues {
		m.queues.apply(&c.Queues[i])
	}
	return out, nil
}

// applyLogs enters what concerns whole logs.
func (m *Machine) applyLogs(c *Command, out *Applied) {
	for _, id := range c.Create {
		if m.logs[id] == nil {
			l := &log{Log: partlog.New(id), savedAborted: -1}
			m.logs[id] = l
			m.touch(l)
			out.Created = append(out.Created, id)
		}
	}
	for _, id := range c.Drop {
		if l := m.logs[id]; l != nil {
			delete(m.logs, id)
			m.queues.dropLog(id)
			if !l.dirty {
				m.dirtyLogs = append(m.dirtyLogs, id)
			}
			l.forget(l.Aborted())
			for _, at := range l.goneAborted {
				m.goneKeys = append(m.goneKeys, abortedKey(id, at))
			}
			out.Dropped = append(out.Dropped, id)
		}
	}
	for _, t := range c.Trim {
		if l := m.logs[t.Log]; l != nil && t.Start > l.Start() {
			l.forget(l.Trim(t.Start))
			m.touch(l)
			out.Trimmed = append(out.Trimmed, t)
			m.lose(t.Losses, out)
		}
	}
	m.lose(c.Losses, out)
	for _, p := range c.Purged {
		if l := m.logs[p.Log]; l != nil {
			l.forget(l.ForgetAborted(p.Last))
			m.touch(l)
			out.Purged = append(out.Purged, p.Log)
		}
	}
	if c.Expire > 0 {
		for _, l := range m.logs {
			if l.ExpireProducers(c.Expire) {
				m.touch(l)
			}
		}
	}
}

// forget notes that aborted transactions are no longer listed.
func (l *log) forget(gone []partlog.Aborted) {
	for i := range gone {
		if at := gone[i].Last; at <= l.savedAborted {
			l.goneAborted = append(l.goneAborted, at)
		}
	}
}

func (m *Machine) touch(l *log) {
	if !l.dirty {
		l.dirty = true
		m.dirtyLogs = append(m.dirtyLogs, l.ID)
	}
}

func (m *Machine) lose(ls []Loss, out *Applied) {
	for _, l := range ls {
		l.Time = m.Time
		m.losses = append(m.losses, l)
		out.Losses = append(out.Losses, l)
	}
	if over := len(m.losses) - MaxLosses; over > 0 {
		m.losses = append([]Loss(nil), m.losses[over:]...)
		m.lossStart += uint64(over)
	}
}

// Keys of a shard's state: a prefix byte, then the part's own key.
const (
	keyAborted   = 'a' // + LogID + offset of the marker, both big-endian
	keyLog       = 'l' // + LogID, big-endian
	keyMeta      = 'm' // + a key of package meta
	keyQueueLast = 'n'
	keyOffsets   = 'o' // + a key of package group
	keyQueueName = 'q' // + LogID, big-endian + namespace behind its length + group
	keyQueue     = 'r' // + number of the queue, big-endian + a key of package queue
	keyShares    = 's' // + a key of package share
	keyStreams   = 'k' // + a key of package streams
	keyLoss      = 'x' // + sequence number, big-endian
	keyTime      = 't'
	keyTxns      = 'T' // + a key of package txn
)

func numbered(prefix byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, n)
}

// Checkpoint writes every key that changed since the last call; a nil value deletes it. Together with Index and
// Term that is all that a later Restore needs.
func (m *Machine) Checkpoint(put func(key, value []byte)) {
	for _, k := range m.goneKeys {
		put(k, nil)
	}
	m.goneKeys = nil
	var buf []byte
	for _, id := range m.dirtyLogs {
		l := m.logs[id]
		if l == nil {
			put(numbered(keyLog, uint64(id)), nil)
			continue
		}
		l.dirty = false
		buf = l.AppendSnapshot(buf[:0])
		put(numbered(keyLog, uint64(id)), buf)
		l.checkpointAborted(put)
	}
	m.dirtyLogs = m.dirtyLogs[:0]
	if m.dirtyMeta {
		m.Meta.Checkpoint(m.dirtyStreams, func(key, value []byte) { put(append([]byte{keyMeta}, key...), value) })
		m.dirtyMeta, m.dirtyStreams = false, nil
	}
	m.Offsets.Checkpoint(func(key, value []byte) { put(append([]byte{keyOffsets}, key...), value) })
	m.Shares.Checkpoint(func(key, value []byte) { put(append([]byte{keyShares}, key...), value) })
	m.Streams.Checkpoint(func(key, value []byte) { put(append([]byte{keyStreams}, key...), value) })
	m.Txns.Checkpoint(func(key, value []byte) { put(append([]byte{keyTxns}, key...), value) })
	m.queues.checkpoint(put)
	for ; m.trimmedLoss < m.lossStart; m.trimmedLoss++ {
		put(numbered(keyLoss, m.trimmedLoss), nil)
	}
	for m.savedLosses = max(m.savedLosses, m.lossStart); m.savedLosses < m.lossStart+uint64(len(m.losses)); m.savedLosses++ {
		b, err := json.Marshal(m.losses[m.savedLosses-m.lossStart])
		if err != nil {
			panic(err) // only plain values
		}
		put(numbered(keyLoss, m.savedLosses), b)
	}
	put([]byte{keyTime}, binary.AppendVarint(nil, m.Time))
}

// Restorer rebuilds a machine from the keys that checkpoints wrote, in their order.
type Restorer struct {
	m       *Machine
	meta    *meta.Restorer
	aborted map[base.LogID][]partlog.Aborted // of logs whose own keys are still to come
	numbers map[uint64]*storedQueue
}

// NewRestorer begins with an empty machine.
func NewRestorer(id base.ShardID, defaults map[string]string) *Restorer {
	r := &Restorer{m: New(id, defaults), aborted: map[base.LogID][]partlog.Aborted{}, numbers: map[uint64]*storedQueue{}}
	if id == base.MetaShard {
		r.meta = meta.NewRestorer(defaults)
	}
	return r
}

// Restore takes one key. The slices are not kept.
func (r *Restorer) Restore(key, value []byte) error {
	bad := func() error {
		return base.Errorf(base.CodeCorruption, "shard %d: damaged state key %x", r.m.ID, key)
	}
	if len(key) == 0 {
		return bad()
	}
	rest := key[1:]
	switch {
	case key[0] == keyLog && len(rest) == 8:
		id := base.LogID(binary.BigEndian.Uint64(rest))
		return r.restoreLog(id, value)
	case key[0] == keyAborted && len(rest) == 16:
		return r.restoreAborted(rest, value)
	case key[0] == keyMeta && r.meta != nil:
		return r.meta.Restore(rest, value)
	case key[0] == keyOffsets:
		return r.m.Offsets.Restore(rest, value)
	case key[0] == keyShares:
		return r.m.Shares.Restore(rest, value)
	case key[0] == keyStreams:
		return r.m.Streams.Restore(rest, value)
	case key[0] == keyTxns:
		return r.m.Txns.Restore(rest, value)
	case key[0] == keyQueueName && len(rest) > 8:
		return r.restoreQueueName(rest, value)
	case key[0] == keyQueue && len(rest) > 8:
		return r.restoreQueue(rest, value)
	case key[0] == keyQueueLast:
		last, n := binary.Uvarint(value)
		if n <= 0 || n != len(value) {
			return bad()
		}
		r.m.queues.last = last
	case key[0] == keyLoss && len(rest) == 8:
		return r.restoreLoss(binary.BigEndian.Uint64(rest), value)
	case key[0] == keyTime:
		t, n := binary.Varint(value)
		if n <= 0 {
			return bad()
		}
		r.m.Time = t
	default:
		return bad()
	}
	return nil
}

func (r *Restorer) restoreLoss(seq uint64, value []byte) error {
	var l Loss
	if err := json.Unmarshal(value, &l); err != nil {
		return base.Errorf(base.CodeCorruption, "shard %d: loss %d: %v", r.m.ID, seq, err)
	}
	if len(r.m.losses) == 0 {
		r.m.lossStart, r.m.trimmedLoss = seq, seq
	}
	r.m.losses = append(r.m.losses, l)
	r.m.savedLosses = seq + 1
	return nil
}

// Done returns the machine, standing at the checkpoint's index and term: a CodeCorruption error if the keys do not fit
// together.
func (r *Restorer) Done(index, term uint64) (*Machine, error) {
	r.m.Index, r.m.Term = index, term
	for _, number := range slices.Sorted(maps.Keys(r.numbers)) {
		if err := r.numbers[number].Restored(); err != nil {
			return nil, err
		}
	}
	if r.meta != nil {
		r.m.Meta = r.meta.Done()
		r.m.abandonMeta()
	}
	return r.m, nil
}

// HasProducersBefore reports whether a producer was last seen before the given time.
func (m *Machine) HasProducersBefore(before int64) bool {
	for _, l := range m.logs {
		if l.OldestProducer() < before {
			return true
		}
	}
	return false
}
