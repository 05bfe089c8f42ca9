package group

import "godwit/internal/base"

// Streams answers for streams groups (KIP-1071), which are decided elsewhere but keep their offsets here.
type Streams interface {
	// Exists reports whether there is a streams group of the name.
	Exists(k Key) bool
	// CheckCommit refuses a commit by who may not.
	CheckCommit(req *CommitRequest) *base.Error
	// CheckFetch refuses a member that is not at the epoch it says.
	CheckFetch(req *FetchOffsetsRequest) *base.Error
	// Reads reports whether members of a streams group read a topic.
	Reads(k Key, topic string) bool
}

// noStreams has no groups.
type noStreams struct{}

func (noStreams) Exists(Key) bool                             { return false }
func (noStreams) CheckCommit(*CommitRequest) *base.Error      { return nil }
func (noStreams) CheckFetch(*FetchOffsetsRequest) *base.Error { return nil }
func (noStreams) Reads(Key, string) bool                      { return false }

// Vacant reports whether a streams group may take the name: there is no other group, or an empty classic one, whose offsets the
// streams group then has.
func (c *Coordinator) Vacant(k Key) bool {
	if c.consumers[k] != nil {
		return false
	}
	g := c.group(k)
	return g == nil || g.state == Empty && len(g.pending) == 0
}

// HasOffsets reports whether offsets of a group are kept.
func (c *Coordinator) HasOffsets(k Key) bool {
	h := c.offsets.groups[k]
	return h != nil && (len(h.offsets) > 0 || h.pending.len() > 0)
}

// DeleteStreams makes the command that deletes the offsets of a streams group; nil if there is nothing of it here.
func (c *Coordinator) DeleteStreams(k Key) *DeleteGroup {
	if !c.exists(k) {
		return nil
	}
	c.markDeleted(k)
	return &DeleteGroup{Key: k}
}
