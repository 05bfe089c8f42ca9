package group

import "godwit/internal/base"

// checkConsumerCommit finds out whether the request may commit to a group of the consumer protocol: a member under its epoch,
// or an earlier one as long as the member has had the partitions since; or anybody while the group is empty, in a transaction anybody who
// does not say. As in Kafka, one
// partition that may not be committed fails them all.
func checkConsumerCommit(g *consumerGroup, req *CommitRequest) *base.Error {
	if req.Generation < 0 && len(g.members) == 0 || req.transactional && req.Anonymous() {
		return nil
	}
	m := g.members[req.MemberID]
	switch {
	case m == nil:
		return base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", req.MemberID, g.key.Group)
	case req.Classic && m.Classic == nil:
		return base.Errorf(base.CodeUnsupportedVersion, "OffsetCommit version 9 or above must be used by members using the consumer group protocol")
	case req.Generation == m.Epoch:
		return nil
	case req.Generation > m.Epoch:
		return m.stale("epoch %d is newer than the current member epoch %d", req.Generation, m.Epoch)
	}
	for _, at := range req.Offsets {
		epoch, ok := epochOf(m.Assigned, at.Partition)
		if !ok {
			epoch, ok = epochOf(m.Revoking, at.Partition)
		}
		switch {
		case !ok:
			return m.stale("partition %d of %v is not assigned or pending revocation", at.Index, at.Stream)
		case req.Generation < epoch:
			return m.stale("epoch %d is older than the assignment epoch %d of partition %d of %v", req.Generation, epoch, at.Index, at.Stream)
		}
	}
	return nil
}

// stale refuses a member's epoch in the words of its protocol.
func (m *consumer) stale(format string, args ...any) *base.Error {
	if m.Classic != nil {
		return base.Errorf(base.CodeIllegalGeneration, format, args...)
	}
	return base.Errorf(base.CodeStaleMember, format, args...)
}

// CheckFetch refuses a member of a group of the consumer protocol that is not at the epoch it says; nil for who does
// not say, and for groups of other types.
func (c *Coordinator) CheckFetch(req *FetchOffsetsRequest) *base.Error {
	if c.opts.Streams.Exists(req.Key) {
		return c.opts.Streams.CheckFetch(req)
	}
	g := c.consumers[req.Key]
	if g == nil || req.MemberID == nil && req.Epoch < 0 {
		return nil
	}
	m := g.members[textOf(req.MemberID)]
	switch {
	case m == nil:
		return base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", textOf(req.MemberID), g.key.Group)
	case req.Epoch != m.Epoch:
		return m.stale("The received member epoch %d does not match the expected member epoch %d.", req.Epoch, m.Epoch)
	}
	return nil
}

// Exists reports whether there is a group of the name, or is about to be, whatever its type.
func (c *Coordinator) Exists(k Key) bool { return c.exists(k) }

// DescribeConsumers shows one group of the consumer protocol.
func (c *Coordinator) DescribeConsumers(k Key) ConsumerDescription {
	out := ConsumerDescription{Group: k.Group, State: Dead}
	g := c.consumers[k]
	switch {
	case c.taken(k) || g == nil && c.exists(k):
		out.Err = notConsumer(k)
	case g == nil:
		out.Err = base.Errorf(base.CodeUnknownGroup, "Group %s not found.", k.Group)
	default:
		out.State, out.Epoch, out.AssignmentEpoch, out.Assignor = g.state(), g.Epoch, g.AssignmentEpoch, c.assignor(g).name
		for _, m := range g.list() {
			out.Members = append(out.Members, m.Consumer)
		}
	}
	return out
}
