package engine

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/queue"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/vfs"
)

// mourned makes a topic with queues, a dead-letter topic, and four records; a member has the first two.
func (r *rig) mourned(config ...string) (s, dead *meta.Stream) {
	r.t.Helper()
	dead = r.create("dlq.jobs", 2, map[string]string{letterEnabled: "true"})
	s = r.subscribed(1, map[string]string{"retention.ms": "60000"}, append([]string{"errors.deadletterqueue.topic.name", "dlq.jobs", "share.delivery.count.limit", "2"}, config...)...)
	r.fill(s, 4)
	r.want("a", r.acquire("a", s, 2), "0-1")
	return s, dead
}

// lettersOf lists dead letters: key=value and the values of their headers.
func (r *rig) lettersOf(dead *meta.Stream) string {
	r.t.Helper()
	st, _ := r.State(dead.Partitions[0].Log)
	if st.HighWatermark == 0 {
		return ""
	}
	recs, err := r.Read(dead.Partitions[0].Log, st.Start, 1<<20, true)
	r.must(err)
	defer recs.Release()
	b, err := recs.AppendTo(nil)
	r.must(err)
	var rd recordbatch.Reader
	defer rd.Close()
	var out []string
	for len(b) > 0 {
		r.must(rd.Reset(b, 1<<20))
		for rd.Next() {
			text := "-"
			if rd.Record.Key != nil || rd.Record.Value != nil {
				text = fmt.Sprintf("%s=%s", rd.Record.Key, rd.Record.Value)
			}
			for name, value := range rd.Record.All() {
				if strings.HasPrefix(string(name), "__dlq.errors.") {
					text += " " + string(value)
				}
			}
			out = append(out, text)
		}
		r.must(rd.Err())
		b = b[rd.Info.Size:]
	}
	return strings.Join(out, "; ")
}

const (
	letter0 = "jobs 0 0 workers 1 Offset rejected by client."
	letter1 = "jobs 0 1 workers 2 Offset delivery count exceeded the threshold."
)

func TestDeadLetters(t *testing.T) {
	for _, copies := range []bool{false, true} {
		r := newRig(t, nil)
		s, dead := r.mourned("errors.deadletterqueue.copy.record.enable", fmt.Sprint(copies))
		r.must(r.ack("a", s, queue.AckReject, 0, 0))
		r.pass(31 * time.Second)
		r.want("again", r.acquire("a", s, 1), "1-1*2")
		r.pass(31 * time.Second)
		r.Drain()
		want := "- " + letter0 + "; - " + letter1
		if copies {
			want = "k0=v " + letter0 + "; k1=v " + letter1
		}
		r.want("letters", r.lettersOf(dead), want)
		if o := r.stands(s); o.Effects != 0 || o.Start != 2 {
			t.Fatalf("stands %+v", o.Description)
		}
	}
}

func TestDeadLettersThroughAKill(t *testing.T) {
	r := newRig(t, nil)
	s, dead := r.mourned()
	acks := []queue.Ack{{Span: queue.Span{First: 0, Last: 1}, Type: queue.AckReject}}
	r.queueCall(jobs(s, 0), func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
		l.queues.acknowledge(l, hq, q, "a", acks, reply)
	})
	log := dead.Partitions[0].Log
	for st, _ := r.State(log); st.HighWatermark == 0; st, _ = r.State(log) {
		if !r.Step() {
			t.Fatal("no letter was written")
		}
	}
	_, k, err := r.locate(jobs(s, 0))
	r.must(err)
	if q, _, _ := r.loop(s.Partitions[0].Shard).m.Queue(k); len(q.Effects()) == 0 {
		t.Fatal("the letters were confirmed already: nothing is tested")
	}
	r.must(r.powerLoss(0)) // the letters are there, and nobody knows it
	r.pass(2 * time.Second)
	want := "- " + letter0 + "; - " + strings.Replace(letter0, "0 0", "0 1", 1)
	r.want("letters", r.lettersOf(dead), want)
	if o := r.stands(s); o.Effects != 0 {
		t.Fatalf("stands %+v", o.Description)
	}
}

