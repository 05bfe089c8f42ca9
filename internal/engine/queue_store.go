package engine

import (
	"slices"
	"strings"
	"sync"

	"godwit/internal/base"
	"godwit/internal/shard"
	"godwit/internal/storage/state"
)

// shardStore is one shard's keys in the state store, with those that a checkpoint has gathered and that the store may not
// have yet.
type shardStore struct {
	store *state.Store
	id    base.ShardID

	mu     sync.Mutex
	handed map[string][]byte // keys of queues that are gathered and not flushed; nil: deleted
}

// hand notes a key that a checkpoint has gathered.
func (s *shardStore) hand(key, value []byte) {
	if !shard.IsQueueKey(key) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handed == nil {
		s.handed = map[string][]byte{}
	}
	s.handed[string(key)] = value
}

// flushed notes that the store has everything.
func (s *shardStore) flushed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed = nil
}

// Scan implements shard.Stored.
func (s *shardStore) Scan(from, to []byte, fn func(key, value []byte) bool) error {
	handed := s.within(string(from), string(to))
	more := true
	show := func(p handedPair) {
		if p.value != nil {
			more = fn([]byte(p.key), p.value)
		}
	}
	err := s.store.Scan(s.id, state.Range{From: from, To: to}, func(key, value []byte) bool {
		for more && len(handed) > 0 && handed[0].key < string(key) {
			show(handed[0])
			handed = handed[1:]
		}
		switch {
		case !more:
		case len(handed) > 0 && handed[0].key == string(key):
			show(handed[0])
			handed = handed[1:]
		default:
			more = fn(key, value)
		}
		return more
	})
	for err == nil && more && len(handed) > 0 {
		show(handed[0])
		handed = handed[1:]
	}
	return err
}

type handedPair struct {
	key   string
	value []byte
}

// within lists what was handed out in [from, to), in order.
func (s *shardStore) within(from, to string) (out []handedPair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range s.handed {
		if k >= from && k < to {
			out = append(out, handedPair{k, v})
		}
	}
	slices.SortFunc(out, func(a, b handedPair) int { return strings.Compare(a.key, b.key) })
	return out
}

// checkpointSoon asks for a checkpoint out of turn.
func (e *Engine) checkpointSoon() {
	select {
	case e.ckpt.soon <- struct{}{}:
	default:
	}
}
