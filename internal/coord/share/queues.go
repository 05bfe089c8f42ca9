package share

import (
	"slices"

	"godwit/internal/base"
	"godwit/internal/groupconf"
)

// missing lists the queues that the group needs in the topics and has not: they are to be made. A topic in which the group has queues already
// has grown, so nothing in its new partitions is passed over; in others, the group begins where its
// configuration says.
func (c *Coordinator) missing(k Key, topics []Topic, reset groupconf.Reset) (out []QueueChange) {
	version := c.version(k)
	for _, t := range topics {
		queues := c.live.queues[k][t.ID]
		start := c.start(reset)
		for _, q := range queues {
			if q.Status != Deleting {
				start = Start{Kind: StartEarliest}
				break
			}
		}
		for i := range int32(t.Partitions) {
			if q, ok := queues[i]; !ok || q.Status == Deleting {
				out = append(out, QueueChange{Partition{Stream: t.ID, Index: i}, Queue{Initializing, version, start}})
			}
		}
	}
	return out
}

// start is where a group begins in a topic that it never read.
func (c *Coordinator) start(r groupconf.Reset) Start {
	switch {
	case r.Earliest:
		return Start{Kind: StartEarliest}
	case r.ByTime:
		return Start{Kind: StartAtTime, Value: c.now - r.Back}
	}
	return Start{Kind: StartLatest}
}

// AlterOffsets answers AlterShareGroupOffsets: it sets where a group without members begins, and makes the group if
// there is none. The result has one entry for each topic asked for, in that order.
func (c *Coordinator) AlterOffsets(now int64, k Key, topics []SetTopicOffsets) ([]TopicResult, *base.Error) {
	c.advance(now)
	if err := k.Check(); err != nil {
		return nil, err
	}
	u := &Update{Key: k, Head: newHead}
	if g := c.live.groups[k]; g != nil {
		if len(g.members) > 0 {
			return nil, notEmpty(k)
		}
		u.Head = g.Head
	}
	version, reset := c.version(k), c.settings(k).Reset
	var out []TopicResult
	for _, asked := range topics {
		t, ok := c.topics.ByName(k.Namespace, asked.Topic)
		r := TopicResult{Topic: asked.Topic, ID: t.ID, Errs: make([]*base.Error, len(asked.Partitions))}
		for i, p := range asked.Partitions {
			if !ok || p.Index < 0 || int(p.Index) >= t.Partitions {
				r.Errs[i] = unknownPartition(asked.Topic, p.Index)
				continue
			}
			start := Start{Kind: StartAtOffset, Value: p.Start}
			if p.Start < 0 {
				start = c.start(reset)
			}
			u.Queues = append(u.Queues, QueueChange{Partition{Stream: t.ID, Index: p.Index}, Queue{Initializing, version, start}})
		}
		out = append(out, r)
	}
	if len(u.Queues) > 0 {
		c.decide(u)
	}
	return out, nil
}

// DeleteOffsets answers DeleteShareGroupOffsets: a group without members forgets topics. The result has one entry
// for each topic asked for, in that order.
func (c *Coordinator) DeleteOffsets(now int64, k Key, topics []string) ([]TopicResult, *base.Error) {
	c.advance(now)
	g := c.live.groups[k]
	switch {
	case g == nil:
		return nil, unknownGroup(k)
	case len(g.members) > 0:
		return nil, notEmpty(k)
	}
	u := &Update{Key: k, Head: g.Head}
	version := c.version(k)
	var out []TopicResult
	for _, name := range topics {
		t, ok := c.topics.ByName(k.Namespace, name)
		r := TopicResult{Topic: name, ID: t.ID}
		queues := c.live.queues[k][t.ID]
		switch {
		case !ok:
			r.Err = base.Errorf(base.CodeUnknownStream, "there is no topic %q", name)
		case len(queues) == 0:
			r.Err, r.ID = base.Errorf(base.CodeUnknownStream, "There is no offset information to delete."), base.StreamID{}
		}
		for i, q := range queues {
			if ok && q.Status != Deleting {
				u.Queues = append(u.Queues, QueueChange{Partition{Stream: t.ID, Index: i}, Queue{Status: Deleting, Version: version}})
			}
		}
		out = append(out, r)
	}
	if len(u.Queues) > 0 {
		slices.SortFunc(u.Queues, func(a, b QueueChange) int { return a.Partition.Compare(b.Partition) })
		c.decide(u)
	}
	return out, nil
}

func notEmpty(k Key) *base.Error {
	return base.Errorf(base.CodeNonEmptyGroup, "The group is not empty: share group %s has members.", k.Group)
}

func unknownPartition(topic string, index int32) *base.Error {
	return base.Errorf(base.CodeUnknownPartition, "there is no partition %d of a topic %q", index, topic)
}
