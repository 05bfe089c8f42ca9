package queue

// Command changes a queue. It is one of *Acquire, *Settle, *Admit, *Promote, *Trim, *Reset and *Confirm.
type Command interface {
	step() *Step
	appendTo(dst []byte) []byte
}

// Step orders the commands of a queue.
type Step struct {
	Seq  uint64 // one more than that of the command before
	Time int64  // Unix ms
}

func (s *Step) step() *Step { return s }

// Acquire gives records to a consumer. Spans beyond the window extend it.
type Acquire struct {
	Step
	Consumer string
	Deadline int64 // of the lock, Unix ms; 0: none
	Gaps     []Span
	Spans    []Span // in the order of selection
}

// Op is what happens to a range of records.
type Op uint8

// The operations of Settle.
const (
	OpAck     Op = iota
	OpArchive    // with Change.Cause
	OpRelease    // available again, not before Until
	OpReturn     // as OpRelease, and the last delivery does not count
	OpRenew      // the lock's deadline is Until
	OpDefer      // as OpRelease, but outside memory
	ops       = 6
)

// Change is what becomes of one range.
type Change struct {
	Span
	Op     Op
	Until  int64 // Unix ms; 0: at once, or no deadline
	Cause  Cause // OpArchive
	Report bool  // OpArchive: make an Effect
}

// Settle changes what consumers hold or could get. A range may cover records that are Done: they stay so.
type Settle struct {
	Step
	Changes []Change
}

// Admit extends the window to End. Records without Meta are plain.
type Admit struct {
	Step
	End     int64 // first offset not admitted
	Records []Admitted
}

// Admitted is a record with Meta that enters the window.
type Admitted struct {
	Meta
	Later bool // wait outside memory until NotBefore
}

// Promote takes records that are due soon into memory.
type Promote struct {
	Step
	Records []Promoted
	Stale   []LaterKey // entries without a record that waits
}

// Promoted is a record that waited.
type Promoted struct {
	Meta
	Deliveries int32
}

// LaterKey names an entry of the ordered view.
type LaterKey struct{ Due, Offset int64 }

// Trim moves the window's start, as the log's start did. What is lost of the window is archived.
type Trim struct {
	Step
	Start  int64
	Report bool
}

// Reset forgets the window and begins at Start.
type Reset struct {
	Step
	Start int64
}

// Confirm says that effects were carried out.
type Confirm struct {
	Step
	IDs []uint64
}
