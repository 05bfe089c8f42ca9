package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reader reads partitions of one topic up to an end that was fixed when it began, or for ever.
type reader struct {
	topic  string
	id     kadm.TopicID
	client *kgo.Client
	follow bool
	left   int64                    // records to write at most; negative: no limit
	emit   func(*kgo.Record) error  // writes a record
	after  func(read []int32) error // called when the records of a poll are written, with their partitions

	mu    sync.Mutex
	parts map[int32]*span // partitions to read; nil until they are known
	err   error           // of finding out which
}

// span is what is left to read of a partition: next <= offsets < end.
type span struct{ next, end int64 }

// errInterrupted ends a command that had not finished.
var errInterrupted = errors.New("interrupted")

// quiet is for how long nothing may come before the broker is asked whether there is anything: compaction and
// transactions leave offsets without records, of which a consumer hears nothing.
const quiet = time.Second

// run reads until everything is read, ctx ends, or an error.
func (r *reader) run(ctx context.Context) error {
	for {
		if done, err := r.finished(); done || err != nil {
			return err
		}
		fetches := r.poll(ctx)
		if ctx.Err() != nil {
			if r.follow {
				return nil
			}
			return errInterrupted
		}
		for _, f := range fetches.Errors() {
			if !errors.Is(f.Err, context.DeadlineExceeded) {
				return fmt.Errorf("reading %s, partition %d: %w", r.topic, f.Partition, f.Err)
			}
		}
		read, err := r.write(fetches)
		if err == nil && len(read) > 0 {
			err = r.after(read)
		} else if err == nil && !r.follow {
			err = r.skipEmpty(ctx)
		}
		r.client.AllowRebalance()
		if err != nil {
			return err
		}
	}
}

func (r *reader) finished() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.left == 0 {
		return true, r.err
	}
	if r.follow || r.parts == nil {
		return false, nil
	}
	for _, s := range r.parts {
		if s.next < s.end {
			return false, nil
		}
	}
	return true, nil
}

func (r *reader) poll(ctx context.Context) kgo.Fetches {
	if !r.follow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	most := 10_000
	if r.left >= 0 {
		most = int(min(r.left, int64(most)))
	}
	return r.client.PollRecords(ctx, most)
}

// write emits what lies within the spans and moves them on.
func (r *reader) write(fetches kgo.Fetches) (read []int32, err error) {
	for it := fetches.RecordIter(); !it.Done(); {
		rec := it.Next()
		r.mu.Lock()
		s := r.parts[rec.Partition]
		wanted := s != nil && rec.Offset < s.end
		if wanted {
			s.next = rec.Offset + 1
		} else if s != nil {
			s.next = s.end
		}
		r.mu.Unlock()
		if !wanted {
			continue
		}
		if !slices.Contains(read, rec.Partition) {
			read = append(read, rec.Partition)
		}
		if rec.Attrs.IsControl() {
			continue
		}
		if err := r.emit(rec); err != nil {
			return nil, err
		}
		if r.left > 0 {
			r.left--
		}
	}
	return read, nil
}

// skipEmpty asks about every partition that is not read to its end whether anything is left there, and moves over
// offsets without records.
func (r *reader) skipEmpty(ctx context.Context) error {
	r.mu.Lock()
	pending := map[int32]span{}
	for p, s := range r.parts {
		if s.next < s.end {
			pending[p] = *s
		}
	}
	r.mu.Unlock()
	for p, s := range pending {
		next, err := r.peek(ctx, p, s)
		if err != nil {
			return err
		}
		r.mu.Lock()
		if now := r.parts[p]; now != nil {
			now.next = max(now.next, next)
		}
		r.mu.Unlock()
	}
	return nil
}

// peek fetches once and returns the first offset from s.next on that has a record, or s.end.
func (r *reader) peek(ctx context.Context, partition int32, s span) (int64, error) {
	leader, _, err := r.client.PartitionLeader(r.topic, partition)
	if err != nil || leader < 0 {
		return s.next, nil // the consumer finds the new leader
	}
	for s.next < s.end {
		resp, err := r.fetch(ctx, leader, partition, s.next)
		if err != nil {
			return s.next, fmt.Errorf("reading %s, partition %d: %w", r.topic, partition, err)
		}
		fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: s.next, Topic: r.topic, Partition: partition, KeepControlRecords: true},
			resp, kgo.DefaultDecompressor(), nil)
		switch {
		case kerr.IsRetriable(fp.Err):
			return s.next, nil
		case fp.Err != nil:
			return s.next, fmt.Errorf("reading %s, partition %d: %w", r.topic, partition, fp.Err)
		case len(fp.Records) > 0:
			return min(fp.Records[0].Offset, s.end), nil
		case next > s.next:
			s.next = next
		case fp.HighWatermark >= s.end && len(resp.RecordBatches) == 0:
			return s.end, nil
		default:
			return s.next, nil
		}
	}
	return s.end, nil
}

// fetch is one Fetch request for one partition that does not wait.
func (r *reader) fetch(ctx context.Context, leader, partition int32, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = r.topic, r.id, append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 0, 0, 1<<20, -1
	req.Topics = append(req.Topics, t)
	kresp, err := r.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if out := &resp.Topics[i].Partitions[j]; out.Partition == partition {
				return out, nil
			}
		}
	}
	return nil, errors.New("the broker's answer lacks the partition")
}

// assign begins to read partitions from the offsets given.
func (r *reader) assign(from map[int32]int64, ends kadm.ListedOffsets) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts = map[int32]*span{}
	}
	for p, at := range from {
		s := &span{next: at, end: math.MaxInt64}
		if end, ok := ends.Lookup(r.topic, p); ok && !r.follow {
			s.end = end.Offset
		}
		r.parts[p] = s
	}
}

// revoke stops reading partitions.
func (r *reader) revoke(partitions []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		delete(r.parts, p)
	}
}

// fail makes run return err.
func (r *reader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// next is the offset behind the last that was read of a partition.
func (r *reader) next(partition int32) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.parts[partition]
	if s == nil {
		return 0, false
	}
	return s.next, true
}

// remaining counts the offsets that are left to read.
func (r *reader) remaining() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.parts {
		n += max(0, s.end-s.next)
	}
	return n
}
