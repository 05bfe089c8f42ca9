package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/share"
	"godwit/internal/meta"
	"godwit/internal/queue"
	"godwit/internal/recordbatch"
	"godwit/internal/vfs"
)

var (
	historyRuns = flag.Int("history.runs", 60, "runs of the history test of queues")
	historySeed = flag.Uint64("history.seed", 1, "seed of the first run")
)

// TestQueueHistory has members of a group acquire, settle and forget records while power fails and disks refuse writes. An
// auditor that knows only what was answered, and nothing of how queues work, holds each answer against those before.
func TestQueueHistory(t *testing.T) {
	for seed := *historySeed; seed < *historySeed+uint64(*historyRuns); seed++ {
		if err := queueHistory(t, seed); err != nil {
			t.Fatalf("-history.runs=1 -history.seed=%d: %v", seed, err)
		}
	}
}

// fate is what the auditor knows of one record.
type fate struct {
	low, high int32  // deliveries that count; between, if answers were lost
	holder    string // member that surely has it until the time; empty: unknown or nobody
	until     int64  // Unix ms
	end       string // why it is surely never delivered again
	mayEnd    bool   // an answer was lost that may have ended it
}

const (
	auditLimit = 3
	auditLock  = 15_000
)

type auditor struct {
	*rig
	s       *meta.Stream
	rng     *rand.Rand
	fates   []fate // by offset
	members []string
	next    int   // number of the next member
	lost    int64 // records in the ledger at most
	sure    int64 // and at least

	mu    sync.Mutex // guards what follows
	armed bool       // the power may fail
	cut   *vfs.Crashing
}

func queueHistory(t *testing.T, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 3))
	r := &rig{t: t, disk: vfs.NewCrashing(), clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), rng: rng}
	if err := r.boot(); err != nil {
		return err
	}
	a := &auditor{rig: r, rng: rng}
	a.s = r.subscribed(1, nil, "share.delivery.count.limit", fmt.Sprint(auditLimit), "share.record.lock.duration.ms", fmt.Sprint(auditLock))
	for range 3 {
		a.join()
	}
	for range 80 {
		if err := a.step(); err != nil {
			return err
		}
	}
	return a.finish()
}

func (a *auditor) join() {
	a.members = append(a.members, fmt.Sprint("member", a.next))
	a.next++
}

func (a *auditor) now() int64 { return a.clock.Now().UnixMilli() }

// step does something at random, now and then with a fault.
func (a *auditor) step() error {
	switch a.rng.IntN(12) {
	case 0:
		a.powerFails(a.rng.IntN(8))
	case 1:
		err := []error{syscall.EIO, syscall.ENOSPC}[a.rng.IntN(2)]
		a.faults.Inject(vfs.Rule{Ops: []vfs.Op{vfs.OpSync, vfs.OpWrite}[a.rng.IntN(2)], Path: "wal-*", Count: 1, Err: err})
	}
	err := a.operate()
	a.faults.Clear()
	if err != nil {
		return err
	}
	return a.reboot()
}

// powerFails has the power fail with one of the next changes of the disk.
func (a *auditor) powerFails(after int) {
	faults, percent, seed := a.faults, a.rng.IntN(101), a.rng.Uint64()
	a.armed = true
	faults.Hook(func(vfs.Event) { // also in goroutines of the state store
		a.mu.Lock()
		defer a.mu.Unlock()
		if after--; after == 0 && a.armed {
			faults.PowerOff()
			a.cut = a.disk.CrashClone(rand.New(rand.NewPCG(seed, 1)), percent)
		}
	})
}

// failed takes the disk as it is after the power has failed; nil if it has not, and it will not then.
func (a *auditor) failed() *vfs.Crashing {
	a.faults.Hook(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	disk := a.cut
	a.cut, a.armed = nil, false
	return disk
}

// off reports whether the power has failed.
func (a *auditor) off() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cut != nil
}

