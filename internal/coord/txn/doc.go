// Package txn decides for the transactions of one shard (KIP-98, KIP-890): which producer has a transactional ID, which partitions and
// groups its transaction has, and whether it commits or aborts.
//
// The package has two machines. [State] is journaled: commands go through [State.Apply] on every replica and give the
// same result there. [Coordinator] is the leader's own: it answers requests from a copy of State that is ahead by what
// is in flight, and hands out what it decided as commands, from [Coordinator.Changes]. The caller journals them and holds the answers of the
// same call until they are committed. When a command is lost, the coordinator is ahead for good: the
// caller makes a new one from State.
//
// The states of a transactional ID, as in Kafka:
//
//	Empty           partitions or groups are added: Ongoing; a producer of version 2 aborts: CompleteAbort
//	Ongoing         the producer ends it: PrepareCommit or PrepareAbort; a time-out, a newer producer: PrepareAbort
//	PrepareCommit   everything is confirmed: CompleteCommit
//	PrepareAbort    everything is confirmed: CompleteAbort
//	CompleteCommit  as Empty
//	CompleteAbort   as Empty
//	Dead, PrepareEpochFence  only ever named, never stored
//
// From Empty, CompleteCommit and CompleteAbort an ID goes back to Empty when a producer initializes, and is forgotten when it was
// not used for [Options.Expiry].
//
// An outcome is decided once, by the command that makes the transaction PrepareCommit or PrepareAbort. What is to be done then in other shards
// is part of the state until it is confirmed ([State.Outstanding], [State.Ending]): a marker into each partition, and the end of what
// each group has pending. It may be done more than once and in any order, with two limits for version 1, whose markers look like those of the
// next transaction: a marker is sent again only when it is known to have failed, or by the coordinator of a later term, whose epoch is
// higher; and a coordinator confirms only what it has sent itself. Each ending has a serial number within its ID, so that a late
// confirmation never counts for a later transaction. When a topic is deleted, its partitions leave all transactions: nothing is sent.
//
// Epochs (KIP-360, KIP-890). Version 2 raises the producer's epoch at each end, so that markers, and all requests of the next transaction, are
// above whatever of the ended one is still under way. Version 1 ends with the epoch that the transaction has. An end that its producer did not
// ask for always raises it: what the producer writes then is refused. As in Kafka 4.4, one of version 2 may still abort, and one of either version initialize,
// with the epoch that it had, and go on (KIP-588). Clients get epochs up to 32,766; 32,767 is for the markers of the last transaction
// of a producer ID and for fencing, so that a time-out never has to wait for a new one.
//
// Where this differs from Kafka: a producer that is no longer the current one cannot abort the current one's transaction by initializing; a producer that
// goes on while its last transaction is not complete is told to try again, where Kafka fences it or does not know its new ID.
//
// Guarantees of the state:
//
//  1. The epoch of a producer ID never falls, and an ID that was given up never comes back.
//  2. Only while it is Ongoing is anything added to a transaction; nothing is removed but by confirmation or by the deletion of a topic.
//  3. An ID is preparing only as long as something is outstanding.
//  4. Decoding never allocates more than a small multiple of the input's length.
//
// Guarantees of the coordinator:
//
//  5. With version 2, an end that is delayed or repeated never ends a later transaction.
//  6. Only the producer with the current ID and epoch adds to a transaction or ends it.
//  7. A transaction that is open for longer than its time-out is aborted by the next Tick.
package txn
