// Package journal is what a shard needs of its journal, whichever engine is underneath: propose entries, learn
// in order what became of them.
package journal

import (
	"godwit/internal/base"
	"godwit/internal/storage/wal"
)

// Proposal is one entry of one shard. It is a WAL record whose frame names shard, index and term; Done is
// called once, in the order of the shard's proposals: with the place of the payload when the entry is
// committed, or with an error when it is not and never will be.
//
// After an error every later proposal of the shard with the same generation fails too, so that the shard's
// entries have no gap: the shard drops what it guessed, and goes on under the next generation.
type Proposal = wal.Record

// Journal is one node's journal of all its shards.
type Journal interface {
	// Propose hands in an entry; it does not block. Proposals of a shard are committed in their order.
	Propose(p *Proposal)
	// Barrier calls done when all that was committed before is on this node's disk, with the position behind
	// it in the local log. The answers of all proposals below that position were given before.
	Barrier(done func(base.Position, error))
	// MaxEntry is the largest entry, command and payload together, in bytes.
	MaxEntry() int
}

// Leads tells the engine under which term a node may propose for its shards. It is called from the
// journal's own goroutine, after all proposals of earlier terms have been answered.
type Leads func(term uint64)
