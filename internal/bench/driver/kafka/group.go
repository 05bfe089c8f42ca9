package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/bench/driver"
)

// group is what keeps a subscription's place.
func (s *space) group(sub driver.Subscription) *group {
	name := s.layout + "-" + sub.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[name]
	if g == nil {
		g = &group{name: name, share: sub.AckEach}
		s.groups[name] = g
	}
	return g
}

// prepare gives a group its beginning, unless it has one: the first or, not fromStart, the next message of every
// partition. The group has no members yet.
func (s *space) prepare(ctx context.Context, g *group, fromStart bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ready {
		return nil
	}
	if g.share {
		if err := s.d.needShareGroups(ctx); err != nil {
			return err
		}
	}
	var err error
	switch {
	case g.share && fromStart:
		err = s.resetToEarliest(ctx, g)
	case g.share:
		err = s.shareFromEnd(ctx, g)
	default:
		err = s.commitBeginning(ctx, g, fromStart)
	}
	if err != nil {
		return fmt.Errorf("preparing group %s: %w", g.name, err)
	}
	g.ready = true
	return nil
}

// bounds are the first or the next offset of every partition.
func (s *space) bounds(ctx context.Context, first bool) (kadm.ListedOffsets, error) {
	list := s.d.admin.ListEndOffsets
	if first {
		list = s.d.admin.ListStartOffsets
	}
	all := make(kadm.ListedOffsets, len(s.topics))
	for names := range slices.Chunk(s.topics, topicsAtOnce) {
		listed, err := list(ctx, names...)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("listing offsets: %w", err)
		}
		maps.Copy(all, listed)
	}
	return all, nil
}

// commitBeginning commits where a consumer group begins: a position that it has, other than one that only follows
// from a rule, can turn out to have been removed.
func (s *space) commitBeginning(ctx context.Context, g *group, fromStart bool) error {
	listed, err := s.bounds(ctx, fromStart)
	if err != nil {
		return err
	}
	part, n := make(kadm.Offsets), 0
	commit := func() error {
		err := s.d.admin.CommitAllOffsets(ctx, g.name, part)
		part, n = make(kadm.Offsets), 0
		return err
	}
	for topic, partitions := range listed {
		for p, o := range partitions {
			part.Add(kadm.Offset{Topic: topic, Partition: p, At: o.Offset, LeaderEpoch: -1})
			n++
		}
		if n >= offsetsAtOnce {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return nil
	}
	return commit()
}

// resetToEarliest has a share group begin with the first record that there is.
func (s *space) resetToEarliest(ctx context.Context, g *group) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, g.name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value, c.Op = "share.auto.offset.reset", kmsg.StringPtr("earliest"), kmsg.IncrementalAlterConfigOpSet
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, s.d.client)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("setting share.auto.offset.reset: %w", withMessage(err, r.ErrorMessage))
		}
	}
	return nil
}

// shareFromEnd has a share group begin with the next record of every partition.
func (s *space) shareFromEnd(ctx context.Context, g *group) error {
	listed, err := s.bounds(ctx, false)
	if err != nil {
		return err
	}
	resp, err := s.d.admin.AlterShareGroupOffsets(ctx, g.name, listed.Offsets())
	if err != nil {
		return err
	}
	return resp.Error()
}

// removeGroup deletes a group, with what the dead have left in it.
func (s *space) removeGroup(ctx context.Context, g *group) error {
	remove := func() error {
		deleted, err := s.d.admin.DeleteGroup(ctx, g.name)
		if err == nil {
			err = deleted.Err
		}
		return err
	}
	err := remove()
	if errors.Is(err, kerr.NonEmptyGroup) {
		if err = s.evict(ctx, g); err == nil {
			err = remove()
		}
	}
	if err == nil || errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	return fmt.Errorf("deleting group %s: %w", g.name, err)
}

// evict has all members leave a group.
func (s *space) evict(ctx context.Context, g *group) error {
	if g.share {
		described, err := s.d.admin.DescribeShareGroups(ctx, g.name)
		if err != nil {
			return err
		}
		for _, m := range described[g.name].Members {
			req := kmsg.NewPtrShareGroupHeartbeatRequest()
			req.GroupID, req.MemberID, req.MemberEpoch = g.name, m.MemberID, -1
			if _, err := req.RequestWith(ctx, s.d.client); err != nil {
				return err
			}
		}
		return nil
	}
	described, err := s.d.admin.DescribeGroups(ctx, g.name)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = g.name
	for _, m := range described[g.name].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	_, err = req.RequestWith(ctx, s.d.client)
	return err
}
