package shard

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/queue"
	"godwit/internal/varint"
)

// QueueKey names a queue: that of a group in a log of the shard.
type QueueKey struct {
	Group share.Key
	Log   base.LogID
}

// QueueCommand changes one queue.
type QueueCommand struct {
	QueueKey
	Version int64         // if not 0, what was wanted of the queue, which exists from then on
	Delete  bool          // the queue ceases to exist; nothing else is set
	Do      queue.Command // nil: nothing
}

// Flags of a queue command.
const (
	flagVersion = 1 << iota
	flagDelete
	flagDo
	queueFlagsKnown = 1<<iota - 1
)

func (c *QueueCommand) appendTo(dst []byte) []byte {
	flags := byte(0)
	if c.Version != 0 {
		flags |= flagVersion
	}
	if c.Delete {
		flags |= flagDelete
	}
	if c.Do != nil {
		flags |= flagDo
	}
	dst = binary.AppendUvarint(append(dst, flags), uint64(c.Log))
	dst = varint.AppendText(varint.AppendText(dst, c.Group.Namespace), c.Group.Group)
	if c.Version != 0 {
		dst = binary.AppendVarint(dst, c.Version)
	}
	if c.Do != nil {
		dst = queue.AppendCommand(dst, c.Do)
	}
	return dst
}

func decodeQueueCommand(b []byte) (c QueueCommand, err error) {
	r := &varint.Reader{B: b}
	flags := r.Byte()
	c.Log = base.LogID(r.Uint())
	c.Group = share.Key{Namespace: r.Text(), Group: r.Text()}
	if flags&flagVersion != 0 {
		c.Version = r.Int()
	}
	c.Delete = flags&flagDelete != 0
	switch {
	case r.Bad, flags > queueFlagsKnown, flags == 0, c.Delete && flags != flagDelete, flags&flagVersion != 0 && c.Version == 0:
		return c, base.Errorf(base.CodeCorruption, "damaged queue command of %d bytes", len(b))
	case flags&flagDo != 0:
		c.Do, err = queue.DecodeCommand(r.B)
	case !r.Whole():
		return c, base.Errorf(base.CodeCorruption, "damaged queue command of %d bytes", len(b))
	}
	return c, err
}

// Stored is the shard's keys in the state store, as of what its checkpoints handed out.
type Stored interface {
	// Scan calls fn for the keys in [from, to), in order, until it returns false. A key that Checkpoint handed out is
	// shown, or not shown, from then on, whether or not it is written yet. Key and value are valid during the call.
	Scan(from, to []byte, fn func(key, value []byte) bool) error
}

// storedQueue is one queue and what the shard knows of it besides.
type storedQueue struct {
	*queue.Queue
	key     QueueKey
	number  uint64 // in its keys; never that of another queue
	version int64
	dirty   bool
	doomed  bool // an entry in flight deletes it

	counted QueueSums // as in queueSums.groups; zero before it was counted first
}

// queueSet is the queues of a shard.
type queueSet struct {
	stored  Stored // nil: there is no store
	all     map[QueueKey]*storedQueue
	byLog   map[base.LogID][]*storedQueue // ordered by group
	last    uint64                        // number of a queue
	dirty   []*storedQueue
	renamed map[QueueKey]struct{} // whose name or version changed
	gone    []uint64              // numbers of queues whose keys are to be deleted
	sums    queueSums
}

func newQueueSet() queueSet {
	return queueSet{all: map[QueueKey]*storedQueue{}, byLog: map[base.LogID][]*storedQueue{}, renamed: map[QueueKey]struct{}{},
		sums: queueSums{groups: map[share.Key]*QueueSums{}}}
}

func (s *queueSet) touch(q *storedQueue) {
	s.sums.touch(q)
	if !q.dirty {
		q.dirty = true
		s.dirty = append(s.dirty, q)
	}
}

// add enters a queue that begins empty.
func (s *queueSet) add(k QueueKey, number uint64) *storedQueue {
	q := &storedQueue{key: k, number: number}
	q.Queue = queue.New(queue.Options{}, &queueView{s, number})
	s.all[k] = q
	s.sums.touch(q)
	of := s.byLog[k.Log]
	i, _ := slices.BinarySearchFunc(of, k, func(q *storedQueue, k QueueKey) int { return compareGroups(q.key.Group, k.Group) })
	s.byLog[k.Log] = slices.Insert(of, i, q)
	return q
}

func compareGroups(a, b share.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Group, b.Group))
}

func compareQueues(a, b QueueKey) int {
	return cmp.Or(cmp.Compare(a.Log, b.Log), compareGroups(a.Group, b.Group))
}

// drop forgets a queue.
func (s *queueSet) drop(q *storedQueue) {
	delete(s.all, q.key)
	s.sums.drop(q)
	of := slices.DeleteFunc(s.byLog[q.key.Log], func(o *storedQueue) bool { return o == q })
	if s.byLog[q.key.Log] = of; len(of) == 0 {
		delete(s.byLog, q.key.Log)
	}
	s.renamed[q.key] = struct{}{}
	s.gone = append(s.gone, q.number)
}

// dropLog forgets the queues in a log.
func (s *queueSet) dropLog(id base.LogID) {
	for _, q := range slices.Clone(s.byLog[id]) {
		s.drop(q)
	}
}

func (s *queueSet) apply(c *QueueCommand) {
	q := s.all[c.QueueKey]
	switch {
	case c.Delete:
		if q != nil {
			s.drop(q)
		}
		return
	case c.Version != 0:
		if q == nil {
			s.last++
			q = s.add(c.QueueKey, s.last)
		}
		q.version = c.Version
		s.renamed[c.QueueKey] = struct{}{}
	}
	if q == nil {
		return // it has gone with its log, as trims and confirmations of a log that is gone have nothing to do
	}
	s.touch(q)
	if c.Do != nil {
		q.Apply(c.Do)
	}
}

