package group

import "godwit/internal/base"

// Commit checks who commits and what, and makes the command to journal; without one the response
// can be sent at once, else when the command is committed. A commit keeps the member's session.
func (c *Coordinator) Commit(now int64, req *CommitRequest) (*CommitOffsets, CommitResponse) {
	c.advance(now)
	if err := c.checkCommit(req); err != nil {
		return nil, CommitResponse{Err: err}
	}
	cmd := &CommitOffsets{Key: req.Key, Time: c.now}
	if req.Retention >= 0 {
		cmd.Expires = max(c.now+req.Retention, 1)
	}
	out := CommitResponse{}
	cmd.Offsets, out.Errs = c.acceptable(req.Offsets)
	if len(cmd.Offsets) == 0 {
		return nil, out
	}
	c.revive(req.Key)
	return cmd, out
}

// acceptable picks the offsets that may be committed; errs has one entry for each, nil for those.
func (c *Coordinator) acceptable(offsets []CommitOffset) (good []CommitOffset, errs []*base.Error) {
	errs = make([]*base.Error, len(offsets))
	for i, at := range offsets {
		if len(at.Metadata) > c.opts.MaxMetadata {
			errs[i] = base.Errorf(base.CodeMetadataTooLarge, "offset metadata of %d bytes is above the limit of %d", len(at.Metadata), c.opts.MaxMetadata)
			continue
		}
		good = append(good, at)
	}
	return good, errs
}

// revive makes a group that is being deleted live again: a commit follows.
func (c *Coordinator) revive(k Key) {
	if g := c.groups[k]; g != nil && g.deleted {
		c.create(k)
	}
}

// checkCommit finds out whether the request may commit: a member of the current generation, or anybody without
// one while the group is empty. A group that does not exist yet is empty. CodeUnknownGroup stands for a
// generation of a group that does not exist; Kafka says ILLEGAL_GENERATION below OffsetCommit 9. In a transaction anybody without a
// generation may.
func (c *Coordinator) checkCommit(req *CommitRequest) *base.Error {
	if err := checkName(req.Key); err != nil {
		return err
	}
	if c.opts.Streams.Exists(req.Key) {
		return c.opts.Streams.CheckCommit(req)
	}
	if c.taken(req.Key) {
		return notConsumer(req.Key)
	}
	if g := c.consumers[req.Key]; g != nil {
		return checkConsumerCommit(g, req)
	}
	g := c.group(req.Key)
	if g == nil || g.state == Empty {
		switch {
		case req.Generation < 0:
			return nil
		case !c.exists(req.Key):
			return unknownGroup(req.Key)
		case g == nil:
			return unknownMember(req.Key, req.MemberID)
		}
	}
	if req.Anonymous() {
		if req.transactional {
			return nil
		}
		return base.Errorf(base.CodeUnknownMember, "group %q has members: only they can commit", req.Group)
	}
	m, err := c.current(req.Key, req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return err
	}
	if req.transactional {
		return nil // also between the phases of a rebalance, and it keeps no session
	}
	if g.state == CompletingRebalance {
		return rebalancing(g)
	}
	c.touch(m)
	return nil
}

func unknownGroup(k Key) *base.Error {
	return base.Errorf(base.CodeUnknownGroup, "group %q does not exist", k.Group)
}

// DeleteOffsets checks that the group's members do not read what is to be forgotten, and makes the command
// to journal; nil if there is nothing to do.
func (c *Coordinator) DeleteOffsets(req *DeleteOffsetsRequest) (*DeleteOffsets, DeleteOffsetsResponse) {
	if err := checkName(req.Key); err != nil {
		return nil, DeleteOffsetsResponse{Err: err}
	}
	streams := c.opts.Streams.Exists(req.Key)
	if !c.exists(req.Key) && !streams {
		return nil, DeleteOffsetsResponse{Err: unknownGroup(req.Key)}
	}
	g := c.group(req.Key)
	live := g != nil && g.state != Empty
	consumers := c.consumers[req.Key]
	if live && g.protocolType != consumerType {
		return nil, DeleteOffsetsResponse{Err: base.Errorf(base.CodeNonEmptyGroup, "group %q has members", req.Group)}
	}
	cmd := &DeleteOffsets{Key: req.Key}
	out := DeleteOffsetsResponse{Errs: make([]*base.Error, len(req.Partitions))}
	for i, p := range req.Partitions {
		if live && g.reads(p.Name) || consumers != nil && c.readsTopic(consumers, p.Name) || streams && c.opts.Streams.Reads(req.Key, p.Name) {
			out.Errs[i] = base.Errorf(base.CodeGroupSubscribed, "members of group %q read %q", req.Group, p.Name)
			continue
		}
		cmd.Partitions = append(cmd.Partitions, p.Partition)
	}
	if len(cmd.Partitions) == 0 {
		return nil, out
	}
	return cmd, out
}

// DeleteGroup makes the command that deletes a group without members. That of a streams group is DeleteStreams.
func (c *Coordinator) DeleteGroup(k Key) (*DeleteGroup, *base.Error) {
	if g := c.consumers[k]; g != nil && len(g.members) > 0 {
		return nil, base.Errorf(base.CodeNonEmptyGroup, "group %q has members", k.Group)
	}
	g := c.group(k)
	switch {
	case !c.exists(k) || c.opts.Streams.Exists(k):
		return nil, unknownGroup(k)
	case g != nil && g.state != Empty:
		return nil, base.Errorf(base.CodeNonEmptyGroup, "group %q has members", k.Group)
	}
	c.markDeleted(k)
	return &DeleteGroup{Key: k}, nil
}

// markDeleted hides what Offsets has saved of a group until the command that deletes it is applied.
func (c *Coordinator) markDeleted(k Key) {
	delete(c.consumers, k)
	g := c.create(k)
	for id, t := range g.pending {
		c.timers.stop(t)
		delete(g.pending, id)
	}
	g.deleted = true
}
