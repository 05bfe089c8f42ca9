// Package partlog is the pure state of one partition's log: where it starts and ends, its leader epochs, and
// the sequence numbers of its idempotent producers (KIP-98).
//
// A Log has two faces. The applied state is what committed entries made it; it is the same on every
// replica. The overlay is the leader's guess at what the entries in flight will make of
// it: Propose reads and writes the overlay, Apply the applied state. Apply catches the overlay up; Abandon drops it
// when leadership or a write is lost.
//
// Guarantees:
//  1. Offsets are dense over what is applied: each batch begins where the one before ended.
//  2. start <= end <= next, where next is the end of the overlay.
//  3. A batch of an idempotent producer is applied at most once among the last 5 of its producer.
package partlog
