// Package wal is the write-ahead log of a node: one writer for the entries of all shards, with group
// commit.
//
// The writer takes whatever is queued, writes it with one gathered write straight from the
// callers' buffers, syncs once and completes every record of the group. There is no timer: a group is what queued up
// while the previous one was being synced.
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
