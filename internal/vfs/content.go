package vfs

import (
	"math/rand/v2"
	"slices"
)

const (
	blockSize  = 4096 // what a file system writes at once
	sectorSize = 512  // what a disk writes at once
)

type block [blockSize]byte

func blocksOf(size int64) int64 { return (size + blockSize - 1) / blockSize }

// content is what a file holds, in memory and on the disk of a Crashing.
//
// Invariants: a block is changed only while live alone refers to it, so where live[i] == disk[i] it is copied
// first; a nil block reads as zeros; where live and disk differ, i is in dirty or in lost.
type content struct {
	live, disk     []*block
	size, diskSize int64
	cut            int64 // the smallest size since the last sync: what disk has behind it was cut off
	dirty, lost    blockSet
	reserved       int64 // blocks that were preallocated
}

// blocks is the space that the file takes.
func (c *content) blocks() int64 { return max(int64(len(c.live)), c.reserved) }

// blockSet is a set of block numbers in the order in which they entered.
type blockSet struct {
	order []int
	bits  []uint64
}

func (s *blockSet) add(i int) {
	for len(s.bits) <= i/64 {
		s.bits = append(s.bits, 0)
	}
	if w, bit := &s.bits[i/64], uint64(1)<<(i%64); *w&bit == 0 {
		*w |= bit
		s.order = append(s.order, i)
	}
}

func (s *blockSet) reset() {
	for _, i := range s.order {
		s.bits[i/64] = 0
	}
	s.order = s.order[:0]
}

// readAt copies what lies at off; fewer bytes than len(p) at the end of the file.
func (c *content) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/blockSize), int((off+int64(done))%blockSize)
		n := min(len(p)-done, blockSize-at)
		if i < len(c.live) && c.live[i] != nil {
			copy(p[done:done+n], c.live[i][at:])
		} else {
			clear(p[done : done+n])
		}
		done += n
	}
	return len(p)
}

// writeAt puts p at off. The caller has seen to the space.
func (c *content) writeAt(p []byte, off int64) {
	for len(p) > 0 {
		i, at := int(off/blockSize), int(off%blockSize)
		n := min(len(p), blockSize-at)
		copy(c.writable(i, n == blockSize)[at:], p[:n])
		p, off = p[n:], off+int64(n)
	}
	c.size = max(c.size, off)
}

// writable is block i, to be changed: all of it if whole.
func (c *content) writable(i int, whole bool) *block {
	for len(c.live) <= i {
		c.live = append(c.live, nil)
	}
	c.dirty.add(i)
	b := c.live[i]
	if b != nil && (i >= len(c.disk) || c.disk[i] != b) {
		return b
	}
	own := new(block)
	if b != nil && !whole {
		*own = *b
	}
	c.live[i] = own
	return own
}

// truncate sets the size. Growing leaves a hole.
func (c *content) truncate(size int64) {
	if size < c.size {
		n := blocksOf(size)
		if rest := size % blockSize; rest > 0 && int(n) <= len(c.live) && c.live[n-1] != nil {
			clear(c.writable(int(n-1), false)[rest:])
		}
		if int(n) < len(c.live) {
			clear(c.live[n:])
			c.live = c.live[:n]
		}
		c.reserved = min(c.reserved, n)
		c.cut = min(c.cut, size)
	}
	c.size = size
}

// sync makes the content durable.
func (c *content) sync() {
	if n := blocksOf(c.cut); n < int64(len(c.disk)) {
		clear(c.disk[n:])
		c.disk = c.disk[:n]
	}
	for _, i := range c.dirty.order {
		if i >= len(c.live) {
			continue
		}
		for len(c.disk) <= i {
			c.disk = append(c.disk, nil)
		}
		c.disk[i] = c.live[i]
	}
	c.dirty.reset()
	c.diskSize, c.cut = c.size, c.size
}

