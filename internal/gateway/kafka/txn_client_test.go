package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// txnClients are a client that takes transactions of version 2, and one that knows only version 1.
var txnClients = map[string][]kgo.Opt{"version 2": nil, "version 1": {kgo.MaxVersions(kversion.V3_8_0())}}

// committed reads a topic to its end, as of the call, without what was aborted. The answer to the end of a transaction may come before its
// markers, for which it waits.
func (l *life) committed(ctx context.Context, topic string) (values []string) {
	l.t.Helper()
	ends, err := kadm.NewClient(l.client()).ListEndOffsets(ctx, topic)
	if err != nil || ends.Error() != nil {
		l.t.Fatal(err, ends.Error())
	}
	at := map[int32]kgo.Offset{}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			at[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	cl := l.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			l.t.Fatalf("%v, with %v to be read", err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	slices.Sort(values)
	return values
}

// stableSum adds up a group's positions once no transaction may change them.
func (l *life) stableSum(ctx context.Context, group string) (sum int64) {
	l.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1}}
	for unstable := true; unstable; {
		resp, err := req.RequestWith(ctx, l.client())
		if err != nil {
			l.t.Fatal(err)
		}
		sum, unstable = 0, false
		for _, topic := range resp.Groups[0].Topics {
			for _, p := range topic.Partitions {
				sum, unstable = sum+p.Offset, unstable || p.ErrorCode == kerr.UnstableOffsetCommit.Code
			}
		}
	}
	return sum
}

func (l *life) topic(name string, partitions int32) {
	l.t.Helper()
	if _, err := kadm.NewClient(l.client()).CreateTopic(context.Background(), partitions, 1, nil, name); err != nil {
		l.t.Fatal(err)
	}
}

// TestTransform reads, writes and commits in transactions of which every third is aborted: each record comes out once.
func TestTransform(t *testing.T) {
	for name, opts := range txnClients {
		t.Run(name, func(t *testing.T) {
			l, ctx := newLife(t), testContext(t)
			l.topic("in", 3)
			l.topic("out", 2)
			const records = 60
			var want []string
			producer := l.client()
			for i := range records {
				r := &kgo.Record{Topic: "in", Value: []byte(fmt.Sprintf("%03d", i))}
				if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
					t.Fatal(err)
				}
				want = append(want, string(r.Value))
			}
			s, err := kgo.NewGroupTransactSession(append(slices.Clone(opts),
				kgo.SeedBrokers(l.addr), kgo.TransactionalID("transform"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for done, round := 0, 1; done < records; round++ {
				fetches := s.PollRecords(ctx, 7)
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				if err := s.Begin(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					s.Produce(ctx, &kgo.Record{Topic: "out", Value: r.Value}, nil)
				})
				try := kgo.TransactionEndTry(round%3 != 0)
				committed, err := s.End(ctx, try)
				if err != nil {
					t.Fatal(err)
				}
				if committed {
					done += fetches.NumRecords()
				}
			}
			if got := l.committed(ctx, "out"); !slices.Equal(got, want) {
				t.Errorf("read %d records of %d: %v", len(got), len(want), got)
			}
			if sum := l.stableSum(ctx, "g"); sum != records {
				t.Errorf("the group has committed %d records of %d", sum, records)
			}
		})
	}
}

// TestTransactionsFence lets a second producer take the transactional ID of one with an open transaction.
func TestTransactionsFence(t *testing.T) {
	for name, opts := range txnClients {
		t.Run(name, func(t *testing.T) {
			l, ctx := newLife(t), testContext(t)
			l.topic("t", 1)
			begin := func(value string) *kgo.Client {
				t.Helper()
				cl := l.client(append(slices.Clone(opts), kgo.TransactionalID("x"))...)
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
				return cl
			}
			first := begin("zombie")
			second := begin("new")
			err := first.EndTransaction(ctx, kgo.TryCommit)
			if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
				t.Errorf("the fenced producer commits: %v", err)
			}
			if err := second.EndTransaction(ctx, kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			if got := l.committed(ctx, "t"); !slices.Equal(got, []string{"new"}) {
				t.Errorf("read %v", got)
			}
		})
	}
}

// TestTransactionOverRestart restarts the broker within a transaction, which then commits, and within one that it aborts.
func TestTransactionOverRestart(t *testing.T) {
	for name, opts := range txnClients {
		t.Run(name, func(t *testing.T) {
			l, ctx := newLife(t), testContext(t)
			l.topic("t", 1)
			cl := l.client(append(slices.Clone(opts), kgo.TransactionalID("x"))...)
			for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				for j := range 2 {
					if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(fmt.Sprintf("%d-%d", i, j))}).FirstErr(); err != nil {
						t.Fatal(err)
					}
					if j == 0 && i < 2 {
						l.stop()
						l.start()
					}
				}
				if err := cl.EndTransaction(ctx, end); err != nil {
					t.Fatal(err)
				}
			}
			if got := l.committed(ctx, "t"); !slices.Equal(got, []string{"0-0", "0-1", "2-0", "2-1"}) {
				t.Errorf("read %v", got)
			}
		})
	}
}

// TestTransactionsForOperators shows, lists and aborts an open transaction.
func TestTransactionsForOperators(t *testing.T) {
	l, ctx := newLife(t), testContext(t)
	l.topic("t", 2)
	cl := l.client(kgo.TransactionalID("x"), kgo.TransactionTimeout(time.Minute))
	admin := kadm.NewClient(l.client())
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("hangs")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	described, err := admin.DescribeTransactions(ctx, "x", "none")
	if err != nil {
		t.Fatal(err)
	}
	d := described["x"]
	if d.Err != nil || d.State != "Ongoing" || d.TimeoutMillis != 60_000 || d.StartTimestamp <= 0 || len(d.Topics.IntoList()) != 1 {
		t.Errorf("described %+v", d)
	}
	if !errors.Is(described["none"].Err, kerr.TransactionalIDNotFound) {
		t.Errorf("an unknown ID is described as %+v", described["none"])
	}
	listed, err := admin.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil || len(listed) != 1 || listed["x"].ProducerID != d.ProducerID {
		t.Errorf("listed %+v, %v", listed, err)
	}
	hangs, err := admin.DescribeProducers(ctx, kadm.TopicsSet{"t": {0: {}, 1: {}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range hangs.SortedProducers() {
		if p.CurrentTxnStartOffset < 0 {
			continue
		}
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
			ProducerID: p.ProducerID, ProducerEpoch: int16(p.ProducerEpoch), CoordinatorEpoch: p.CoordinatorEpoch,
			Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{p.Partition, 9}}},
		}}
		answer, err := l.client().SeedBrokers()[0].Request(ctx, req) // as it is: the client would take it apart by partitions
		if err != nil {
			t.Fatal(err)
		}
		got := answer.(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics[0].Partitions
		wantCode(t, "marker", got[0].ErrorCode, nil)
		wantCode(t, "marker of an unknown partition", got[1].ErrorCode, kerr.UnknownTopicOrPartition)
	}
	if got := l.committed(ctx, "t"); len(got) != 0 {
		t.Errorf("read %v", got)
	}
}
