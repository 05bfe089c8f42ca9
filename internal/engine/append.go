package engine

import (
	"sync/atomic"

	"godwit/internal/base"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
)

// Append is one produce request: batches for any number of logs, each item succeeding or failing
// alone. The engine patches base offset and leader epoch into the batches in place.
type Append struct {
	Items []AppendItem

	// BumpsEpoch says that the producer raises its epoch with every transaction (transaction version 2, KIP-890).
	BumpsEpoch bool

	// Done is called once, when every item has its result, from a goroutine of the engine; it must not
	// block. It may be called before Broker.Append returns.
	Done func(*Append)

	// Release is called once, after Done, when the engine no longer refers to the batches' memory. It may be nil.
	Release func()

	open atomic.Int32 // items without a result
}

// AppendItem is what one log gets: validated batches, contiguous in Data, and the result.
type AppendItem struct {
	Log     base.LogID
	Shard   base.ShardID
	Data    []byte             // one or more v2 batches
	Batches []recordbatch.Info // one per batch in Data, in order

	// Guard is what an earlier try was refused with, once the coordinator has confirmed the transaction; else 0. Where Err is of
	// CodeUnverifiedTxn it is set: the coordinator has to be asked about the first batch's producer, and the item tried again.
	Guard partlog.Guard

	marker *partlog.Marker // instead of Data and Batches: see WriteMarkers

	// Results, valid once Done is called.
	BaseOffset int64 // of the first record; of the first delivery for a duplicate
	LogStart   int64
	Err        error // nil: committed. Else a *base.Error
}

// settle counts n items as done and finishes the request with the last.
func (a *Append) settle(n int32) {
	if a.open.Add(-n) > 0 {
		return
	}
	a.finish()
}

// finish reports the results. Done gives the request back to the caller, who may fill it anew at once.
func (a *Append) finish() {
	release := a.Release
	a.Done(a)
	if release != nil {
		release()
	}
}

// part is the share of a request that one shard gets.
type part struct {
	req   *Append
	items []int32 // indices into req.Items
}

// Append hands a request to the shards of its logs. It does not block.
func (e *Engine) Append(a *Append) {
	if len(a.Items) == 0 {
		a.finish()
		return
	}
	a.open.Store(int32(len(a.Items)))
	if e.closed.Load() {
		for i := range a.Items {
			a.Items[i].Err = base.Errorf(base.CodeShutdown, "the broker is stopping")
		}
		a.settle(int32(len(a.Items)))
		return
	}
	taken := make([]bool, len(a.Items))
	for i := range a.Items {
		if taken[i] {
			continue
		}
		p := part{req: a}
		for k := i; k < len(a.Items); k++ {
			if !taken[k] && a.Items[k].Shard == a.Items[i].Shard {
				taken[k] = true
				p.items = append(p.items, int32(k))
			}
		}
		e.loop(a.Items[i].Shard).post(message{part: p})
	}
}