// lose forgets that the unsynced blocks are: no sync writes them any more.
func (c *content) lose() {
	for _, i := range c.dirty.order {
		c.lost.add(i)
	}
	c.dirty.reset()
}

// unsynced lists the blocks that memory and disk may disagree about, in the order in which they were first written.
func (c *content) unsynced() (order []int) {
	var seen blockSet
	for _, set := range []*blockSet{&c.lost, &c.dirty} {
		for _, i := range set.order {
			if i < len(c.live) && (i >= len(c.disk) || c.disk[i] != c.live[i]) {
				seen.add(i)
			}
		}
	}
	return seen.order
}

// crash draws what the disk holds after a power loss: rule 1 of Crashing.
func (c *content) crash(d *dice) (out content) {
	disk, size, limit := slices.Clone(c.disk), c.diskSize, c.size
	if c.cut < c.diskSize {
		if d.survives() {
			disk, size = cutBlocks(disk, c.cut), c.cut
		} else {
			limit = c.cut // what was written behind it afterwards has no place
		}
	}
	order := c.unsynced()
	torn := d.survivors(len(order))
	for k, i := range order {
		mask := torn(k)
		start := int64(i) * blockSize
		if mask == 0 || start >= limit {
			continue
		}
		for len(disk) <= i {
			disk = append(disk, nil)
		}
		var end int64
		disk[i], end = compose(disk[i], c.live[i], mask)
		size = max(size, min(start+end, limit))
	}
	if limit == c.size && size < c.size && d.survives() {
		size = c.size
	}
	disk = cutBlocks(disk, size)
	return content{live: disk, disk: slices.Clone(disk), size: size, diskSize: size, cut: size}
}

// allSectors is a block that survives whole.
const allSectors = 1<<(blockSize/sectorSize) - 1

// compose takes the sectors in mask from fresh, the others from old, and returns where the last of them ends.
func compose(old, fresh *block, mask uint8) (*block, int64) {
	var b, zero block
	if old != nil {
		b = *old
	}
	if fresh == nil {
		fresh = &zero
	}
	end := 0
	for s := range blockSize / sectorSize {
		if mask&(1<<s) != 0 {
			end = (s + 1) * sectorSize
			copy(b[s*sectorSize:end], fresh[s*sectorSize:end])
		}
	}
	return &b, int64(end)
}

// cutBlocks drops what lies behind size, without changing shared blocks.
func cutBlocks(blocks []*block, size int64) []*block {
	n := blocksOf(size)
	if int(n) > len(blocks) {
		return blocks
	}
	blocks = blocks[:n]
	if rest := size % blockSize; rest > 0 && blocks[n-1] != nil {
		b := *blocks[n-1]
		clear(b[rest:])
		blocks[n-1] = &b
	}
	return blocks
}

// dice decide what a crash leaves.
type dice struct {
	rng     *rand.Rand
	percent int
}

func (d *dice) survives() bool {
	return d.percent >= 100 || d.percent > 0 && d.rng.IntN(100) < d.percent
}

// survivors draws for n blocks, in the order of writing, which of their sectors reached the disk. Half of
// the draws are a prefix, as if the disk had stopped at one moment; the others are any subset.
func (d *dice) survivors(n int) func(k int) uint8 {
	switch {
	case n == 0 || d.percent <= 0:
		return func(int) uint8 { return 0 }
	case d.percent >= 100:
		return func(int) uint8 { return allSectors }
	case d.rng.IntN(2) == 0:
		stop := d.rng.IntN(n + 1)
		return func(k int) uint8 {
			switch {
			case k < stop:
				return allSectors
			case k == stop:
				return uint8(d.rng.UintN(allSectors + 1))
			}
			return 0
		}
	}
	return func(int) uint8 {
		switch {
		case d.survives():
			return allSectors
		case d.rng.IntN(4) == 0:
			return uint8(d.rng.UintN(allSectors + 1))
		}
		return 0
	}
}
