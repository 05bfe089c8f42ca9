// Package wal is the write-ahead log of a node: one writer for the entries of all shards, with group
// commit.
//
// The writer takes whatever is queued, writes it with gathered writes straight from the
// callers' buffers, syncs once and completes every record. There is no timer: a sync covers what queued up
// during the one before. When that is much it is written while the sync is still under way, so that the disk need not wait
// for a copy into the page cache; it stays unacknowledged until a sync of its own.
//
// States of the writer:
//
//	healthy  records are written
//	full     no next file can be made: data is refused with CodeDiskFull, while records marked Control go
//	         into the room that every file keeps for them
//	failed   a write or sync failed: everything is refused with CodeStorage until Recover began a new
//	         file under a new term; the new file's header voids what the failed group may have left behind
//
// Guarantees:
//  1. Done(nil) under Sync durability means that the record and all before it are on disk.
//  2. Done is called exactly once per record, in the order of Append.
//  3. A failed sync is never retried as if nothing had happened: no record is completed from a file after one failed on it.
package wal
