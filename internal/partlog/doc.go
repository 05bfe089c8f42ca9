// Package partlog is the pure state of one partition's log: where it starts and ends, its leader epochs,
// the sequence numbers of its idempotent producers and their transactions (KIP-98, KIP-890).
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
//  4. A producer has at most one open transaction, which its records begin and a marker ends; until then the producer is
//     not forgotten. A transaction is opened only under a guard that no marker has made void.
//  5. start <= last stable offset <= end, and it never falls. What is below it is decided: committed, or listed as aborted.
package partlog
