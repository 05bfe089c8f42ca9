// Package queue decides which consumer gets which record of one partition, and what becomes of it: acquire,
// acknowledge, release with delay, reject, renew, expire, dead-letter.
//
// One engine serves Kafka share groups (KIP-932), AMQP queues, SQS, JetStream work queues and MQTT shared
// subscriptions. A [Queue] is the state of one queue over one partition. It knows offsets, never records: the
// caller says which offsets exist ([Read]) and what is special about a record ([Meta]).
//
// A Queue has two faces, as a partition's log has. The applied state is what committed commands made it,
// the same on every replica. The leader decides on a guess: the applied state and what is in flight. Its methods
// return a [Command] (nil: nothing to do) and enter it into the guess; the caller journals it, every replica runs
// [Queue.Apply], and only then the answer goes out. [Queue.Abandon] drops the guess when leadership or a write is
// lost. Commands say outcomes, not rules: [Options] may differ between replicas and may change at any time.
//
// The window [start, end) is what the queue has looked at. Every offset in it has one state:
//
//	Available  may be acquired, if it is due and its lane is free
//	Acquired   a consumer holds it until it settles it or the lock's deadline passes
//	Waiting    delayed beyond the horizon: only the ordered [View] knows until when
//	Done       acknowledged, archived, or no record is there
//
// Offsets from end on are not looked at yet. Neighbours that are alike are one run, so that a million plain pending records cost
// a few runs. A record that waits costs a bit where others around it are done, and nothing where they wait too:
// what is known of it lies in the state store, and comes into memory when it is due soon. Between two
// checkpoints, changes to that are held in memory: see [Queue.Unsaved].
//
// A record that is neither acknowledged nor available any more (rejected, delivered too often, expired, dropped for
// length, trimmed) comes out as an [Effect]. It is kept in the state until the caller confirms that it was carried
// out. The data of records with outstanding effects is still needed: see [Queue.Needed].
//
// Acknowledging does not destroy: [Queue.Reset] takes the queue back to any offset.
//
// Lanes are message groups. A record with a lane is delivered only when no earlier record of the lane is with a consumer or
// waits for redelivery, or together with those in one answer. A record that was never delivered and is not
// due yet does not hold its lane.
//
// Guarantees:
//
//  1. Runs cover the window exactly: no offset is missing, none is there twice, and neighbours differ.
//  2. The first offset of the window is not Done.
//  3. The counts by state are those of the runs.
//  4. Commands are applied in the order of their decision: a command decided on another state is a bug.
//  5. What is Done is never acquired again, but by Reset.
//  6. A record is held by at most one consumer, in the guess as well: two acquires in flight never share one.
//  7. No two answers hold records of the same lane at a time.
//  8. An effect is outstanding from the command that caused it to the one that confirms it.
//  9. Decoding never allocates more than a small multiple of the input's length.
package queue