// reboot starts the broker again if the power has failed.
func (a *auditor) reboot() error {
	disk := a.failed()
	if disk == nil {
		a.Drain()
		return nil
	}
	a.Abort()
	a.disk = disk
	return a.boot()
}

func (a *auditor) operate() error {
	member := a.members[a.rng.IntN(len(a.members))]
	switch n := a.rng.IntN(20); {
	case n < 4:
		return a.writes()
	case n < 10:
		return a.acquires(member)
	case n < 15:
		return a.acks(member)
	case n < 16:
		a.releases(member)
	case n < 17: // a member dies; another comes
		a.members = a.members[1:]
		a.join()
	case n < 18:
		a.pass(time.Duration(a.rng.IntN(auditLock)) * time.Millisecond)
	case n < 19:
		if err := a.Checkpoint(ctx); base.CodeOf(err) == base.CodeCorruption {
			return err
		}
	default:
		return a.deletes()
	}
	return nil
}

// writes appends a batch. Each record says its offset.
func (a *auditor) writes() error {
	st, _ := a.State(a.s.Partitions[0].Log)
	var records []kv
	for i := range 1 + a.rng.IntN(4) {
		records = append(records, kv{fmt.Sprint("at", st.HighWatermark+int64(i)), strings.Repeat("x", a.rng.IntN(50))})
	}
	data, info := a.batchOfRecords(records...)
	p := a.s.Partitions[0]
	it := AppendItem{Log: p.Log, Shard: p.Shard, Data: data, Batches: []recordbatch.Info{info}}
	done := false
	req := &Append{Items: []AppendItem{it}, Done: func(*Append) { done = true }}
	a.Append(req)
	a.Drain()
	if !done || req.Items[0].Err != nil {
		return nil // it may be there after a restart: then it is found when it is delivered
	}
	a.cover(req.Items[0].BaseOffset + int64(len(records)))
	return nil
}

// cover notes that the log goes up to an offset.
func (a *auditor) cover(end int64) {
	for int64(len(a.fates)) < end {
		a.fates = append(a.fates, fate{})
	}
}

func (a *auditor) acquires(member string) error {
	req := &ShareAcquire{Member: member, Queues: []ShareQueue{jobs(a.s, 0)}, Records: 1 + a.rng.IntN(6), Batch: 2, Strict: a.rng.IntN(2) == 0, Bytes: 1 + a.rng.IntN(400)}
	before := a.now()
	out := a.ShareAcquire(ctx, req)[0]
	if out.Err != nil {
		if !a.passing(out.Err) {
			return fmt.Errorf("acquire: %w", out.Err)
		}
		for i := range a.fates {
			if f := &a.fates[i]; f.end == "" && (f.holder == "" || f.until <= a.now()) {
				f.expire(before)
				f.high++ // it may be with the member, for the last time
				f.mayEnd = f.mayEnd || f.high >= auditLimit
			}
		}
		return nil
	}
	return a.given(member, &out)
}

// passing reports whether an error is one that a fault may cause.
func (a *auditor) passing(err error) bool { return base.CodeOf(err).Retriable() || a.off() }

// expire accounts for a lock that is over, or that may have been taken and be over.
func (f *fate) expire(now int64) {
	if f.holder != "" && f.until <= now {
		f.holder = ""
		f.undelivered()
	}
}

// undelivered notes that the record goes back.
func (f *fate) undelivered() {
	switch {
	case f.end != "":
	case f.low >= auditLimit:
		f.end = "limit"
	case f.high >= auditLimit:
		f.mayEnd = true
	}
}

