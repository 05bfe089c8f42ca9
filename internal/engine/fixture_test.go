package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/compress"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/vfs"
)

// The directory testdata/fixtures keeps, for each format of the data directory, one that was written in it, from the
// first release on. All of them must open. None is ever written anew: a change that cannot read it needs a new format
// and a way to read the old one.

var update = flag.Bool("update", false, "write the fixture of the present format, if there is none")

func fixture(format int) string {
	return filepath.Join("testdata", "fixtures", fmt.Sprintf("format-%d.tar.gz", format))
}

// coded builds a batch of one idempotent producer; records are "key=value", or "key" for a tombstone.
func (r *rig) coded(c compress.Codec, producer int64, epoch int16, sequence int32, records ...string) ([]byte, recordbatch.Info) {
	r.t.Helper()
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{ProducerID: producer, ProducerEpoch: epoch, BaseSequence: sequence}, c, compress.DefaultLevel)
	for i, text := range records {
		key, value, has := strings.Cut(text, "=")
		rec := recordbatch.Record{OffsetDelta: int32(i), Timestamp: r.clock.Now().UnixMilli(), Key: []byte(key)}
		if has {
			rec.Value = []byte(value)
		}
		b.Add(&rec)
	}
	data, err := b.AppendTo(nil)
	r.must(err)
	info, err := recordbatch.ParseHeader(data)
	r.must(err)
	return data, info
}

// put writes a batch of an idempotent producer.
func (r *rig) put(s *meta.Stream, partition int, c compress.Codec, producer int64, epoch int16, sequence int32, records ...string) {
	r.t.Helper()
	data, info := r.coded(c, producer, epoch, sequence, records...)
	r.must(r.writeBatch(s, partition, data, info))
}

// Producers of the fixture.
const (
	steady  = 7000 // epoch 1, in every codec
	renewed = 7001 // epochs 0 and 1
	late    = 7002 // only in the tail of the log
)

// writeFixture does a bit of everything that leaves something on the disk, and ends without an orderly stop.
func writeFixture(r *rig) {
	orders := r.create("orders", 3, map[string]string{"retention.ms": "-1"})
	users := r.create("users", 2, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
	gone := r.create("gone", 1, nil)

	sequence := int32(0)
	for _, c := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		long := strings.Repeat(c.String(), 40)
		r.put(orders, 0, c, steady, 1, sequence, "codec="+c.String(), "long="+long)
		sequence += 2
	}
	r.put(orders, 1, compress.None, renewed, 0, 0, "a=1", "b=2", "c=3")
	r.put(orders, 1, compress.None, renewed, 1, 0, "d=4")
	r.must(r.write(users, 0, kv{"ada", "1"}, kv{"bob", "1"}, kv{"ada", "2"}))
	r.must(r.write(users, 0, kv{"bob", "-"}, kv{"cyd", "1"}))
	r.must(r.write(users, 1, kv{"dan", "1"}))
	r.must(r.write(gone, 0, kv{"x", strings.Repeat("x", 500)}))

	r.commit(orders, 0, "billing", 4)
	r.commit(orders, 1, "billing", 1)
	r.commit(users, 0, "audit", 1)
	_, err := r.DeleteRecords(ctx, orders, 1, 2)
	r.must(err)
	_, err = r.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) { return s.DecideDelete(gone.ID) })
	r.must(err)
	r.Drain()
	tail := writeGroups(r)
	r.seal()
	r.must(r.Compact(ctx))
	r.must(r.Checkpoint(ctx))

	r.put(orders, 0, compress.Zstd, steady, 1, sequence, "tail=1")
	r.put(orders, 2, compress.None, late, 0, 0, "late=1", "late=2")
	r.must(r.write(users, 1, kv{"dan", "2"}))
	r.commit(orders, 0, "billing", 6)
	r.commit(users, 1, "tail", 2)
	tail()
	r.Drain()
	r.Abort()
}

