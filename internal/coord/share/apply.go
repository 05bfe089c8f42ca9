package share

import (
	"fmt"

	"godwit/internal/base"
)

// Apply enters a committed command. It cannot fail: what a command refers to and is not there has been
// deleted by an earlier one.
func (s *State) Apply(c Command) {
	switch c := c.(type) {
	case *Update:
		s.applyUpdate(c)
	case *ConfirmQueues:
		for _, d := range c.Done {
			s.confirm(c.Key, d)
		}
	case *DeleteGroup:
		s.applyDelete(c)
	case *StreamDeleted:
		for k, of := range s.queues {
			if of[c.Stream] == nil {
				continue
			}
			s.touch(dirtyKey{Key: k, kind: keyQueues, stream: c.Stream})
			s.dropStream(k, c.Stream)
		}
	case *SetConfig:
		s.touch(dirtyKey{Key: c.Key, kind: keyConfig})
		if len(c.Values) == 0 {
			delete(s.configs, c.Key)
			return
		}
		s.configs[c.Key] = c.Values
	default:
		panic(fmt.Sprintf("share: command %T is not known", c))
	}
}

func (s *State) touch(d dirtyKey) { s.dirty[d] = struct{}{} }

func (s *State) applyUpdate(c *Update) {
	g := s.groups[c.Key]
	if g == nil || g.Head != c.Head {
		s.touch(dirtyKey{Key: c.Key, kind: keyGroup})
	}
	if g == nil {
		g = &group{members: map[string]Member{}}
		s.groups[c.Key] = g
	}
	g.Head = c.Head
	for _, id := range c.Removed {
		delete(g.members, id)
		s.touch(dirtyKey{Key: c.Key, kind: keyMember, member: id})
	}
	for _, m := range c.Members {
		g.members[m.ID] = m
		s.touch(dirtyKey{Key: c.Key, kind: keyMember, member: m.ID})
	}
	for _, q := range c.Queues {
		s.want(c.Key, q)
	}
}

// want enters what is wanted of a queue, unless something newer is.
func (s *State) want(k Key, c QueueChange) {
	if q, ok := s.Queue(k, c.Partition); ok && q.Version >= c.Version {
		return
	}
	of := s.queues[k]
	if of == nil {
		of = map[base.StreamID]topicQueues{}
		s.queues[k] = of
	}
	if of[c.Stream] == nil {
		of[c.Stream] = topicQueues{}
	}
	of[c.Stream][c.Index] = c.Queue
	s.touch(dirtyKey{Key: k, kind: keyQueues, stream: c.Stream})
}

func (s *State) confirm(k Key, d QueueVersion) {
	q, ok := s.Queue(k, d.Partition)
	if !ok || q.Version != d.Version || q.Status == Ready {
		return
	}
	s.touch(dirtyKey{Key: k, kind: keyQueues, stream: d.Stream})
	if q.Status == Initializing {
		s.queues[k][d.Stream][d.Index] = Queue{Status: Ready, Version: q.Version}
		return
	}
	if delete(s.queues[k][d.Stream], d.Index); len(s.queues[k][d.Stream]) == 0 {
		s.dropStream(k, d.Stream)
	}
}

func (s *State) dropStream(k Key, id base.StreamID) {
	if delete(s.queues[k], id); len(s.queues[k]) == 0 {
		delete(s.queues, k)
	}
}

func (s *State) applyDelete(c *DeleteGroup) {
	g := s.groups[c.Key]
	if g == nil {
		return
	}
	for id := range g.members {
		s.touch(dirtyKey{Key: c.Key, kind: keyMember, member: id})
	}
	s.touch(dirtyKey{Key: c.Key, kind: keyGroup})
	delete(s.groups, c.Key)
	for _, p := range s.partitions(c.Key, Initializing, Ready) {
		q := s.queues[c.Key][p.Stream][p.Index]
		// A version above the queue's whatever the command says: what is left must not keep its status.
		s.want(c.Key, QueueChange{p, Queue{Status: Deleting, Version: max(c.Version, q.Version+1)}})
	}
}
