package probe

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// inRing is one entry as the kernel writes it.
func inRing(kind uint32, body []byte) []byte {
	u := binary.NativeEndian
	b := u.AppendUint32(nil, kind)
	b = u.AppendUint16(b, 0)
	b = u.AppendUint16(b, uint16(8+len(body)))
	return append(b, body...)
}

func sampleBody(pid, tid uint32, at uint64, point uint16, values ...uint64) []byte {
	u := binary.NativeEndian
	b := u.AppendUint32(nil, pid)
	b = u.AppendUint32(b, tid)
	b = u.AppendUint64(b, at)
	b = u.AppendUint32(b, uint32(16+8*len(values)+4))
	b = u.AppendUint16(b, point)
	b = append(b, make([]byte, 14)...)
	for _, v := range values {
		b = u.AppendUint64(b, v)
	}
	return append(b, 0, 0, 0, 0)
}

func forkBody(pid, parent, tid uint32, at uint64) []byte {
	u := binary.NativeEndian
	b := u.AppendUint32(nil, pid)
	b = u.AppendUint32(b, parent)
	b = u.AppendUint32(b, tid)
	b = u.AppendUint32(b, parent)
	return u.AppendUint64(b, at)
}

func TestDecodeRecords(t *testing.T) {
	minusNine := ^uint64(8)
	ring := slices.Concat(
		inRing(unix.PERF_RECORD_SAMPLE, sampleBody(10, 11, 1000, 7, 3)),
		inRing(unix.PERF_RECORD_FORK, forkBody(20, 10, 20, 1100)),
		inRing(unix.PERF_RECORD_FORK, forkBody(10, 10, 12, 1200)), // a thread: of no interest
		inRing(99, make([]byte, 24)),                              // nor is this
		inRing(unix.PERF_RECORD_SAMPLE, sampleBody(10, 11, 1300, 8, minusNine)),
		inRing(unix.PERF_RECORD_SAMPLE, sampleBody(10, 11, 1400, 9)),
		inRing(unix.PERF_RECORD_LOST, binary.NativeEndian.AppendUint64(make([]byte, 8), 5)),
	)
	got, err := decodeRecords(ring)
	want := []record{
		{kind: recordCall, pid: 10, tid: 11, at: 1000, point: 7, value: 3},
		{kind: recordFork, pid: 20, tid: 20, parent: 10, at: 1100},
		{kind: recordCall, pid: 10, tid: 11, at: 1300, point: 8, value: -9},
		{kind: recordCall, pid: 10, tid: 11, at: 1400, point: 9},
		{kind: recordLost, value: 5},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for name, b := range map[string][]byte{
		"cut":                   ring[:len(ring)-1],
		"half a header":         ring[:5],
		"sample without a body": inRing(unix.PERF_RECORD_SAMPLE, nil),
		"fork without a time":   inRing(unix.PERF_RECORD_FORK, make([]byte, 16)),
		"size 0":                make([]byte, 8),
	} {
		if rs, err := decodeRecords(b); err == nil {
			t.Errorf("%s: %+v and no error", name, rs)
		}
	}
}

func FuzzDecodeRecords(f *testing.F) {
	f.Add(slices.Concat(inRing(unix.PERF_RECORD_SAMPLE, sampleBody(10, 11, 1000, 7, 3)), inRing(unix.PERF_RECORD_FORK, forkBody(20, 10, 20, 1100))))
	f.Add(inRing(unix.PERF_RECORD_LOST, make([]byte, 16)))
	f.Fuzz(func(t *testing.T, b []byte) {
		rs, err := decodeRecords(b)
		if len(rs)*24 > len(b) {
			t.Errorf("%d records in %d bytes", len(rs), len(b))
		}
		for _, r := range rs {
			if r.kind == recordFork && r.pid == r.parent {
				t.Errorf("a thread: %+v", r)
			}
		}
		if again, err2 := decodeRecords(b); !slices.Equal(rs, again) || (err == nil) != (err2 == nil) {
			t.Errorf("again: %+v, %v, before %+v, %v", again, err2, rs, err)
		}
	})
}

// TestRecordsInOrder: of several CPUs, by time, and those that may not be complete are kept.
func TestRecordsInOrder(t *testing.T) {
	r := &recorder{pending: []record{{at: 3}, {at: 9}, {at: 1}, {at: 4}}}
	times := func(rs []record) (ts []int64) {
		for _, c := range rs {
			ts = append(ts, c.at)
		}
		return ts
	}
	if got := times(r.before(4)); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("%v, want 1 and 3", got)
	}
	r.pending = append(r.pending, record{at: 5})
	if got := times(r.before(1 << 62)); !slices.Equal(got, []int64{4, 5, 9}) {
		t.Errorf("%v, want 4, 5 and 9", got)
	}
}
