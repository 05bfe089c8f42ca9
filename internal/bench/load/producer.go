package load

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit/internal/bench/driver"
)

const (
	slotsAtOnce = 64 // payloads are made for so many slots together
	errorTexts  = 5  // kept of a phase
)

// quickly bounds the refusals that are no latency: the time of a message that failed later than that was waited for nothing, and
// counts.
const quickly = time.Second

// errLate says why a message was given up.
var errLate = errors.New("not acknowledged")

// slot is a message under way. Its sender fills it and the acknowledgement empties it; in between nobody
// writes to it.
type slot struct {
	seq      uint64
	intended int64
	key      uint32
	gen      uint32 // guarded by mu; counts the messages that were in it: an acknowledgement counts once
	payload  []byte // random from HeaderSize on, so that it does not compress
}

// tag finds the slot of a message again: its generation and its index.
func tag(gen, index uint32) uint64 { return uint64(gen)<<32 | uint64(index) }

// producer sends on behalf of one driver.Producer.
type producer struct {
	s       *Session
	index   int
	driver  driver.Producer
	sleeper sleeper
	random  *rand.Rand // of payloads

	// Of the sender alone.
	key   uint32   // of the next message
	fresh int      // slots that were never used begin here
	free  []uint32 // slots; the one used last is last, for its memory is the nearest
	weary int      // failures since the last acknowledgement, as last seen

	next  []atomic.Uint64 // by key: the sequence number of its next message; written by the sender
	sent  atomic.Int64    // messages; written by the sender
	slots []slot

	mu     sync.Mutex
	back   []uint32              // guarded by mu; slots that acknowledgements returned
	want   int                   // guarded by mu; slots in back that the sender waits for; 0: it does not
	late   map[uint64]struct{}   // guarded by mu; tags of messages given up
	failed map[uint32]*spans     // guarded by mu; by key: sequence numbers
	acks   acks                  // guarded by mu
	kept   map[uint32]*latencies // guarded by mu; by phase
	rec    *latencies            // guarded by mu; of the phase under way; nil if it is not recorded
	errs   []string              // guarded by mu; of the phase under way, distinct
	ready  chan struct{}         // told when back has what the sender wants
}

// acks are counts of one producer, or of all.
type acks struct {
	acked, failed int64
	last          int64 // when a message was acknowledged, by the session's clock
	streak        int   // failures since then
}

func newProducer(s *Session, index int) *producer {
	return &producer{
		s: s, index: index, sleeper: s.newSleeper(),
		random: rand.New(rand.NewPCG(s.o.Seed, ^uint64(index))),
		next:   make([]atomic.Uint64, s.o.Keys),
		slots:  make([]slot, s.o.InFlight),
		late:   make(map[uint64]struct{}),
		failed: make(map[uint32]*spans),
		kept:   make(map[uint32]*latencies),
		ready:  make(chan struct{}, 1),
	}
}

// begin prepares for a phase.
func (p *producer) begin(ph Phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs, p.rec, p.acks.streak = nil, nil, 0
	if ph.Record {
		if p.rec = p.kept[ph.ID]; p.rec == nil {
			p.rec = newLatencies()
			p.kept[ph.ID] = p.rec
		}
	}
}

// done is told by the driver about a message that it took; from any goroutine.
func (p *producer) done(t uint64, err error) {
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	index := uint32(t)
	sl := &p.slots[index]
	if sl.gen == uint32(t>>32) {
		sl.gen++
		p.settle(sl.key, sl.seq, now-sl.intended, now, err)
	} else if _, ok := p.late[t]; ok {
		delete(p.late, t)
	} else {
		return // was done before
	}
	p.back = append(p.back, index)
	if p.want > 0 && len(p.back) >= p.want {
		p.want = 0
		p.ready <- struct{}{} // has room: want is set once for each time the sender waits
	}
}

// settle accounts for a message that is done, with mu held.
func (p *producer) settle(key uint32, seq uint64, waited, now int64, err error) {
	if p.rec != nil && (err == nil || waited >= int64(quickly)) {
		p.rec.record(waited)
	}
	if err == nil {
		p.acks.acked++
		p.acks.last = now
		p.acks.streak = 0
		return
	}
	p.acks.failed++
	p.acks.streak++
	f := p.failed[key]
	if f == nil {
		f = new(spans)
		p.failed[key] = f
	}
	f.add(seq)
	p.say(err)
}

