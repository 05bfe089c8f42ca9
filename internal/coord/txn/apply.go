package txn

import (
	"fmt"

	"godwit/internal/base"
)

// Apply enters a committed command. It cannot fail: what a command refers to and is not there has gone with an earlier one.
func (s *State) Apply(c Command) {
	switch c := c.(type) {
	case *Update:
		s.applyUpdate(c)
	case *Confirm:
		s.applyConfirm(c)
	case *StreamDeleted:
		s.applyDeleted(c.Stream)
	case *Forget:
		delete(s.txns, c.Key)
		delete(s.busy, c.Key)
		s.dirty[c.Key] = struct{}{}
	default:
		panic(fmt.Sprintf("txn: command %T is not known", c))
	}
}

func (s *State) applyUpdate(c *Update) {
	t := s.txns[c.Key]
	if t == nil {
		t = &txn{}
		s.txns[c.Key] = t
	}
	t.Head = c.Head
	if len(c.Partitions) > 0 && t.partitions == nil {
		t.partitions = make(map[Partition]struct{}, len(c.Partitions))
	}
	for _, p := range c.Partitions {
		t.partitions[p] = struct{}{}
	}
	if len(c.Groups) > 0 && t.groups == nil {
		t.groups = make(map[string]struct{}, len(c.Groups))
	}
	for _, g := range c.Groups {
		t.groups[g] = struct{}{}
	}
	s.settle(c.Key, t, c.Updated)
}

func (s *State) applyConfirm(c *Confirm) {
	t := s.txns[c.Key]
	if t == nil || !t.Status.preparing() || t.Serial != c.Serial {
		return
	}
	for _, p := range c.Partitions {
		delete(t.partitions, p)
	}
	for _, g := range c.Groups {
		delete(t.groups, g)
	}
	s.settle(c.Key, t, c.At)
}

func (s *State) applyDeleted(id base.StreamID) {
	for k := range s.busy {
		t, before := s.txns[k], len(s.txns[k].partitions)
		for p := range t.partitions {
			if p.Stream == id {
				delete(t.partitions, p)
			}
		}
		if len(t.partitions) < before {
			s.settle(k, t, t.Updated)
		}
	}
}

// settle follows up a change: a transaction that is preparing is complete when nothing is outstanding.
func (s *State) settle(k Key, t *txn, now int64) {
	s.dirty[k] = struct{}{}
	if t.Status.preparing() && t.participants() == 0 {
		t.Status += CompleteCommit - PrepareCommit
		t.Updated = max(t.Updated, now)
		if t.NextProducerID >= 0 {
			t.ProducerID, t.Epoch, t.NextProducerID = t.NextProducerID, 0, -1
		}
	}
	if t.Status.busy() {
		s.busy[k] = struct{}{}
		return
	}
	delete(s.busy, k)
	t.partitions, t.groups = nil, nil
}
