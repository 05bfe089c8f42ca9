// Package recordbatch reads, checks and builds record batches of Kafka's format v2 (KIP-98): the form in which
// records are received, stored and served.
//
// Everything here works on the bytes of a batch: a header is read by direct loads, records are walked over
// without allocating for each, and what Validate accepts is stored as it came unless a rule asks for a change.
//
//	at  field                 at  field                   at  field
//	 0  base offset i64       21  attributes i16          43  producer ID i64
//	 8  length i32            23  last offset delta i32   51  producer epoch i16
//	12  leader epoch i32      27  base timestamp i64      53  base sequence i32
//	16  magic i8, which is 2  35  max timestamp i64       57  number of records i32
//	17  CRC32C u32                                        61  records, compressed as a whole
//
// All integers are big-endian. The length counts what follows it. The checksum covers the attributes and all behind
// them: base offset and leader epoch, which a broker fills in, can change without it.
//
// A record is, in zigzag varints but for the attributes: length of what follows, attributes i8 (unused), timestamp
// delta, offset delta, key length (-1 for null) and key, value length and value, number of headers, and for each header the
// length of its name, the name, the length of its value (-1 for null), the value. Kafka reads lengths, counts
// and offset deltas as 32 bits; an encoding of more than five bytes is damage here because it is to its clients.
package recordbatch
