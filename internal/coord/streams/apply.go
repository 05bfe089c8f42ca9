package streams

import "fmt"

// Apply enters a committed command. It cannot fail: what a command refers to and is not there has been
// deleted by an earlier one.
func (s *State) Apply(c Command) {
	switch c := c.(type) {
	case *Update:
		s.applyUpdate(c)
	case *DeleteGroup:
		s.applyDelete(c.Key)
	default:
		panic(fmt.Sprintf("streams: command %T is not known", c))
	}
}

func (s *State) touch(k Key, kind byte, member string) {
	s.dirty[dirtyKey{k, kind, member}] = struct{}{}
}

func (s *State) applyUpdate(c *Update) {
	g := s.groups[c.Key]
	if g == nil || g.Head != c.Head {
		s.touch(c.Key, keyGroup, "")
	}
	if g == nil {
		g = &group{members: map[string]Member{}}
		s.groups[c.Key] = g
	}
	g.Head = c.Head
	if c.Topology != nil {
		g.topology = c.Topology
		s.touch(c.Key, keyTopology, "")
	}
	for _, id := range c.Removed {
		delete(g.members, id)
		s.touch(c.Key, keyMember, id)
	}
	for _, m := range c.Members {
		g.members[m.ID] = m
		s.touch(c.Key, keyMember, m.ID)
	}
}

func (s *State) applyDelete(k Key) {
	g := s.groups[k]
	if g == nil {
		return
	}
	for id := range g.members {
		s.touch(k, keyMember, id)
	}
	s.touch(k, keyGroup, "")
	s.touch(k, keyTopology, "")
	delete(s.groups, k)
}