func TestDeadLettersThatCannotBeWrittenNow(t *testing.T) {
	r := newRig(t, nil)
	s, dead := r.mourned("errors.deadletterqueue.copy.record.enable", "true")
	r.must(r.ack("a", s, queue.AckAccept, 1, 1))
	l := r.loop(dead.Partitions[0].Shard)
	if l.id == s.Partitions[0].Shard {
		t.Fatal("both topics are in one shard")
	}
	term := l.term
	l.term, l.why = 0, base.Errorf(base.CodeNotReady, "the shard has no leader")
	r.must(r.ack("a", s, queue.AckReject, 0, 0))
	r.Drain()
	r.clock.Advance(2 * time.Minute)
	r.must(r.Retain(ctx))
	if st, _ := r.State(s.Partitions[0].Log); st.Start != 0 {
		t.Fatalf("the log begins at %d, though record 0 is still to be copied", st.Start)
	}
	l.term = term
	r.pass(2 * time.Second)
	r.want("letters", r.lettersOf(dead), "k0=v "+letter0)
	r.must(r.Retain(ctx))
	if st, _ := r.State(s.Partitions[0].Log); st.Start != 4 {
		t.Fatalf("the log begins at %d", st.Start)
	}
}

func TestDeadLettersThatNoTopicTakes(t *testing.T) {
	for what, spoil := range map[string]func(o *Options){
		"prefix": func(o *Options) { o.DeadLetterPrefix = new("dead.") },
		"topic":  func(o *Options) {},
	} {
		r := newRig(t, spoil)
		s, dead := r.mourned()
		if what == "topic" {
			_, err := r.DecideMeta(ctx, func(m *meta.State, _ int64) (*meta.Command, error) { return m.DecideDelete(dead.ID) })
			r.must(err)
			r.Drain()
		}
		r.must(r.ack("a", s, queue.AckReject, 0, 1))
		r.Drain()
		if o := r.stands(s); o.Effects != 0 || o.Start != 2 {
			t.Fatalf("%s: stands %+v", what, o.Description)
		}
		if got := r.ledger(); len(got) != 1 || got[0].From != 0 || got[0].To != 2 || got[0].Count != 2 || got[0].Cause != shard.CauseDeadLetter || got[0].Group != "workers" {
			t.Fatalf("%s: ledger %+v", what, got)
		}
	}
}

func TestDeadLettersWithoutAPrefix(t *testing.T) {
	r := newRig(t, func(o *Options) { o.DeadLetterPrefix = new("") })
	dead := r.create("graveyard", 1, map[string]string{letterEnabled: "true"})
	s := r.subscribed(1, nil, "errors.deadletterqueue.topic.name", "graveyard")
	r.fill(s, 1)
	r.want("a", r.acquire("a", s, 1), "0-0")
	r.must(r.ack("a", s, queue.AckReject, 0, 0))
	r.Drain()
	if got := r.lettersOf(dead); len(got) == 0 {
		t.Fatalf("no letter, and the ledger has %+v", r.ledger())
	}
}

func TestDeadLettersAfterALostWrite(t *testing.T) {
	r := newRig(t, nil)
	s, dead := r.mourned()
	r.must(r.ack("a", s, queue.AckReject, 0, 0))
	r.Drain()
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	if err := r.ack("a", s, queue.AckReject, 1, 1); err == nil {
		t.Fatal("acknowledged while the disk failed")
	}
	r.Drain()
	r.want("only what was committed", r.lettersOf(dead), "- "+letter0)
	r.must(r.ack("a", s, queue.AckReject, 1, 1))
	r.Drain()
	r.want("and the rest", r.lettersOf(dead), "- "+letter0+"; - "+strings.Replace(letter0, "0 0", "0 1", 1))
}
