// Package vfs is the only way to files: the file system of the operating system, a crashing twin in
// memory, and a wrapper that injects faults.
//
// FS and File are those of Pebble, so that the write-ahead log and the state store live on one file
// system and lose power together. Three implementations are used:
//
//   - Default: the operating system's.
//   - Crashing: in memory. It knows what is synced and what is not; CrashClone gives one of the
//     states that the disk may be in after a power loss, the same one for the same random source.
//   - Faults: around any other. It counts operations, fails them by rule, ignores syncs, cuts the
//     power. Its fault model stands at its type.
//
// Three rules hold for all callers:
//
//  1. A file is on disk after File.Sync or File.SyncData returned nil, its name only after SyncDir of
//     its directory did. A directory's own name needs SyncDir of its parent (MkdirAll does so).
//  2. After a failed sync the file's unsynced bytes are lost for good, whatever a later sync
//     returns: they must be written again, elsewhere.
//  3. File.Write may change the bytes handed in (Pebble's contract). WriteAt and Writev never do.
package vfs
