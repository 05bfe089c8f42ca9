package streams

import "godwit/internal/base"

// CheckCommit finds out whether a request may commit offsets of a streams group: a member under its epoch, or under an earlier
// one as long as it has had the tasks since; or anybody while the group is empty. As in Kafka, one partition that may not be
// committed fails them all.
func (c *Coordinator) CheckCommit(req *CommitCheck) *base.Error {
	g := c.live.groups[req.Key]
	switch {
	case g == nil:
		return notFound(req.Key)
	case req.Epoch < 0 && len(g.members) == 0, req.Transactional && req.Anonymous:
		return nil
	}
	m, ok := g.members[req.MemberID]
	switch {
	case !ok:
		return base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", req.MemberID, req.Group)
	case req.Classic && !req.Transactional:
		return base.Errorf(base.CodeUnsupportedVersion, "OffsetCommit version 9 or above must be used by members using the streams group protocol")
	case req.Epoch == m.Epoch:
		return nil
	case req.Epoch > m.Epoch:
		return base.Errorf(base.CodeStaleMember, "Received member epoch %d is newer than current member epoch %d.", req.Epoch, m.Epoch)
	}
	for _, p := range req.Partitions {
		if err := c.checkPartition(g, &m, req.Epoch, p); err != nil {
			return err
		}
	}
	return nil
}

// checkPartition finds out whether a member has had the task that reads a partition since an epoch.
func (c *Coordinator) checkPartition(g *group, m *Member, epoch int32, p Partition) *base.Error {
	t, ok := c.topics.ByID(p.Stream)
	sub := g.topology.source(t.Name)
	if !ok || sub == nil {
		return base.Errorf(base.CodeStaleMember, "Topic %s is not in the topology.", t.Name)
	}
	id := TaskID{sub.ID, p.Index}
	for _, list := range [][]Task{m.Assigned.Active, m.Revoking.Active} {
		i, ok := find(list, id)
		switch {
		case !ok:
		case epoch < list[i].Epoch:
			return base.Errorf(base.CodeStaleMember, "Received member epoch %d is older than assignment epoch %d for task %s-%d.", epoch, list[i].Epoch, id.Subtopology, id.Partition)
		default:
			return nil
		}
	}
	return base.Errorf(base.CodeStaleMember, "Task %s-%d is not assigned or pending revocation for member.", id.Subtopology, id.Partition)
}

// CheckFetch refuses a member that is not at the epoch it says; nil for who does not say.
func (c *Coordinator) CheckFetch(k Key, member *string, epoch int32) *base.Error {
	g := c.live.groups[k]
	if g == nil || member == nil && epoch < 0 {
		return nil
	}
	id := ""
	if member != nil {
		id = *member
	}
	m, ok := g.members[id]
	switch {
	case !ok:
		return base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", id, k.Group)
	case epoch != m.Epoch:
		return base.Errorf(base.CodeStaleMember, "The received member epoch %d does not match the expected member epoch %d.", epoch, m.Epoch)
	}
	return nil
}

// Reads reports whether a group with members reads a topic.
func (c *Coordinator) Reads(k Key, topic string) bool {
	g := c.live.groups[k]
	return g != nil && len(g.members) > 0 && g.topology.source(topic) != nil
}
