package difftest

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnRecordPlays are the cases about what transactions do to records and offsets. Each awaits that a transaction has ended before it
// looks.
func txnRecordPlays() []play {
	return []play{
		{kmsg.Produce, "txn records", txnRecords},
		{kmsg.Fetch, "txn records", txnRecords},
		{kmsg.EndTxn, "txn records", txnRecords},
		{kmsg.ListOffsets, "txn records", txnRecords},
		{kmsg.InitProducerID, "txn epochs", txnEpochs},
		{kmsg.EndTxn, "txn epochs", txnEpochs},
		{kmsg.TxnOffsetCommit, "txn offsets", txnOffsets},
		{kmsg.OffsetFetch, "txn offsets", txnOffsets},
		{kmsg.EndTxn, "txn offsets", txnOffsets},
	}
}

// txnWriter is a transactional producer with the sequences of one partition.
type txnWriter struct {
	*txnProducer
	topic string
	next  int32
}

// write sends records in the transaction; a partition is added before, where the version of Produce does not add it by itself.
func (w *txnWriter) write(label string, values ...string) {
	x := w.x
	x.t.Helper()
	if x.play.api == kmsg.Produce && x.version < 12 {
		w.partitions("for "+label, w.topic, 0)
	}
	answers := x.each(label, func(i int, s *side) kmsg.Request {
		b := x.plain(values...)
		b.attrs, b.producer, b.epoch, b.sequence = 0x10, w.producers[i], w.epochs[i], w.next
		req := x.produce(s, w.topic, 0, b.encode())
		req.TransactionID = &w.id
		return req
	})
	if r, ok := answers[0].(*kmsg.ProduceResponse); ok && r.Topics[0].Partitions[0].ErrorCode == 0 {
		w.next += int32(len(values))
	}
}

// finish ends the transaction, and awaits that it has ended.
func (w *txnWriter) finish(label string, commit bool) {
	w.x.t.Helper()
	before := w.epochs
	w.end(label, commit)
	for i := range w.x.sides {
		w.x.ended(i, w.id)
	}
	if w.epochs != before {
		w.next = 0
	}
}

