package txn

// State is the journaled state of all transactional IDs of one shard. It has one owner.
type State struct{}

// NewState is an empty state.
func NewState() *State { panic("todo") }

// Outstanding lists the transactional IDs for which something is to be done in other shards, ordered.
func (s *State) Outstanding() []Key { panic("todo") }

// Ending is what is to be done for a transactional ID; false if nothing is.
func (s *State) Ending(k Key) (Ending, bool) { panic("todo") }

// Apply enters a committed command. It cannot fail: what a command refers to and is not there has gone with an earlier one.
func (s *State) Apply(c Command) { panic("todo") }

// Checkpoint hands out what changed since the last checkpoint, ordered by key; a nil value deletes the key. The slices are
// the receiver's. What was handed out counts as stored: the caller keeps it until it is.
func (s *State) Checkpoint(emit func(key, value []byte)) { panic("todo") }

// Restore enters one pair that Checkpoint handed out, in any order and before the first Apply. What is not such a pair is a
// CodeCorruption error.
func (s *State) Restore(key, value []byte) error { panic("todo") }

// Check verifies the guarantees and panics where they do not hold.
func (s *State) Check() { panic("todo") }
