package streams

import (
	"slices"
	"strings"

	"godwit/internal/base"
)

// checkHeartbeat checks a request by itself.
func checkHeartbeat(req *HeartbeatRequest) *base.Error {
	refuse := func(format string, args ...any) *base.Error {
		return base.Errorf(base.CodeInvalidRequest, format, args...)
	}
	empty := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	switch {
	case req.Regex:
		return refuse("Regular expressions for source topics are not supported yet.")
	case strings.TrimSpace(req.MemberID) == "":
		return refuse("MemberId can't be empty.")
	case strings.TrimSpace(req.Group) == "":
		return refuse("GroupId can't be empty.")
	case empty(req.Instance):
		return refuse("InstanceId can't be empty.")
	case empty(req.Rack):
		return refuse("RackId can't be empty.")
	case req.Epoch == EpochStatic && req.Instance == nil:
		return refuse("InstanceId can't be null.")
	case req.Epoch < EpochStatic:
		return refuse("MemberEpoch is %d, but must be greater than or equal to -2.", req.Epoch)
	case req.Incomplete:
		return refuse("If one task-type is non-null, all must be non-null.")
	case req.Epoch != EpochJoin && req.Topology != nil:
		return refuse("Topology can only be provided when (re-)joining.")
	case repeats(req.Offsets) || repeats(req.EndOffsets):
		return refuse("Task offsets contain a task twice.")
	case hasTwice(req.Tags):
		return refuse("A client tag is said twice.")
	}
	if err := req.Key.Check(); err != nil {
		return err
	}
	if req.Epoch == EpochJoin {
		return checkJoin(req)
	}
	return nil
}

// checkJoin checks what a member must say when it joins.
func checkJoin(req *HeartbeatRequest) *base.Error {
	refuse := func(msg string) *base.Error { return base.Errorf(base.CodeInvalidRequest, "%s", msg) }
	switch o := req.Owned; {
	case req.Rebalance == -1:
		return refuse("RebalanceTimeoutMs must be provided in first request.")
	case o != nil && len(o.Active) > 0:
		return refuse("ActiveTasks must be empty when (re-)joining.")
	case o != nil && len(o.Standby) > 0:
		return refuse("StandbyTasks must be empty when (re-)joining.")
	case o != nil && len(o.Warmup) > 0:
		return refuse("WarmupTasks must be empty when (re-)joining.")
	case req.Topology == nil:
		return refuse("Topology must be non-null when (re-)joining.")
	}
	return req.Topology.checkShape()
}

// Limits of a topology. Each is far above what an application has; planning and assigning it costs time and memory in the group's
// shard.
const (
	maxSubtopologies = 1_000
	maxNames         = 10_000  // topics and subtopologies, as often as they are named
	maxTasks         = 100_000 // without standby tasks
)

// checkShape checks what is wrong with a topology whatever its topics.
func (t *Topology) checkShape() *base.Error {
	if t.Epoch < 0 {
		return base.Errorf(base.CodeInvalidRequest, "Topology epoch must be non-negative.")
	}
	names := len(t.Subtopologies)
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names += len(s.Sources) + len(s.Sinks) + len(s.Changelogs) + len(s.Repartitions)
	}
	if len(t.Subtopologies) > maxSubtopologies || names > maxNames {
		return invalid("The topology has %d subtopologies and %d names in all, at most %d and %d are allowed.",
			len(t.Subtopologies), names, maxSubtopologies, maxNames).err
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if i > 0 && t.Subtopologies[i-1].ID >= s.ID {
			return invalid("Subtopology %s stands in the topology more than once.", s.ID).err
		}
		for _, info := range s.Changelogs {
			if info.Partitions != 0 {
				return invalid("Changelog topic %s must have an undefined partition count, but it is set to %d.", info.Name, info.Partitions).err
			}
		}
		for _, info := range s.Repartitions {
			if info.Partitions < 0 {
				return invalid("Repartition topic %s cannot have %d partitions.", info.Name, info.Partitions).err
			}
		}
	}
	return nil
}

// repeats reports whether a task is in the list twice.
func repeats(list []TaskOffset) bool {
	seen := make(map[TaskID]struct{}, len(list))
	for _, o := range list {
		seen[o.TaskID] = struct{}{}
	}
	return len(seen) < len(list)
}

// hasTwice reports whether a key is in the list twice.
func hasTwice(list []Pair) bool {
	keys := make([]string, len(list))
	for i, p := range list {
		keys[i] = p.Key
	}
	slices.Sort(keys)
	return len(slices.Compact(keys)) < len(list)
}
