package engine

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/vfs"
)

// rig is a stepped engine on a disk in memory.
type rig struct {
	t      *testing.T
	disk   *vfs.Crashing
	faults *vfs.Faults
	clock  *clock.Manual
	rng    *rand.Rand
	opts   func(*Options)
	*Engine
}

func newRig(t *testing.T, opts func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, disk: vfs.NewCrashing(), clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), rng: rand.New(rand.NewPCG(1, 2)), opts: opts}
	if err := r.boot(); err != nil {
		t.Fatal(err)
	}
	return r
}

// boot opens and starts an engine on the disk.
func (r *rig) boot() error {
	r.faults = vfs.NewFaults(r.disk, 1)
	o := Options{FS: r.faults, Dir: "/data", Clock: r.clock, Rand: r.rng, Shards: 3, FileSize: 256 << 10, Stepped: true,
		Groups: group.DefaultOptions(), Limits: meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}}
	if r.opts != nil {
		r.opts(&o)
	}
	e, err := Open(o)
	if err != nil {
		return err
	}
	r.Engine = e
	return e.Start()
}

// powerLoss boots from what the disk surely has.
func (r *rig) powerLoss(percent int) error {
	r.disk = r.disk.CrashClone(r.rng, percent)
	r.Abort()
	return r.boot()
}

func (r *rig) create(name string, partitions int, overrides map[string]string) *meta.Stream {
	r.t.Helper()
	id := r.NewID()
	req := &meta.CreateStream{Namespace: base.DefaultNamespace, Name: name, Partitions: partitions, Replicas: 1, Overrides: overrides}
	_, err := r.DecideMeta(context.Background(), func(s *meta.State, now int64) (*meta.Command, error) {
		return s.DecideCreate(req, id, now, r.Engine.opts.Limits)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var out *meta.Stream
	err = r.AwaitView(context.Background(), func(v *meta.View) bool {
		out, _ = v.StreamByID(id)
		return out != nil && out.Ready == partitions
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

type kv struct{ key, value string }

// noKey stands for a null key.
const noKey = "\x00"

// batchOfRecords builds a batch; a value of "-" is a tombstone.
func (r *rig) batchOfRecords(records ...kv) ([]byte, recordbatch.Info) {
	r.t.Helper()
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, 0, 0)
	for i, rec := range records {
		out := recordbatch.Record{OffsetDelta: int32(i), Timestamp: r.clock.Now().UnixMilli(), Key: []byte(rec.key), Value: []byte(rec.value)}
		if rec.value == "-" {
			out.Value = nil
		}
		if rec.key == noKey {
			out.Key = nil
		}
		b.Add(&out)
	}
	data, err := b.AppendTo(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := recordbatch.ParseHeader(data)
	if err != nil {
		r.t.Fatal(err)
	}
	return data, info
}

// write appends records to a partition and returns what became of it.
func (r *rig) write(s *meta.Stream, partition int, records ...kv) error {
	r.t.Helper()
	data, info := r.batchOfRecords(records...)
	return r.writeBatch(s, partition, data, info)
}

func (r *rig) writeBatch(s *meta.Stream, partition int, data []byte, info recordbatch.Info) error {
	r.t.Helper()
	p := s.Partitions[partition]
	done := false
	a := &Append{Items: []AppendItem{{Log: p.Log, Shard: p.Shard, Data: data, Batches: []recordbatch.Info{info}}}}
	a.Done = func(*Append) { done = true }
	r.Append(a)
	r.Drain()
	if !done {
		r.t.Fatal("an append was not answered")
	}
	return a.Items[0].Err
}

// read returns the keys and values of a partition from an offset on, in order, with their offsets.
func (r *rig) read(s *meta.Stream, partition int, from int64) (out []kv, offsets []int64) {
	r.t.Helper()
	p := s.Partitions[partition]
	st, ok := r.State(p.Log)
	if !ok {
		r.t.Fatal("the log is gone")
	}
	var rd recordbatch.Reader
	defer rd.Close()
	for next := max(from, st.Start); next < st.HighWatermark; {
		recs, err := r.Read(p.Log, next, 1<<20, true)
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := recs.AppendTo(nil)
		recs.Release()
		if err != nil {
			r.t.Fatal(err)
		}
		if len(b) == 0 {
			break // compaction emptied the end
		}
		for len(b) > 0 {
			if err := rd.Reset(b, 1<<20); err != nil {
				r.t.Fatal(err)
			}
			for rd.Next() {
				if rd.Record.Offset >= from && rd.Record.Offset >= st.Start {
					v := "-"
					if rd.Record.Value != nil {
						v = string(rd.Record.Value)
					}
					out = append(out, kv{string(rd.Record.Key), v})
					offsets = append(offsets, rd.Record.Offset)
				}
			}
			if rd.Err() != nil {
				r.t.Fatal(rd.Err())
			}
			next = rd.Info.LastOffset() + 1
			b = b[rd.Info.Size:]
		}
	}
	return out, offsets
}

// commit sets a group's position.
func (r *rig) commit(s *meta.Stream, partition int32, name string, offset int64) {
	r.t.Helper()
	k := group.Key{Namespace: base.DefaultNamespace, Group: name}
	err := r.GroupDecide(context.Background(), k, func(c *group.Coordinator, now int64) []group.Command {
		return []group.Command{&group.CommitOffsets{Key: k, Time: now, Offsets: []group.CommitOffset{{Partition: group.Partition{Stream: s.ID, Index: partition}, Offset: offset, Epoch: -1}}}}
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ledger() []shard.Loss {
	r.t.Helper()
	ls, err := r.Losses(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return ls
}

// must fails the test on an error.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}
