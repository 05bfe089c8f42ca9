// Package shard is the deterministic state machine of one shard: the logs of its partitions, the offsets of its groups, its share and streams
// groups and the queues of share groups in its logs, the ledger of losses, and in shard 0 the metadata. Same entries in, same state out, on every replica.
//
// A Machine has one owner, the shard's loop in the engine. Its applied state changes only in Apply. What
// changed since the last Checkpoint is remembered key by key, so that a checkpoint costs what
// changed and not what exists.
package shard