// say keeps the text of an error, with mu held.
func (p *producer) say(err error) {
	if len(p.errs) < errorTexts {
		if text := err.Error(); !slices.Contains(p.errs, text) {
			p.errs = append(p.errs, text)
		}
	}
}

// number gives the next message its place.
func (p *producer) number() (key uint32, seq uint64) {
	key = p.key
	if p.key++; int(p.key) == len(p.next) {
		p.key = 0
	}
	seq = p.next[key].Load()
	p.next[key].Store(seq + 1)
	p.sent.Store(p.sent.Load() + 1)
	return key, seq
}

// send sends one message in a slot.
func (p *producer) send(ctx context.Context, index uint32, phase uint32, intended int64) {
	sl := &p.slots[index]
	sl.key, sl.seq = p.number()
	sl.intended = intended
	h := Header{Run: p.s.o.Run, Producer: uint32(p.index), Key: sl.key, Phase: phase, Sequence: sl.seq, Intended: intended}
	h.Put(sl.payload)
	key := uint32(p.index)*uint32(len(p.next)) + sl.key
	t := tag(sl.gen, index)
	err := p.driver.Send(ctx, driver.Message{Destination: int(key % uint32(p.s.o.Destinations)), Key: key, Payload: sl.payload, Tag: t})
	if err != nil {
		p.done(t, err)
	}
}

// refuse accounts for a message that was due and will not be sent.
func (p *producer) refuse(intended int64, err error) {
	key, seq := p.number()
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(key, seq, now-intended, now, err)
}

// take finds a free slot; false if ctx or over ended first. When all are under way it waits until batch are free:
// waking for each one costs more than the message.
func (p *producer) take(ctx context.Context, over <-chan struct{}, batch int) (uint32, bool) {
	for len(p.free) == 0 {
		p.mu.Lock()
		p.weary = p.acks.streak
		if len(p.back) > 0 {
			p.free, p.back = p.back, p.free
			p.mu.Unlock()
			break
		}
		if p.fresh < len(p.slots) {
			p.mu.Unlock()
			p.grow()
			break
		}
		if !p.await(ctx, over, max(min(batch, p.under()), 1)) {
			return 0, false
		}
	}
	last := len(p.free) - 1
	index := p.free[last]
	p.free = p.free[:last]
	return index, true
}

// await waits until so many slots came back. It is called with mu held and returns without.
func (p *producer) await(ctx context.Context, over <-chan struct{}, slots int) bool {
	p.want = slots
	p.mu.Unlock()
	select {
	case <-p.ready:
		return true
	case <-over:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want == 0 {
		<-p.ready // was told at the same time
	}
	p.want = 0
	return false
}

// grow makes more slots.
func (p *producer) grow() {
	n := min(slotsAtOnce, len(p.slots)-p.fresh)
	size := p.s.o.Size
	mem := make([]byte, n*size+8)
	for i := 0; i+8 <= len(mem); i += 8 {
		binary.LittleEndian.PutUint64(mem[i:], p.random.Uint64())
	}
	for i := range n {
		p.slots[p.fresh+i].payload = mem[i*size : (i+1)*size : (i+1)*size]
		p.free = append(p.free, uint32(p.fresh+n-1-i))
	}
	p.fresh += n
}

// under counts the messages under way, with mu held.
func (p *producer) under() int { return p.fresh - len(p.free) - len(p.back) - len(p.late) }

// drain waits until nothing is under way; false if ctx ended first.
func (p *producer) drain(ctx context.Context) bool {
	for {
		p.mu.Lock()
		under := p.under()
		if under == 0 {
			p.mu.Unlock()
			return true
		}
		if !p.await(ctx, nil, len(p.back)+under) {
			return false
		}
	}
}

// giveUp fails what is under way.
func (p *producer) giveUp(err error) {
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	under := make([]bool, p.fresh)
	for i := range under {
		under[i] = true
	}
	for _, free := range [][]uint32{p.free, p.back} {
		for _, index := range free {
			under[index] = false
		}
	}
	for t := range p.late {
		under[uint32(t)] = false
	}
	for i := range under {
		if under[i] {
			sl := &p.slots[i]
			p.late[tag(sl.gen, uint32(i))] = struct{}{}
			sl.gen++
			p.settle(sl.key, sl.seq, now-sl.intended, now, err)
		}
	}
}

// counts are the producer's so far.
func (p *producer) counts() acks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acks
}

// failures copies the failed sequence numbers, by key.
func (p *producer) failures() map[uint32]spans {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[uint32]spans, len(p.failed))
	for key, f := range p.failed {
		all[key] = slices.Clone(*f)
	}
	return all
}
