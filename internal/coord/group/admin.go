package group

import (
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
)

// Describe shows one group. The slices are shared and must not be written to.
func (c *Coordinator) Describe(k Key) Description {
	out := Description{Group: k.Group, State: Dead}
	if c.consumers[k] != nil || c.taken(k) {
		out.Err = base.Errorf(base.CodeUnknownGroup, "Group %s is not a classic group.", k.Group)
		return out
	}
	if !c.exists(k) {
		out.Err = unknownGroup(k)
		return out
	}
	out.State = Empty
	g := c.group(k)
	if g == nil {
		return out
	}
	out.State, out.ProtocolType, out.Generation = g.state, g.protocolType, g.generation
	if g.state == Empty && g.generation > 0 {
		out.EmptySince = g.since
	}
	if g.state == Stable {
		out.Protocol = g.protocol
	}
	for _, m := range g.order {
		d := MemberDescription{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost, Assignment: m.assignment,
		}
		if g.state == Stable {
			d.Metadata = m.metadata(g.protocol)
		}
		out.Members = append(out.Members, d)
	}
	return out
}

// List lists the groups of a namespace that pass the filters, by name.
func (c *Coordinator) List(req *ListRequest) ListResponse {
	var out ListResponse
	passes := func(filter []string, value string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
	}
	for k := range c.keys() {
		if k.Namespace != req.Namespace || c.opts.Streams.Exists(k) {
			continue
		}
		l := Listing{Group: k.Group, State: Empty, Type: TypeClassic}
		if g := c.consumers[k]; g != nil {
			l.State, l.ProtocolType, l.Type = g.state(), consumerType, TypeConsumer
		} else if g := c.groups[k]; g != nil {
			if g.deleted {
				continue
			}
			l.State, l.ProtocolType = g.state, g.protocolType
		} else if r := c.offsets.record(k); r != nil {
			l.ProtocolType = r.ProtocolType
		}
		if passes(req.States, string(l.State)) && passes(req.Types, l.Type) {
			out.Groups = append(out.Groups, l)
		}
	}
	slices.SortFunc(out.Groups, func(a, b Listing) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// keys is the set of all groups, live or stored.
func (c *Coordinator) keys() map[Key]struct{} {
	out := make(map[Key]struct{}, len(c.groups)+len(c.offsets.groups))
	for k := range c.groups {
		out[k] = struct{}{}
	}
	for k := range c.consumers {
		out[k] = struct{}{}
	}
	for k := range c.offsets.groups {
		out[k] = struct{}{}
	}
	return out
}

// Expire lists the commands that end what Options.Retention does not keep: the offsets of a group that has been
// empty for so long, those that a group without members or of topics that its members no longer read has not committed for so
// long, those that set their own end, those of streams that are gone, and groups with nothing left. name
// is the stream's name; false: there is no such stream. It looks at every offset: minutes between
// calls are enough.
func (c *Coordinator) Expire(now int64, name func(base.StreamID) (string, bool)) (out []Command) {
	c.advance(now)
	c.expireGuards()
	for _, k := range slices.SortedFunc(maps.Keys(c.keys()), Key.Compare) {
		h := c.offsets.groups[k]
		if h != nil && len(h.offsets) > 0 {
			if cmd := c.expired(h, name); cmd != nil {
				out = append(out, cmd)
			}
		}
		if g := c.consumers[k]; g != nil && len(g.members) > 0 {
			continue
		}
		if live := c.groups[k]; live != nil && !c.settled(live) {
			continue
		}
		delete(c.groups, k)
		if h != nil && len(h.offsets) == 0 && h.pending.len() == 0 {
			c.markDeleted(k)
			out = append(out, &DeleteGroup{Key: k, IfUnused: true})
		}
	}
	return out
}

// settled reports whether Offsets has all there is to know of a live group.
func (c *Coordinator) settled(g *group) bool {
	if g.deleted {
		return !c.offsets.exists(g.key)
	}
	if g.state != Empty || len(g.pending) > 0 {
		return false
	}
	r := c.offsets.record(g.key)
	return r == nil && g.generation == 0 || r != nil && r.Generation == g.generation && len(r.Members) == 0
}

// expired lists the offsets of one group that have run out; nil if there are none.
func (c *Coordinator) expired(h *holding, name func(base.StreamID) (string, bool)) Command {
	cmd := &DeleteOffsets{Key: h.key}
	g, consumers := c.group(h.key), c.consumers[h.key]
	for _, p := range h.partitions() {
		e := h.offsets[p]
		topic, known := name(p.Stream)
		ended := func() bool {
			if c.opts.Streams.Exists(h.key) {
				return !c.opts.Streams.Reads(h.key, topic) && c.tooOld(e, e.time)
			}
			if consumers != nil {
				return !c.readsTopic(consumers, topic) && c.tooOld(e, e.time)
			}
			return c.ranOut(e, g, topic)
		}
		if (!known || ended()) && !h.pending.unstable(p) {
			cmd.Partitions = append(cmd.Partitions, p)
			cmd.Before = max(cmd.Before, e.time+1)
		}
	}
	if len(cmd.Partitions) == 0 {
		return nil
	}
	return cmd
}

// ranOut applies Kafka's rule (KIP-211): from when on an offset ages depends on who could still use it.
func (c *Coordinator) ranOut(e *entry, g *group, topic string) bool {
	var since int64
	switch {
	case g == nil || g.protocolType == "":
		since = e.time
	case g.state == Empty:
		since = g.since
	case g.state == Stable && g.topics != nil && !g.topics[topic]:
		since = e.time
	default:
		return false
	}
	return c.tooOld(e, since)
}

// tooOld reports whether an offset has run out that ages since then, Unix ms.
func (c *Coordinator) tooOld(e *entry, since int64) bool {
	if e.expires != 0 {
		return c.now >= e.expires
	}
	return c.now-since >= c.opts.Retention
}
