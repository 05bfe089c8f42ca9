package share

import (
	"slices"
	"strings"

	"godwit/internal/base"
)

// Describe shows one group.
func (c *Coordinator) Describe(k Key) Description {
	g := c.live.groups[k]
	if g == nil {
		return Description{Group: k.Group, State: Dead, Err: unknownGroup(k)}
	}
	return Description{Group: k.Group, State: g.state(), Epoch: g.Epoch, AssignmentEpoch: g.AssignmentEpoch, Members: g.list()}
}

// List lists the groups of a namespace by name. states filters them, without regard to case; none: all.
func (c *Coordinator) List(namespace string, states []string) (out []Listing) {
	for k, g := range c.live.groups {
		if k.Namespace != namespace {
			continue
		}
		l := Listing{Group: k.Group, State: g.state()}
		if len(states) == 0 || slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, string(l.State)) }) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Listing) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// Delete deletes a group without members. Its queues are deleted afterwards.
func (c *Coordinator) Delete(now int64, k Key) *base.Error {
	c.advance(now)
	g := c.live.groups[k]
	switch {
	case g == nil:
		return unknownGroup(k)
	case len(g.members) > 0:
		return notEmpty(k)
	}
	c.decide(&DeleteGroup{k, c.version(k)})
	delete(c.checked, k)
	return nil
}
