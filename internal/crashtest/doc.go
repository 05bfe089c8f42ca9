// Package crashtest runs a whole engine on a file system that loses power, and checks that nothing acknowledged is
// lost. Everything comes from one seed: the operations, the order of turns, the moment of the power loss and
// what the disk keeps of what was not synced.
//
// After every power loss an independent model checks, per log:
//
//  1. every acknowledged record is there, at its offset, byte for byte, unless a trim that was asked for covers it;
//  2. what is there beyond that was sent, once, and its fate had not been told;
//  3. offsets have neither gaps nor repeats (compaction leaves gaps only where a later record has the same key);
//  4. the high watermark is not below any that was seen;
//  5. streams that were acknowledged exist, deleted ones do not;
//  6. the batches alone say which transactions are open and which were aborted, and the log agrees; one whose end was acknowledged
//     is not open, and no marker is there twice.
package crashtest
