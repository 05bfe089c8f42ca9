// Package compact rewrites data files: it moves what is alive out of files that are mostly dead or finely
// divided, and removes superseded records from logs that are compacted by key.
//
// Its output is merged files (see package segment). Nothing is removed from a source before the new file is on
// disk and indexed; a crash in between leaves either the old pieces or the new ones in force, never both and never
// neither. What a compaction by key removes is reported before it takes effect, so that
// the caller can record it.
//
// Key compaction keeps, as Kafka does, the last record of each key among those looked at; a tombstone stays until the time that
// its batch notes when it is first compacted (KIP-534). Records without a key, written before the log was
// compacted, go. Records of aborted transactions go, and do not supersede others; a transaction's marker stays as long as a batch of it, and then
// for as long as a tombstone. Offsets do not change.
package compact
