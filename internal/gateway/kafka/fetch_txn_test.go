package kafka

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/meta"
	"godwit/internal/recordbatch"
)

// txnBatchOf is a batch of n records in a transaction.
func txnBatchOf(producer int64, n int) []byte {
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{Attributes: 0x10, ProducerID: producer}, 0, 0)
	for i := range n {
		b.Add(&recordbatch.Record{OffsetDelta: int32(i), Timestamp: 1000, Value: []byte("value")})
	}
	out, err := b.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// txnLog is a log with 0-1: plain, 2-4: aborted by 7, 5: its marker, 6-7: committed by 8, 8: its marker, 9-10: open of 9.
func txnLog(f *fetchStand) *meta.Stream {
	st := f.topic("t", 1)
	log := st.Partitions[0].Log
	f.m.put(log, batchOf(2, 10))
	f.m.begin(log)
	f.m.put(log, txnBatchOf(7, 3))
	f.m.finish(log, 7, false)
	f.m.begin(log)
	f.m.put(log, txnBatchOf(8, 2))
	f.m.finish(log, 8, true)
	f.m.begin(log)
	f.m.put(log, txnBatchOf(9, 2))
	return st
}

func TestFetchCommitted(t *testing.T) {
	f := newFetchStand(t, nil)
	st := txnLog(f)
	one := int32(len(batchOf(2, 10)))
	abort := []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 2}}
	for version := int16(4); version <= 18; version++ {
		for _, tc := range []struct {
			name    string
			level   int8
			from    int64
			max     int32
			batches []int64
			aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction // nil: null
		}{
			{"all", 1, 0, 1 << 20, []int64{0, 2, 5, 6, 8}, abort},
			{"before the aborted", 1, 0, one, []int64{0}, nil},
			{"within the aborted", 1, 3, 1, []int64{2}, abort},
			{"its marker", 1, 5, 1, []int64{5}, abort},
			{"behind it", 1, 6, 1 << 20, []int64{6, 8}, nil},
			{"at the last stable offset", 1, 9, 1 << 20, nil, nil},
			{"above it", 1, 10, 1 << 20, nil, nil},
			{"at the high watermark", 1, 11, 1 << 20, nil, nil},
			{"uncommitted", 0, 0, 1 << 20, []int64{0, 2, 5, 6, 8, 9}, nil},
			{"uncommitted at the end", 0, 9, 1 << 20, []int64{9}, nil},
		} {
			p := want(0, tc.from)
			p.PartitionMaxBytes = tc.max
			req := fetchOf(st, p)
			req.IsolationLevel = tc.level
			got := only(t, f.fetch(version, req))
			what := fmt.Sprintf("%s, version %d", tc.name, version)
			if at := offsetsOf(t, got.RecordBatches); !slices.Equal(at, tc.batches) || got.ErrorCode != 0 || got.HighWatermark != 11 || got.LastStableOffset != 9 {
				t.Errorf("%s: batches %v, error %d, high watermark %d, last stable offset %d", what, at, got.ErrorCode, got.HighWatermark, got.LastStableOffset)
			}
			if (got.AbortedTransactions == nil) != (tc.level == 0) || len(got.AbortedTransactions)+len(tc.aborted) > 0 && !reflect.DeepEqual(got.AbortedTransactions, tc.aborted) {
				t.Errorf("%s: aborted %+v", what, got.AbortedTransactions)
			}
		}
	}
	req := fetchOf(st, want(0, 12))
	req.IsolationLevel = 1
	if got := only(t, f.fetch(12, req)); got.ErrorCode != kerr.OffsetOutOfRange.Code || got.LastStableOffset != -1 {
		t.Errorf("behind the end: %+v", got)
	}
}

