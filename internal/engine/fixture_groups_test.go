package engine

import (
	"testing"

	"godwit/internal/base"
	"godwit/internal/coord/streams"
	"godwit/internal/coord/txn"
	"godwit/internal/meta"
	"godwit/internal/queue"
)

// What format 2 brought: transactions, share groups with their queues, streams groups.

// groupLogs is how many logs they have in the fixture.
const groupLogs = 2

// writeGroups leaves a bit of each, and returns what is to be done behind the last checkpoint.
func writeGroups(r *rig) (tail func()) {
	keep := map[string]string{"retention.ms": "-1"}
	ledger := r.create("ledger", 1, keep)
	p := r.initTxn(7100)
	p.writes(ledger, 0, "kept")
	p.commits(ledger, "books", 1)
	p.ends(true)
	r.Drain()
	p.writes(ledger, 0, "void")
	p.ends(false)
	r.Drain()

	jobs := r.subscribed(1, keep)
	r.fill(jobs, 4)
	r.want("a", r.acquire("a", jobs, 2), "0-1")
	r.must(r.ack("a", jobs, queue.AckAccept, 0, 0))
	if out, err := r.runs("m", streams.EpochJoin); err != nil || out.Err != nil {
		r.t.Fatalf("joined: %+v, %v", out, err)
	}
	return func() {
		p.writes(ledger, 0, "open")
		r.want("b", r.acquire("b", jobs, 1), "2-2")
		r.must(r.ack("b", jobs, queue.AckReject, 2, 2))
	}
}

func (r *rig) topic(name string) *meta.Stream {
	r.t.Helper()
	s, ok := r.View().Stream(base.DefaultNamespace, name)
	if !ok {
		r.t.Fatalf("topic %s is missing", name)
	}
	return s
}

// checkGroups holds an engine on a fixture against writeGroups, and goes on with it.
func checkGroups(t *testing.T, r *rig) {
	t.Helper()
	ledger, jobs := r.topic("ledger"), r.topic("jobs")
	r.wantCommitted(ledger, "kept")
	if at := r.position(ledger, "books"); at != 1 {
		t.Errorf("the transaction committed position %d, want 1", at)
	}
	d := r.describeTxn()
	if d.Status != txn.Ongoing || d.ProducerID != 7100 || len(d.Partitions) != 1 {
		t.Fatalf("the transaction that was left open: %+v", d)
	}
	if a := r.Aborted(ledger.Partitions[0].Log); len(a) != 1 || a[0].First != 2 || a[0].Last != 3 {
		t.Errorf("aborted transactions %+v", a)
	}
	p := &txnProducer{r, d.ProducerID, d.Epoch}
	p.ends(true)
	r.Drain()
	r.wantCommitted(ledger, "kept", "open")

	o := r.stands(jobs)
	if o.Start != 1 || o.InFlight != 1 || o.Totals.Acked != 1 || o.Totals.Deliveries != 3 || o.Totals.Archived[queue.CauseRejected] != 1 {
		t.Errorf("the queue stands %+v", o.Description)
	}
	r.must(r.ack("a", jobs, queue.AckAccept, 1, 1))
	r.want("what is left", r.acquire("b", jobs, 10), "3-3")
	if d := r.describeApp(); len(d.Members) != 1 || d.Members[0].ID != "m" {
		t.Errorf("the streams group: %+v", d)
	}
}
