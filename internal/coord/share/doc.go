// Package share decides for the share groups of one shard (KIP-932): who is a member, which partitions each member is
// assigned, and in which partitions the group has a queue. It also keeps the configurations of groups of all types.
//
// What happens to single records is decided elsewhere, by the queue of a group in a partition, which lives in the
// partition's shard.
//
// The package has two machines. [State] is journaled: commands go through [State.Apply] on every replica and give the
// same result there. [Coordinator] is the leader's own: it answers requests from a copy of State that is ahead by what
// is in flight, and hands out what it decided as commands, from [Coordinator.Changes]. The caller journals them and holds the answers of the
// same call until they are committed. When a command is lost, the coordinator is ahead for good: the
// caller makes a new one from State. Members live through that and through a restart with their epochs; only
// their sessions begin anew.
//
// A group's states, as in Kafka:
//
//	Empty   a member joins: Stable
//	Stable  the last member leaves or is timed out: Empty
//	Dead    the group does not exist; only ever shown, never stored
//
// A group has a queue in every partition that a member subscribed to while it was there. What is to be done in
// the partitions' shards is part of the state until it is confirmed ([State.Outstanding]), so it may be done more than once and in any
// order: each effect carries a version, and an older one than the queue has seen is void.
//
//	(none)        a member subscribes, or offsets are set: Initializing
//	Initializing  confirmed: Ready; only then the partition is assigned
//	Ready         offsets are set: Initializing; offsets or the group are deleted: Deleting
//	Deleting      confirmed: (none); a member subscribes: Initializing
//
// When a topic is deleted, its queues die with the logs of its partitions: nothing is sent.
//
// Guarantees of the state:
//
//  1. A group's epoch never falls, nor does a member's; a member's is at most the assignment's, which is at most the group's.
//  2. A queue's version rises with every change of what is wanted of it, also over the end of its group.
//  3. Decoding never allocates more than a small multiple of the input's length.
//
// Guarantees of the coordinator, after each assignment:
//
//  4. Every ready partition of a topic that a member subscribes to is assigned to a member who does.
//  5. Among members with the same subscription the numbers of partitions differ by one at most, and each partition has as
//     many members as every other: one, or if there are more members than partitions, just so many that everyone has one.
//  6. A member keeps what it had, as far as 5 allows.
package share
