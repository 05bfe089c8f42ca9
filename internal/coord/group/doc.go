// Package group decides for the consumer groups of one shard: who is a member, who leads, and which offsets
// are committed.
//
// It has two machines. [Offsets] is the journaled state: commands go through [Offsets.Apply] on every
// replica and give the same result there. [Coordinator] is the leader's own: it runs the classic group
// protocol of Kafka (JoinGroup, SyncGroup, Heartbeat, LeaveGroup; KIP-62, KIP-134, KIP-345, KIP-394,
// KIP-814), reads Offsets and never writes it.
//
// A request that has to wait carries a token chosen by the caller. Every call of the coordinator returns the replies that became due, those of
// other waiting requests included; each token is answered exactly once or cancelled. What has to survive
// the leader comes back as commands, from [Coordinator.Changes]: the caller journals them and
// holds the replies of the same call until they are committed. A new leader makes a new coordinator
// from Offsets: members of stable groups go on as if nothing had happened, all others join again.
//
// Positions that a transaction commits are kept aside until it ends. Who hosts the coordinator
//
//  1. takes a guard, [Coordinator.TxnGuard]; unless it is verified, asks the transaction's coordinator whether the transaction is open and
//     has the group, or lets it add the group;
//  2. has [Coordinator.CommitTxn] make the command under that guard, and journals it;
//  3. calls [Coordinator.EndTxn] with the end of the transaction, and journals that, each time that it comes: it may be repeated.
//
// Between the call and its command's place in the journal there must be nothing else of the group.
//
// A group's states and what moves it, as in Kafka:
//
//	Empty                a member joins: PreparingRebalance
//	PreparingRebalance   all joined, or the time-out passed: CompletingRebalance (Empty if nobody is left)
//	CompletingRebalance  the leader sent the assignment: Stable; a member comes, goes or changes: PreparingRebalance
//	Stable               a member comes, goes or changes: PreparingRebalance
//	Dead                 the group does not exist; only ever shown, never stored
//
// Groups of the consumer protocol (KIP-848; in the files consumer*.go) are run by the same coordinator, which assigns partitions itself.
// All of such a group is saved, and the coordinator goes ahead of what is saved: see [Binding]. A group changes between the protocols
// while it has members, and members of the classic protocol may be in it.
//
//	Empty                a member joins: Assigning
//	Assigning            a heartbeat comes, and the last assignment is old enough: Reconciling
//	Reconciling          all members have what they should have: Stable
//	Stable               a member comes, goes or changes, or a topic does: Assigning
//
// Guarantees of the coordinator:
//
//  1. A group has a leader if and only if it has members, and the leader is one of them.
//  2. The generation rises by one with each completed join phase and never falls.
//  3. All members of a generation support its protocol and have the group's protocol type.
//  4. A token is answered once; a member holds at most one.
//  5. No deadline of a member that waits for its answer ends its membership, unless it is new.
//  6. Positions of one namespace are never seen from another: the namespace is part of every key.
//
// Guarantees of the offsets:
//
//  7. The index by partition and the map by group hold the same entries.
//  8. Decoding never allocates more than a small multiple of the input's length.
//  9. What is kept aside is of a transaction whose end has yet to be journaled here.
//
// Guarantees of groups of the consumer protocol:
//
//  10. No partition has two members: who is to give one up has it until it said so, or is removed.
//  11. No partition is meant for two members, and each of a subscribed topic is meant for one as of the last assignment.
//  12. A member's epoch is at most that of the last assignment, which is at most that of the group. None of them falls.
//  13. Each member has a session, and who is to give up partitions has a time-out for that.
//  14. When nothing changes any more, some heartbeats later the group is stable, whatever answers and leaders were lost.
//  10. Of the commits of a partition that took effect, the last in the order of the journal counts: at once, or with its
//     transaction, whichever of them ends last.
package group