// abandon drops what is in flight.
func (s *queueSet) abandon() {
	for _, q := range s.all {
		q.Abandon()
		q.doomed = false
	}
}

// Queue finds a queue that no entry in flight deletes, and the version of what was wanted of it.
func (m *Machine) Queue(k QueueKey) (q *queue.Queue, version int64, ok bool) {
	s := m.queues.all[k]
	if s == nil || s.doomed {
		return nil, 0, false
	}
	return s.Queue, s.version, true
}

// QueuesOf calls fn for the queues in a log, ordered by group.
func (m *Machine) QueuesOf(id base.LogID, fn func(QueueKey, *queue.Queue)) {
	for _, q := range m.queues.byLog[id] {
		fn(q.key, q.Queue)
	}
}

// Queues calls fn for every queue, ordered by log and group.
func (m *Machine) Queues(fn func(QueueKey, *queue.Queue)) {
	for _, id := range slices.Sorted(maps.Keys(m.queues.byLog)) {
		m.QueuesOf(id, fn)
	}
}

// DoomQueue notes that an entry that deletes the queue is in flight.
func (m *Machine) DoomQueue(k QueueKey) {
	if q := m.queues.all[k]; q != nil {
		q.doomed = true
	}
}

// SetStored gives the shard a view of its keys in the state store. Without one it holds in memory what could wait there.
func (m *Machine) SetStored(s Stored) { m.queues.stored = s }

// queueValueVersion is the format of what is stored of a queue's name; the byte stands first, the queue's number as an
// unsigned and its version as a zig-zag varint behind it.
const queueValueVersion = 1

// queueName is the key of a queue's name: log, namespace behind its length, group.
func queueName(k QueueKey) []byte {
	return append(varint.AppendText(numbered(keyQueueName, uint64(k.Log)), k.Group.Namespace), k.Group.Group...)
}

// checkpoint writes what changed. Keys of queues that are gone are found in the store; while it cannot be read they
// stay, and no queue gets their number.
func (s *queueSet) checkpoint(put func(key, value []byte)) {
	s.erase(put)
	if len(s.renamed) > 0 {
		put([]byte{keyQueueLast}, binary.AppendUvarint(nil, s.last))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.renamed), compareQueues) {
		q := s.all[k]
		if q == nil {
			put(queueName(k), nil)
			continue
		}
		put(queueName(k), binary.AppendVarint(binary.AppendUvarint([]byte{queueValueVersion}, q.number), q.version))
	}
	clear(s.renamed)
	for _, q := range s.dirty {
		q.dirty = false
		if s.all[q.key] != q {
			continue
		}
		prefix := numbered(keyQueue, q.number)
		q.Checkpoint(func(key, value []byte) { put(append(prefix[:len(prefix):len(prefix)], key...), value) })
	}
	s.dirty = s.dirty[:0]
}

// erase deletes the keys of queues that are gone.
func (s *queueSet) erase(put func(key, value []byte)) {
	if s.stored == nil {
		s.gone = nil
	}
	s.gone = slices.DeleteFunc(s.gone, func(number uint64) bool {
		var keys [][]byte
		err := s.stored.Scan(numbered(keyQueue, number), numbered(keyQueue, number+1), func(key, _ []byte) bool {
			keys = append(keys, slices.Clone(key))
			return true
		})
		for _, k := range keys {
			put(k, nil)
		}
		return err == nil
	})
}

// IsQueueKey reports whether a key of the shard's state is one that a queue may look for in the store.
func IsQueueKey(key []byte) bool { return len(key) > 0 && key[0] == keyQueue }

// queueView is the part of the store that has one queue's keys.
type queueView struct {
	set    *queueSet
	number uint64
}

// Scan implements queue.View.
func (v *queueView) Scan(from []byte, fn func(key, value []byte) bool) error {
	if v.set.stored == nil {
		return nil
	}
	prefix := numbered(keyQueue, v.number)
	first := append(slices.Clone(prefix), from...)
	return v.set.stored.Scan(first, numbered(keyQueue, v.number+1), func(key, value []byte) bool { return fn(key[len(prefix):], value) })
}

// restoreQueueName takes the key of a queue's name, without its prefix. It comes before the keys of the queue.
func (r *Restorer) restoreQueueName(key, value []byte) error {
	s := &r.m.queues
	name, v := &varint.Reader{B: key[8:]}, &varint.Reader{B: value}
	k := QueueKey{Log: base.LogID(binary.BigEndian.Uint64(key)), Group: share.Key{Namespace: name.Text()}}
	k.Group.Group = string(name.B)
	format, number, version := v.Byte(), v.Uint(), v.Int()
	switch {
	case name.Bad, !v.Whole(), format != queueValueVersion, number > s.last, r.numbers[number] != nil, s.all[k] != nil, r.m.logs[k.Log] == nil:
		return base.Errorf(base.CodeCorruption, "shard %d: damaged name of a queue in log %d", r.m.ID, k.Log)
	}
	q := s.add(k, number)
	q.version = version
	r.numbers[number] = q
	return nil
}

// restoreQueue takes a key of a queue. A queue without a name was deleted while the store could not be read.
func (r *Restorer) restoreQueue(key, value []byte) error {
	s := &r.m.queues
	number := binary.BigEndian.Uint64(key)
	if q := r.numbers[number]; q != nil {
		return q.Restore(key[8:], value)
	}
	if n := len(s.gone); n == 0 || s.gone[n-1] != number {
		s.gone = append(s.gone, number)
	}
	return nil
}
