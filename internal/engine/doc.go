// Package engine is where goroutines live: one loop per shard that proposes, takes the journal's answers, applies and
// tells who waits; and the tasks of the node: checkpoint, retention, recovery.
//
// A loop owns its shard's machine. Others talk to it through its mailbox and read what it publishes: per log the start,
// the high watermark and the epochs; for all the metadata view. A loop has no goroutine of its own: who brings a message runs
// it if nobody does, so that a produce request passes its shards without waking anybody, and the journal's answers
// are taken by the one goroutine that gives them. Nothing here holds two locks at once, and no loop waits for another.
//
// With Options.Stepped nothing runs by itself: a test calls Step, which lets one loop or the journal
// take one turn chosen by a seeded random source, so that a seed replays a run.
package engine