// TestCommittedFetchWaits: what an open transaction writes does not wake it, the marker does.
func TestCommittedFetchWaits(t *testing.T) {
	for _, session := range []bool{false, true} {
		f := newFetchStand(t, nil)
		st := txnLog(f)
		log := st.Partitions[0].Log
		req := fetchOf(st, want(0, 9))
		req.IsolationLevel = 1
		if session {
			req.SessionEpoch = epochInitial
			first := f.fetch(12, req)
			req = kmsg.NewPtrFetchRequest()
			req.MinBytes, req.IsolationLevel = 1, 1
			req.SessionID, req.SessionEpoch = first.SessionID, 1
		} else {
			req.SessionEpoch = epochFinal
		}
		req.MaxWaitMillis = int32(time.Hour.Milliseconds())
		c := make(chan *kmsg.FetchResponse, 1)
		go func() {
			resp, err := f.run(context.Background(), 12, req)
			if err != nil {
				t.Error(err)
			}
			c <- resp
		}()
		f.waiters(1)
		eventually(t, "two looks", func() bool { return f.reads() == 2 }) // at first, and with the watch or by the session's next request
		for range 3 {
			f.m.put(log, txnBatchOf(9, 1))
			f.idle()
		}
		select {
		case resp := <-c:
			t.Fatalf("answered while the transaction is open: %+v", resp)
		default:
		}
		if n := f.reads(); n != 2 {
			t.Errorf("session %v: looked %d times while the transaction is open, want 2", session, n)
		}
		f.m.finish(log, 9, true)
		got := only(t, <-c)
		if at := offsetsOf(t, got.RecordBatches); !slices.Equal(at, []int64{9, 11, 12, 13, 14}) || got.LastStableOffset != 15 {
			t.Errorf("session %v: batches %v, last stable offset %d", session, at, got.LastStableOffset)
		}
	}
}

// idle waits until no watch has anything to tell: whoever waits has looked at it.
func (f *fetchStand) idle() {
	eventually(f.t, "idle watches", func() bool {
		f.m.lm.Lock()
		defer f.m.lm.Unlock()
		for w := range f.m.watches {
			if len(w.ready) > 0 {
				return false
			}
		}
		return true
	})
}

// TestSessionTellsTheLastStableOffset: a client that is at the end learns of it, and one that changes its isolation level gets what
// the other level hid.
func TestSessionTellsTheLastStableOffset(t *testing.T) {
	f := newFetchStand(t, nil)
	st := txnLog(f)
	req := fetchOf(st, want(0, 9))
	req.SessionEpoch, req.IsolationLevel = epochInitial, 1
	id := f.fetch(12, req).SessionID
	epoch := int32(0)
	next := func(level int8, parts ...kmsg.FetchRequestTopicPartition) *kmsg.FetchResponse {
		epoch++
		req := fetchOf(st, parts...)
		if parts == nil {
			req.Topics = nil
		}
		req.SessionID, req.SessionEpoch, req.IsolationLevel = id, epoch, level
		return f.fetch(12, req)
	}
	if resp := next(1); len(resp.Topics) != 0 {
		t.Errorf("nothing is new: %+v", resp)
	}
	if got := only(t, next(0)); !slices.Equal(offsetsOf(t, got.RecordBatches), []int64{9}) {
		t.Errorf("uncommitted: %+v", got)
	}
	if resp := next(0, want(0, 11)); len(resp.Topics) != 0 {
		t.Errorf("nothing is new: %+v", resp)
	}
	f.m.lm.Lock()
	f.m.log(st.Partitions[0].Log).open = 0 // without a marker, so that nothing else changes
	f.m.signal(st.Partitions[0].Log)
	f.m.lm.Unlock()
	if got := only(t, next(0)); got.LastStableOffset != 11 || len(got.RecordBatches) != 0 {
		t.Errorf("the last stable offset has changed: %+v", got)
	}
}

func TestListOffsetsCommitted(t *testing.T) {
	s, f := serverStand(t, nil)
	st := f.topic("t", 1)
	log := st.Partitions[0].Log
	f.m.put(log, batchOf(3, 10))
	f.m.begin(log)
	f.m.put(log, txnBatchOf(7, 3))
	for _, tc := range []struct {
		trim      int64
		timestamp int64
		level     int8
		offset    int64
	}{
		{0, offsetLatest, 0, 6}, {0, offsetLatest, 1, 3}, {0, offsetEarliest, 1, 0}, {0, 1000, 0, 0}, {0, 1000, 1, 0}, {0, offsetMaxTimestamp, 1, 0},
		// All that is left is undecided.
		{4, 1000, 0, 4}, {4, 1000, 1, -1}, {4, offsetMaxTimestamp, 1, -1}, {4, offsetEarliest, 1, 4}, {4, offsetEarliestLocal, 1, 4},
	} {
		f.m.trim(log, tc.trim)
		req := kmsg.NewPtrListOffsetsRequest()
		req.IsolationLevel = tc.level
		req.Topics = append(req.Topics, listOf("t", 0, tc.timestamp, -1))
		got := send[*kmsg.ListOffsetsResponse](s, 8, req).Topics[0].Partitions[0]
		if got.Offset != tc.offset || got.ErrorCode != 0 || tc.offset < 0 && (got.Timestamp != -1 || got.LeaderEpoch != -1) {
			t.Errorf("start %d, timestamp %d, isolation level %d: %+v, want offset %d", tc.trim, tc.timestamp, tc.level, got, tc.offset)
		}
	}
}
