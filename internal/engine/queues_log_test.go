package engine

import (
	"fmt"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/queue"
	"godwit/internal/shard"
)

func TestQueueFollowsTheLogStart(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, map[string]string{"retention.ms": "60000"})
	r.fill(s, 4)
	r.clock.Advance(20 * time.Second)
	r.want("a", r.acquire("a", s, 4), "0-3")
	r.must(r.ack("a", s, queue.AckAccept, 1, 1))
	r.must(r.ack("a", s, queue.AckAccept, 3, 3))
	r.fill(s, 2)
	r.clock.Advance(45 * time.Second)
	r.must(r.Retain(ctx))
	r.Drain()
	lost := shard.Loss{Namespace: "default", Group: "workers", Stream: s.ID, Name: "jobs", From: 0, To: 4, Count: 2, Cause: shard.CauseRetention, Time: r.clock.Now().UnixMilli()}
	if got := r.ledger(); len(got) != 1 || got[0] != lost {
		t.Fatalf("ledger %+v, want %+v", got, lost)
	}
	r.must(r.ack("a", s, queue.AckAccept, 2, 2)) // too late, and no error: as in Kafka
	if o := r.stands(s); o.Start != 4 || o.InFlight != 0 || o.Totals.Archived[queue.CauseRetention] != 2 || o.Totals.Acked != 2 || o.Effects != 0 {
		t.Fatalf("stands %+v", o.Description)
	}

	start, err := r.DeleteRecords(ctx, s, 0, 5)
	if r.must(err); start != 5 {
		t.Fatalf("start %d", start)
	}
	lost = shard.Loss{Namespace: "default", Group: "workers", Stream: s.ID, Name: "jobs", From: 4, To: 5, Count: 1, Cause: shard.CauseDeleteRecords, Time: r.clock.Now().UnixMilli()}
	if got := r.ledger(); len(got) != 2 || got[1] != lost {
		t.Fatalf("ledger %+v, want %+v", got, lost)
	}
	r.must(r.powerLoss(0))
	r.want("what is left", r.acquire("b", s, 10), "5-5")
}

func TestQueueFollowsAfterACrashBetween(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil)
	r.fill(s, 4)
	r.want("a", r.acquire("a", s, 2), "0-1")
	p := s.Partitions[0]
	_, err := r.Decide(ctx, p.Shard, func(*shard.Machine, int64) (*shard.Command, error) {
		return &shard.Command{Trim: []shard.Trim{{Log: p.Log, Start: 3}}}, nil
	})
	r.must(err)
	r.must(r.powerLoss(0))
	r.want("b", r.acquire("b", s, 10), "3-3")
	if o := r.stands(s); o.Start != 3 {
		t.Fatalf("stands %+v", o.Description)
	}
}

func TestQueueOfCommittedRecords(t *testing.T) {
	for _, level := range []string{"read_committed", "read_uncommitted"} {
		r := newRig(t, nil)
		s := r.subscribed(1, nil, "share.isolation.level", level)
		txn := func(producer int64, sequence int32, records ...kv) {
			t.Helper()
			_, err := r.inTxn(s, producer, 0, sequence, records...)
			r.must(err)
		}
		txn(1, 0, kv{"a", "1"}, kv{"b", "1"}) // 0-1, aborted
		txn(2, 0, kv{"c", "2"})               // 2, committed
		txn(1, 2, kv{"d", "1"})               // 3, aborted
		r.must(r.end(s, 1, 1, false))         // 4
		r.fill(s, 1)                          // 5
		if level == "read_uncommitted" {
			r.want("all that is data", r.acquire("a", s, 10), "0-3 5-5")
			continue
		}
		r.want("nothing is stable", r.acquire("a", s, 10), "")
		w := r.NewShareWatch()
		w.Add(jobs(s, 0))
		r.must(r.end(s, 2, 1, true)) // 6
		if len(w.Take()) != 1 {
			t.Fatal("a transaction ended and nobody was told")
		}
		w.Close()
		r.want("what is committed", r.acquire("a", s, 10), "2-2 5-5")
		r.want("and nothing else", r.acquire("a", s, 10), "")
		r.must(r.ack("a", s, queue.AckAccept, 2, 2))
		r.must(r.ack("a", s, queue.AckAccept, 5, 5))
		if o := r.stands(s); o.Start != 7 || o.Lag != 0 {
			t.Fatalf("stands %+v", o.Description)
		}
	}
}

func TestQueueOfACompactedLog(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
	for i := range 4 {
		r.must(r.write(s, 0, kv{"a", fmt.Sprint(i)}, kv{fmt.Sprint("k", i), "1"}, kv{"b", fmt.Sprint(i)}))
	}
	r.want("a", r.acquire("a", s, 2), "0-1")
	r.seal()
	r.must(r.Compact(ctx))
	got := r.ledger()
	if len(got) != 1 || got[0].Group != "workers" || got[0].Cause != shard.CauseCompaction || got[0].Count != 5 {
		t.Fatalf("ledger %+v", got)
	}
	r.want("what is left", r.acquire("b", s, 20), "4-4 7-7 9-11")
	r.must(r.ShareRelease(ctx, "a", []ShareQueue{jobs(s, 0)}))
	r.want("of what was released", r.acquire("b", s, 20), "1-1*2")
}

// TestTrimBehindADeletion: records are deleted while the deletion of their topic is in flight. What a queue would hear of it stands
// behind the end of that queue in the journal, and has nothing to do there, now and at every later start.
func TestTrimBehindADeletion(t *testing.T) {
	for name, behind := range map[string]func(l *loop, log base.LogID){
		"trim": func(l *loop, log base.LogID) { l.queues.follow(l, log, 3) },
		"entry of an earlier build": func(l *loop, log base.LogID) {
			l.m.QueuesOf(log, func(k shard.QueueKey, q *queue.Queue) {
				l.command(&shard.Command{Queues: []shard.QueueCommand{{QueueKey: k, Do: q.Trim(l.now(), 3)}}}, func(*shard.Applied, error) {})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			s := r.subscribed(1, nil)
			r.fill(s, 4)
			r.want("a", r.acquire("a", s, 2), "0-1")
			p := s.Partitions[0]
			r.loop(p.Shard).post(message{call: func(l *loop) {
				l.command(&shard.Command{Drop: []base.LogID{p.Log}}, func(_ *shard.Applied, err error) { r.must(err) })
				behind(l, p.Log)
			}})
			r.Drain()
			r.must(r.powerLoss(0))
		})
	}
}
