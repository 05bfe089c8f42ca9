package state

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions lets Pebble compact, one compaction at a time, and none from a failure until resume. Pebble's own
// scheduler tries again at once and for ever, wakes ten times a second, and goes on with a store that failed to open.
type compactions struct {
	mu       sync.Mutex // below Pebble's locks; granting is done without it
	granted  sync.Cond  // L is &mu: granting ended
	db       pebble.DBForCompaction
	running  bool // one compaction, or a grant that may lead to it
	granting bool
	refused  bool // since grant asked
	paused   bool
	over     bool // for good
}

func newCompactions() *compactions {
	c := &compactions{paused: true} // until the store is open
	c.granted.L = &c.mu
	return c
}

func (c *compactions) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

// resume starts what Pebble wanted to do meanwhile. It does not wait for Pebble, whose locks are never free again after an
// error that it cannot go on after.
func (c *compactions) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused {
		c.paused = false
		go func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.grant()
		}()
	}
}

// grant asks Pebble for a compaction that it was refused before. It is called with mu, and gives it up for a while.
func (c *compactions) grant() {
	for c.db != nil && !c.running && !c.granting && !c.paused && !c.over {
		c.running, c.granting, c.refused = true, true, false
		c.mu.Unlock()
		waiting, _ := c.db.GetWaitingCompaction()
		accepted := waiting && c.db.Schedule(c)
		c.mu.Lock()
		c.granting = false
		c.granted.Broadcast()
		if accepted {
			continue // it may be done already
		}
		c.running = false
		if !c.refused {
			return
		}
	}
}

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db = db
}

// Unregister implements pebble.CompactionScheduler.
func (c *compactions) Unregister() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for c.granting {
		c.granted.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler. Pebble waits for grant after a refusal.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.paused || c.over {
		c.refused = true
		return false, nil
	}
	c.running = true
	return true, c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (c *compactions) UpdateGetAllowedWithoutPermission() {}

// Started implements pebble.CompactionGrantHandle.
func (c *compactions) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (c *compactions) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.grant()
}