// given audits an answer.
func (a *auditor) given(member string, out *ShareAcquired) error {
	if out.Records == nil {
		if out.Ranges != nil {
			return fmt.Errorf("ranges %v without records", out.Ranges)
		}
		return nil
	}
	keys, err := keysOf(out.Records)
	if err != nil && !a.off() {
		return err
	}
	at := int64(-1)
	for _, t := range out.Ranges {
		if t.First <= at || t.First > t.Last {
			return fmt.Errorf("ranges %v are out of order", out.Ranges)
		}
		a.cover(t.Last + 1)
		for at = t.First; at <= t.Last; at++ {
			if err == nil && keys[at] != fmt.Sprint("at", at) {
				return fmt.Errorf("record %d is not among what was answered: %v", at, keys)
			}
			f := &a.fates[at]
			switch {
			case f.end != "":
				return fmt.Errorf("record %d was delivered again after its end: %s", at, f.end)
			case f.holder != "" && f.until > a.now():
				return fmt.Errorf("record %d went to %s while %s has it", at, member, f.holder)
			case t.Deliveries < f.low+1 || t.Deliveries > f.high+1:
				return fmt.Errorf("record %d has delivery count %d after %d to %d deliveries", at, t.Deliveries, f.low, f.high)
			case t.Deliveries > auditLimit:
				return fmt.Errorf("record %d was delivered %d times", at, t.Deliveries)
			}
			*f = fate{low: t.Deliveries, high: t.Deliveries, holder: member, until: a.now() + auditLock}
		}
		at = t.Last
	}
	return nil
}

// keysOf reads records: their keys by offset.
func keysOf(recs *Records) (map[int64]string, error) {
	defer recs.Release()
	b, err := recs.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	out := map[int64]string{}
	var rd recordbatch.Reader
	defer rd.Close()
	for len(b) > 0 {
		if err := rd.Reset(b, 1<<20); err != nil {
			return nil, err
		}
		for rd.Next() {
			out[rd.Record.Offset] = string(rd.Record.Key)
		}
		if rd.Err() != nil {
			return nil, rd.Err()
		}
		b = b[rd.Info.Size:]
	}
	return out, nil
}

// acks has a member settle a record, most often one that it has.
func (a *auditor) acks(member string) error {
	var mine []int64
	for at := range a.fates {
		if f := &a.fates[at]; f.holder == member && f.end == "" {
			mine = append(mine, int64(at))
		}
	}
	if len(a.fates) == 0 {
		return nil
	}
	at := a.rng.Int64N(int64(len(a.fates)))
	if len(mine) > 0 && a.rng.IntN(5) > 0 {
		at = mine[a.rng.IntN(len(mine))]
	}
	f := &a.fates[at]
	typ := []queue.AckType{queue.AckAccept, queue.AckAccept, queue.AckRelease, queue.AckRelease, queue.AckReject, queue.AckRenew, queue.AckGap}[a.rng.IntN(7)]
	holds := f.holder == member && f.end == ""
	sure := holds && f.until > a.now()
	err := a.ack(member, a.s, typ, at, at)
	switch code := base.CodeOf(err); {
	case err == nil && sure:
		a.settled(f, typ)
	case err == nil && f.end == "" && f.holder != "" && f.until > a.now():
		return fmt.Errorf("%s settled record %d, which %s has", member, at, f.holder)
	case err == nil && holds && f.low >= auditLimit: // late: it counts, or the record has ended for good
		f.end, f.mayEnd = "settled late", true
	case err == nil: // it had it from an answer that was lost, or the record is below the queue's start, where all passes
		f.unsure(typ)
	case code == base.CodeInvalidRecordState || code == base.CodeInvalidRequest:
		if sure {
			return fmt.Errorf("%s may not settle record %d, which it has: %w", member, at, err)
		}
	case !a.passing(err):
		return fmt.Errorf("acknowledging record %d: %w", at, err)
	default: // it may count or not
		f.unsure(typ)
	}
	return nil
}

// settled notes an acknowledgement that counts.
func (a *auditor) settled(f *fate, typ queue.AckType) {
	switch typ {
	case queue.AckAccept:
		f.end = "accepted"
	case queue.AckReject, queue.AckGap:
		f.end = "rejected"
	case queue.AckRelease:
		f.holder = ""
		f.undelivered()
	case queue.AckRenew:
		f.until = a.now() + auditLock
	}
}

