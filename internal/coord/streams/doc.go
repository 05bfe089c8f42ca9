// Package streams decides for the streams groups of one shard (KIP-1071): who is a member, which topology the group runs, which
// internal topics it lacks, and which tasks each member has.
//
// A task is one partition of one subtopology, and reads that partition of all the subtopology's source topics. One member runs it; others,
// on other processes, may keep a copy of its state as standby. There are no warm-up tasks, as Kafka 4.4 assigns none.
// Offsets of streams groups are kept by package group, which asks here who may commit them.
//
// The package has two machines. [State] is journaled: commands go through [State.Apply] on every replica and give the
// same result there. [Coordinator] is the leader's own: it answers requests from a copy of State that is ahead by what
// is in flight, and hands out what it decided as commands, from [Coordinator.Changes]. The caller journals them and holds the
// answers of the same call until they are committed. When a command is lost, the coordinator is ahead for good: the
// caller makes a new one from State. Members live through that and through a restart with their epochs and tasks; their
// sessions begin anew. What members report of their changelogs, a shutdown that one asked for, and the count of changes of
// endpoints are the coordinator's alone, as in Kafka.
//
// A group's states, as in Kafka:
//
//	Empty        no members
//	NotReady     topics of the topology are missing or do not fit together
//	Assigning    the targets are for an earlier epoch of the group
//	Reconciling  a member has not come to its target yet
//	Stable       every member has its target
//	Dead         the group does not exist; only ever shown, never stored
//
// A member comes to its target in steps, each at a heartbeat of its own:
//
//	Stable      at a new assignment epoch: gives up what is not its target any more (Unrevoked), or takes what is free
//	Unrevoked   says that it has given that up: takes what is free
//	Unreleased  some of its target is still with others; it takes at each heartbeat what has become free
//
// Guarantees of the state:
//
//  1. A group's epoch never falls. A member's epoch is at most the assignment's, which is at most the group's.
//  2. Decoding never allocates more than a small multiple of the input's length.
//
// Guarantees of the coordinator:
//
//  3. No two members have the same active task, whether assigned or still to be given up.
//  4. After each assignment, every task of a topology whose topics are there is the active target of one member.
//  5. A process has a task once: active or as standby.
//  6. Whoever has to give up tasks does so in its rebalance time-out, or is removed.
package streams
