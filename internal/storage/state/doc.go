// Package state keeps what the shards' machines hold, as of their last checkpoint, in one Pebble store per node.
//
// Pebble's own log is off: a crash loses what was not flushed, and the write-ahead log is replayed instead.
// The store guarantees:
//
//  1. One Write is atomic: the changed keys of a shard and its applied index and term are durable together or not at all.
//  2. Writes become durable in their order: with one, all before it.
//  3. After Flush returned nil, all Writes before it are durable, and the replay position with them.
//     The replay position is never durable before a Write that came first.
//
// It asks of its caller:
//
//  1. The log is synced up to a shard's index before Write is called with it, in every durability mode. Pebble flushes
//     by itself when a memtable is full, so the state may be on disk before Flush is called; if the log
//     were behind, the entries that follow a crash would reuse indexes that the state claims to hold already.
//  2. Replay skips the entries of a shard up to its applied index: by the above it may be newer than the replay
//     position says.
//  3. Nothing in the log from ReplayFrom on is removed. It rises only with Flush.
//  4. After a Write or a Flush that failed, everything written since the last Flush that returned nil is written again. The
//     store may have lost it: when Pebble cannot go on after an error it is opened anew.
//
// # Failures
//
// An error has a base.Code: CodeDiskFull and CodeStorage may pass and the store stays usable, CodeCorruption is
// damage that only a copy repairs. A flush that failed is tried again by the next Write or Flush, into new files, never by a
// second sync of the same file; in between nothing is written. Reads go on. What an instance of Pebble that cannot go on
// holds in memory, a few megabytes, is not given back before the process ends.
//
// Open makes durable what it reads, since the page cache may hold more than the disk, and refuses a manifest that
// is damaged anywhere but at its end. A damaged last record cannot be told from one that a crash has torn: the store is then as
// of the flush before. If the log was shortened since, replay finds a gap between the applied index and the first entry.
//
// # Format
//
// The bytes on disk are Pebble's, at format major version 24 (FormatValueSeparation). Keys begin with a shard's number, 4 bytes
// big-endian, followed by the shard's own key. Shard 4294967295 does not exist; its keys are the node's:
//
//	ff ff ff ff 'a' shard(4)   applied index (8) and term (8) of the shard
//	ff ff ff ff 'f'            version of this layout (4): 1
//	ff ff ff ff 'r'            replay position (8): file, offset
//	ff ff ff ff 'v' name       a value of the node
//
// All numbers are big-endian. Checksums are Pebble's, per block.
package state