// pack makes an archive of a data directory, but for its lock.
func pack(t *testing.T, fsys vfs.FS, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	add := func(name string) {
		f, err := fsys.Open(fsys.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	add(identityFile)
	for _, sub := range []string{logDir, stateDir} {
		names, err := fsys.List(fsys.PathJoin(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		for _, name := range names {
			if name != lockFile {
				add(sub + "/" + name)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack extracts the fixture of a format.
func unpack(t *testing.T, format int) string {
	t.Helper()
	b, err := os.ReadFile(fixture(format))
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 200<<10 {
		t.Fatalf("the fixture has %d bytes; it is to stay below 200 KiB", len(b))
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// sound checks a directory file by file.
func sound(t *testing.T, dir string) Checked {
	t.Helper()
	sum, err := Check(ctx, vfs.Default, dir, func(f Finding) { t.Errorf("%s at %d: %s", filepath.Base(f.File), f.Offset, f.What) })
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// partition is what a fixture has in one partition.
type partition struct {
	topic     string
	index     int
	start, hw int64
	records   []string // "offset key=value"
	producers []partlog.ProducerState
}

// fixtureTime is the clock of the rig that wrote the fixture, Unix ms.
const fixtureTime = 1_700_000_000_000

func fixturePartitions() []partition {
	orders := []string{"10 tail=1"}
	for i, c := range []string{"zstd", "lz4", "snappy", "gzip", "none"} {
		at := 8 - 2*i
		orders = append([]string{fmt.Sprintf("%d codec=%s", at, c), fmt.Sprintf("%d long=%s", at+1, strings.Repeat(c, 40))}, orders...)
	}
	return []partition{
		{"orders", 0, 0, 11, orders, []partlog.ProducerState{{ID: steady, Epoch: 1, LastSequence: 10, LastTimestamp: fixtureTime, CoordinatorEpoch: -1, TxnStart: -1}}},
		{"orders", 1, 2, 4, []string{"2 c=3", "3 d=4"}, []partlog.ProducerState{{ID: renewed, Epoch: 1, LastSequence: 0, LastTimestamp: fixtureTime, CoordinatorEpoch: -1, TxnStart: -1}}},
		{"orders", 2, 0, 2, []string{"0 late=1", "1 late=2"}, []partlog.ProducerState{{ID: late, Epoch: 0, LastSequence: 1, LastTimestamp: fixtureTime, CoordinatorEpoch: -1, TxnStart: -1}}},
		{"users", 0, 0, 5, []string{"2 ada=2", "3 bob=-", "4 cyd=1"}, nil},
		{"users", 1, 0, 2, []string{"0 dan=1", "1 dan=2"}, nil},
	}
}

// checkFixture holds an engine on a fixture against what was written.
func checkFixture(t *testing.T, r *rig) {
	t.Helper()
	if _, ok := r.View().Stream(base.DefaultNamespace, "gone"); ok {
		t.Error("the deleted topic is there")
	}
	for _, want := range fixturePartitions() {
		s, ok := r.View().Stream(base.DefaultNamespace, want.topic)
		if !ok {
			t.Fatalf("topic %s is missing", want.topic)
		}
		p := s.Partitions[want.index]
		got := partition{topic: want.topic, index: want.index}
		st, _ := r.State(p.Log)
		got.start, got.hw = st.Start, st.HighWatermark
		records, offsets := r.read(s, want.index, 0)
		for i, rec := range records {
			got.records = append(got.records, fmt.Sprintf("%d %s=%s", offsets[i], rec.key, rec.value))
		}
		r.must(r.Call(ctx, p.Shard, func(m *shard.Machine) {
			if log, ok := m.Log(p.Log); ok {
				got.producers = append(got.producers, log.ProducerStates()...)
			}
		}))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s/%d:\ngot  %+v\nwant %+v", want.topic, want.index, got, want)
		}
	}
	for _, want := range []struct {
		group, topic string
		partition    int32
		offset       int64
	}{{"billing", "orders", 0, 6}, {"billing", "orders", 1, 1}, {"billing", "orders", 2, -1}, {"audit", "users", 0, 1}, {"tail", "users", 1, 2}} {
		s, _ := r.View().Stream(base.DefaultNamespace, want.topic)
		k := group.Key{Namespace: base.DefaultNamespace, Group: want.group}
		req := &group.FetchOffsetsRequest{Key: k, Partitions: []group.Partition{{Stream: s.ID, Index: want.partition}}}
		r.must(r.Call(ctx, r.View().GroupShard(k.Namespace, k.Group), func(m *shard.Machine) {
			if got := m.Offsets.Fetch(req).Offsets; len(got) != 1 || got[0].Offset != want.offset {
				t.Errorf("%s is at %+v in %s/%d, want %d", want.group, got, want.topic, want.partition, want.offset)
			}
		}))
	}
	var losses []string
	for _, l := range r.ledger() {
		losses = append(losses, fmt.Sprintf("%s %s/%d [%d,%d) %d %s %d", l.Group, l.Name, l.Partition, l.From, l.To, l.Count, l.Cause, l.Time))
	}
	slices.Sort(losses)
	want := []string{
		fmt.Sprintf("audit users/0 [1,2) 1 %s %d", shard.CauseCompaction, int64(fixtureTime)),
		fmt.Sprintf("billing orders/1 [1,2) 1 %s %d", shard.CauseDeleteRecords, int64(fixtureTime)),
	}
	if !reflect.DeepEqual(losses, want) {
		t.Errorf("ledger\n%v\nwant\n%v", losses, want)
	}
}

// goOn repeats a batch and continues a sequence: both need the producers' whole state.
func goOn(t *testing.T, r *rig) {
	t.Helper()
	s, _ := r.View().Stream(base.DefaultNamespace, "orders")
	r.put(s, 0, compress.Zstd, steady, 1, 8, "codec=zstd", "long="+strings.Repeat("zstd", 40))
	if st, _ := r.State(s.Partitions[0].Log); st.HighWatermark != 11 {
		t.Errorf("a repeated batch was appended: the high watermark is %d", st.HighWatermark)
	}
	r.put(s, 0, compress.None, steady, 1, 11, "more=1")
	if got, at := r.read(s, 0, 11); !reflect.DeepEqual(got, []kv{{"more", "1"}}) || at[0] != 11 {
		t.Errorf("after one more record there are %v at %v", got, at)
	}
}

func TestFixtures(t *testing.T) {
	if _, err := os.Stat(fixture(Format)); *update && errors.Is(err, os.ErrNotExist) {
		r := newRig(t, func(o *Options) { o.FileSize = 64 << 10 })
		writeFixture(r)
		if err := os.WriteFile(fixture(Format), pack(t, r.disk, "/data"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for format := 1; format <= Format; format++ {
		t.Run(fmt.Sprint("format ", format), func(t *testing.T) {
			dir := unpack(t, format)
			merged, err := filepath.Glob(filepath.Join(dir, logDir, "*.seg"))
			if err != nil || len(merged) == 0 {
				t.Errorf("the fixture has no merged file (%v)", err)
			}
			logs := len(fixturePartitions())
			if format >= 2 {
				logs += groupLogs
			}
			if sum := sound(t, dir); sum.Files < 2 || sum.Logs != logs {
				t.Errorf("checked %+v", sum)
			}
			open := func(o *Options) { o.FS, o.Dir = vfs.Default, dir }
			r := newRig(t, open)
			checkFixture(t, r)
			goOn(t, r)
			if format >= 2 {
				checkGroups(t, r)
			}
			r.must(r.Close(ctx))
			sound(t, dir)
			if id, err := ReadIdentity(vfs.Default, dir); err != nil || id.Format != Format {
				t.Errorf("afterwards the directory is %+v (%v), want format %d: an older release must not open it", id, err, Format)
			}
		})
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	disk := vfs.NewCrashing()
	if err := disk.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"format":%d,"node":1,"replica":1,"shards":3}`, Format+1)
	if err := vfs.WriteFileAtomic(disk, disk.PathJoin("/data", identityFile), []byte(text)); err != nil {
		t.Fatal(err)
	}
	e, err := Open(Options{FS: disk, Dir: "/data", Shards: 3})
	if err == nil {
		e.Abort()
		t.Fatal("a newer format is opened")
	}
	for _, want := range []string{"/data/" + identityFile, fmt.Sprintf("format %d", Format+1), fmt.Sprintf("newer than %d", Format)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	f, err := disk.Open(disk.PathJoin("/data", identityFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != text {
		t.Errorf("%s is now %q (%v)", identityFile, b, err)
	}
}
