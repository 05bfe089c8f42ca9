// Package segment is the format of data files and the index over them: which bytes of which file hold
// which offsets of which log.
//
// There are two kinds of file in one layout. A WAL file holds frames in the order of writing; once
// sealed it is storage level L0. A merged file (L1) is written by the compactor and holds, log by
// log, nothing but batches. Both carry a header at 0, a seal record at 512, data from 4096, and
// behind the data a footer that lists the extents of every log. docs/formats.md has the bytes.
//
// The index (Store) knows pieces: the range of offsets that one file holds of one log. While a file is
// being written its extents are in memory; once it is sealed they are read from its footer, so that
// memory grows with the number of (file, log) pairs and not with the number of batches.
//
// Guarantees of the Store:
//  1. The pieces of a log are sorted by offset and do not overlap.
//  2. A reader that holds a Span can read it until it calls Release, whatever is removed meanwhile.
//  3. A file's live bytes are the sum of its pieces' bytes; at zero nothing refers to the file.
package segment
