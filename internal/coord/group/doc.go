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
//  10. Of the commits of a partition that took effect, the last in the order of the journal counts: at once, or with its
//     transaction, whichever of them ends last.
package group