// ended awaits that one side has no transaction of the ID under way.
func (x *exchange) ended(i int, id string) {
	x.t.Helper()
	for end := time.Now().Add(patience); ; {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{id}
		state := x.quietly(i, req).(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State
		switch state {
		case "Empty", "CompleteCommit", "CompleteAbort", "Dead":
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("%s: the transaction of %s remains %s", x.sides[i].name, id, state)
		}
	}
}

// read fetches what is there, and lists where it ends, for both kinds of readers.
func (x *exchange) read(label, topic string) {
	x.t.Helper()
	for level, name := range []string{"uncommitted", "committed"} {
		x.each(label+", "+name, func(_ int, s *side) kmsg.Request {
			req := x.fetchRequest(s, topic, want{})
			req.IsolationLevel = int8(level)
			return req
		})
		for _, stamp := range []int64{-1, -3, x.base} {
			list := listRequest(topic, 0, stamp)
			list.IsolationLevel = int8(level)
			x.same("list "+label+", "+name, list)
		}
	}
}

func txnRecords(x *exchange) {
	t := x.topic("t", 1, nil)
	w := &txnWriter{txnProducer: x.txnProducer("x"), topic: t}
	for i := range x.sides { // so that markers are known to be of the producer
		own(x.sides[i].producers, "producer", fmt.Sprint(w.producers[i]))
	}
	w.write("first", "a", "b")
	x.read("open", t)
	w.finish("commit", true)
	x.read("committed", t)
	w.write("second", "c")
	w.write("more", "d", "e")
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = t, []int32{0}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = append(producers.Topics, rt)
	x.same("producers", producers)
	w.finish("abort", false)
	x.read("aborted", t)
	x.same("no producers", producers)
	x.write("outside", t, 0, x.plain("f"))
	x.read("at the end", t)
	x.describeTxn("at the end", w.id)

	for i := range w.epochs {
		w.epochs[i]--
	}
	if w.epochs[0] >= 0 {
		w.write("older epoch", "g")
	}
	w.epochs[0], w.epochs[1] = w.epochs[0]+7, w.epochs[1]+7
	w.write("newer epoch", "g")
}

func txnEpochs(x *exchange) {
	t, id := x.topic("t", 1, nil), x.name("x")
	p := &txnProducer{x: x, id: id, group: x.name("g")}
	begin := func(label string, timeout int32, who *txnProducer) {
		x.t.Helper()
		for i, r := range x.each("init "+label, func(i int, _ *side) kmsg.Request {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, timeout, -1, -1
			if who != nil {
				req.ProducerID, req.ProducerEpoch = who.producers[i], who.epochs[i]
			}
			return req
		}) {
			if r := r.(*kmsg.InitProducerIDResponse); r.ErrorCode == 0 {
				p.producers[i], p.epochs[i] = r.ProducerID, r.ProducerEpoch
			}
		}
	}
	begin("no time-out", 0, nil)
	begin("long time-out", 1<<30, nil)
	begin("first", 60_000, nil)
	begin("again", 60_000, nil)
	old := *p
	begin("its own", 60_000, p)
	begin("its own, replayed", 60_000, &old)
	stranger := *p
	stranger.producers[0], stranger.producers[1] = 1<<40, 1<<40
	begin("of a stranger", 60_000, &stranger)
	newer := *p
	newer.epochs[0], newer.epochs[1] = newer.epochs[0]+5, newer.epochs[1]+5
	begin("of a newer epoch", 60_000, &newer)

	p.partitions("open", t, 0)
	zombie := *p
	begin("while it is open", 60_000, nil)
	zombie.end("of a zombie", true)
	zombie.partitions("of a zombie", t, 0)
	zombie.offsets("of a zombie")
	x.describeTxn("after the zombie", id)

	p.partitions("to be committed", t, 0)
	replay := *p
	p.end("commit", true)
	for i := range x.sides {
		x.ended(i, id)
	}
	again := replay
	again.end("commit, replayed", true)
	again = replay
	again.end("abort behind it", false)
	p.end("empty", true)
	for i := range x.sides {
		x.ended(i, id)
	}
	x.describeTxn("at the end", id)
}

func txnOffsets(x *exchange) {
	t := x.topic("t", 2, nil)
	p := x.txnProducer("x")
	look := func(label string) {
		x.t.Helper()
		for _, stable := range []bool{false, true} {
			x.each(label, func(_ int, s *side) kmsg.Request {
				req := kmsg.NewPtrOffsetFetchRequest()
				rg, gt, rt := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic(), kmsg.NewOffsetFetchRequestTopic()
				gt.Topic, gt.TopicID, gt.Partitions = t, s.id(t), []int32{0, 1}
				rt.Topic, rt.Partitions = t, gt.Partitions
				rg.Group, rg.Topics = p.group, append(rg.Topics, gt)
				req.Group, req.Topics, req.Groups, req.RequireStable = p.group, append(req.Topics, rt), append(req.Groups, rg), stable
				return req
			})
		}
	}
	finish := func(label string, commit bool) {
		x.t.Helper()
		p.end(label, commit)
		for i := range x.sides {
			x.ended(i, p.id)
		}
	}
	look("before")
	p.commit("without adding the group", t, 1, -1, "")
	p.offsets("add")
	p.commit("one", t, 0, -1, "")
	look("open")
	finish("commit", true)
	look("committed")
	p.offsets("add again")
	p.commit("another", t, 1, -1, "")
	finish("abort", false)
	look("aborted")

	m := x.stable(x.name("members"))
	p.group = m.group
	p.offsets("with members")
	for i := range x.sides {
		own(x.sides[i].members, "member", m.ids[i])
	}
	p.commitAs("of a member", t, m, m.generation)
	p.commitAs("of an older generation", t, m, m.generation-1)
	p.commit("of an unknown member", t, 0, m.generation, "nobody")
	p.commit("of nobody", t, 0, -1, "")
	finish("commit with members", true)
	look("of the group with members")
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{x.name("g")}
	x.same("delete the first group", remove)
}

// commitAs is commit of a member.
func (p *txnProducer) commitAs(label, topic string, m *member, generation int32) {
	p.x.t.Helper()
	p.x.each("commit "+label, func(i int, s *side) kmsg.Request {
		return p.commitRequest(s, topic, 0, generation, m.ids[i])
	})
}