// unsure notes one that may count.
func (f *fate) unsure(typ queue.AckType) {
	if f.end != "" {
		return
	}
	f.holder = ""
	f.mayEnd = f.mayEnd || typ == queue.AckAccept || typ == queue.AckReject || typ == queue.AckGap || f.high >= auditLimit
}

// releases ends a member's session.
func (a *auditor) releases(member string) {
	err := a.ShareRelease(ctx, member, []ShareQueue{jobs(a.s, 0)})
	for i := range a.fates {
		f := &a.fates[i]
		switch {
		case f.holder != member || f.end != "":
		case err == nil && f.until > a.now():
			a.settled(f, queue.AckRelease)
		default:
			f.unsure(queue.AckRelease)
		}
	}
}

// deletes trims the log.
func (a *auditor) deletes() error {
	st, _ := a.State(a.s.Partitions[0].Log)
	if a.rng.IntN(3) > 0 || st.HighWatermark == st.Start {
		return nil
	}
	a.Drain()
	a.cover(st.HighWatermark)
	to := st.Start + a.rng.Int64N(min(4, st.HighWatermark-st.Start)) + 1
	_, err := a.DeleteRecords(ctx, a.s, 0, to)
	if err != nil && !a.passing(err) {
		return err
	}
	for at := range to {
		f := &a.fates[at]
		if f.end != "" {
			continue
		}
		f.expire(a.now())
		if a.lost++; err == nil && !f.mayEnd && f.end == "" {
			a.sure++
		}
		if f.mayEnd, f.holder = true, ""; err == nil {
			f.end = "deleted"
		}
	}
	return nil
}

// finish has one member work off what is left, and accounts for all records.
func (a *auditor) finish() error {
	a.Drain()
	a.pass(2 * auditLock * time.Millisecond)
	a.pass(2 * auditLock * time.Millisecond) // what a fault kept from being decided
	for i := range a.fates {
		a.fates[i].expire(a.now())
	}
	for {
		out := a.ShareAcquire(ctx, &ShareAcquire{Member: "last", Queues: []ShareQueue{jobs(a.s, 0)}, Records: 50, Bytes: 1 << 20})[0]
		if out.Err != nil {
			return out.Err
		}
		if err := a.given("last", &out); err != nil || out.Ranges == nil {
			if err != nil {
				return err
			}
			break
		}
		for _, t := range out.Ranges {
			if err := a.ack("last", a.s, queue.AckAccept, t.First, t.Last); err != nil {
				return err
			}
			for at := t.First; at <= t.Last; at++ {
				a.fates[at].end = "accepted"
			}
		}
	}
	st, _ := a.State(a.s.Partitions[0].Log)
	for at := range a.fates {
		if f := &a.fates[at]; f.end == "" && !f.mayEnd {
			return fmt.Errorf("record %d of %d vanished: %+v", at, st.HighWatermark, *f)
		}
	}
	return a.accounts(st)
}

// accounts holds the queue's own counts against the auditor's.
func (a *auditor) accounts(st LogState) error {
	o := a.ShareOffsets(ctx, workers, []share.Partition{{Stream: a.s.ID, Index: 0}})[0]
	if o.Err != nil {
		return o.Err
	}
	var accepted, may int64
	for i := range a.fates {
		if a.fates[i].end == "accepted" {
			accepted++
		} else if a.fates[i].mayEnd {
			may++
		}
	}
	if o.Start != st.HighWatermark || o.Lag != 0 || o.InFlight != 0 {
		return fmt.Errorf("in the end the queue of %d records is at %+v", st.HighWatermark, o.Description)
	}
	if n := o.Totals.Acked; n < accepted || n > accepted+may {
		return fmt.Errorf("the queue counts %d acknowledged records, %d were and %d more may have been", n, accepted, may)
	}
	lost := int64(0)
	for _, l := range a.ledger() {
		lost += l.Count
	}
	if lost < a.sure || lost > a.lost {
		return fmt.Errorf("the ledger has %d records, %d to %d were lost", lost, a.sure, a.lost)
	}
	return nil
}
