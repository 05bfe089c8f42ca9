package broker

import (
	"net"

	"godwit/internal/base"
	"godwit/internal/recordbatch"
)

// Append is one produce request: batches for any number of logs, each item succeeding or failing
// alone. The engine patches base offset and leader epoch into the batches in place.
type Append struct {
	Items []AppendItem

	// Done is called once, when every item has its result, from a goroutine of the engine; it must not
	// block. It may be called before Broker.Append returns.
	Done func(*Append)

	// Release is called once, after Done or before it, when the engine no longer refers to
	// the batches' memory.
	Release func()
}

// AppendItem is what one log gets: validated batches, contiguous in Data, and the result.
type AppendItem struct {
	Log     base.LogID
	Shard   base.ShardID
	Data    []byte             // one or more v2 batches
	Batches []recordbatch.Info // one per batch in Data, in order

	// Results, valid once Done is called.
	BaseOffset int64 // of the first record; of the first delivery for a duplicate
	LogStart   int64
	Err        error // nil: committed. Else a *base.Error
}

// LogState is the readable state of one log.
type LogState struct {
	Start         int64 // log start offset
	HighWatermark int64 // applied committed end; nothing at or above it is shown
	Size          int64 // bytes kept for the log, in batch bytes
}

// Records is a run of whole or, at its end, cut batches as stored. It pins the files it refers to
// until Release.
type Records interface {
	State() LogState // as of the read
	Len() int        // bytes; 0 if there is nothing at the offset yet
	// SendTo writes all bytes to the connection, by sendfile where the system has it.
	SendTo(c net.Conn) error
	// AppendTo reads all bytes behind dst.
	AppendTo(dst []byte) ([]byte, error)
	Release()
}

// Watch tells a waiting fetch that logs have grown or gone. One owner uses it from one goroutine; the
// engine signals it from others.
type Watch interface {
	Add(log base.LogID)    // idempotent
	Remove(log base.LogID) // idempotent
	C() <-chan struct{}    // receives after at least one watched log changed since the last Take
	Take() []base.LogID    // the logs that changed since the last Take
	Close()                // removes all
}
