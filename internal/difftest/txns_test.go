package difftest

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnPlays are the cases about transactions. Those of a whole transaction go through all of its requests, so that each API's
// versions are played with the highest versions of the others. What the end of a transaction does in logs takes its time, and is left to
// other tests.
func txnPlays() []play {
	return []play{
		{kmsg.AddPartitionsToTxn, "txn whole", wholeTxn},
		{kmsg.AddOffsetsToTxn, "txn whole", wholeTxn},
		{kmsg.TxnOffsetCommit, "txn whole", wholeTxn},
		{kmsg.EndTxn, "txn whole", wholeTxn},
		{kmsg.DescribeTransactions, "txn whole", wholeTxn},
		{kmsg.ListTransactions, "txn whole", wholeTxn},
		{kmsg.AddPartitionsToTxn, "txn refused", txnRefused},
		{kmsg.AddOffsetsToTxn, "txn refused", txnRefused},
		{kmsg.TxnOffsetCommit, "txn refused", txnRefused},
		{kmsg.EndTxn, "txn refused", txnRefused},
		{kmsg.WriteTxnMarkers, "txn markers", txnMarkers},
	}
}

// txnProducer is a transactional producer at both sides.
type txnProducer struct {
	x         *exchange
	id, group string
	producers [2]int64
	epochs    [2]int16
}

func (x *exchange) txnProducer(name string) *txnProducer {
	x.t.Helper()
	p := &txnProducer{x: x, id: x.name(name), group: x.name("g")}
	for i := range x.sides {
		for {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis = &p.id, 60_000
			resp := x.quietly(i, req).(*kmsg.InitProducerIDResponse)
			if resp.ErrorCode == kerr.ConcurrentTransactions.Code {
				continue
			}
			p.producers[i], p.epochs[i] = resp.ProducerID, resp.ProducerEpoch
			break
		}
	}
	return p
}

// partitions has the producer add partitions of a topic.
func (p *txnProducer) partitions(label, topic string, partitions ...int32) {
	p.x.t.Helper()
	p.x.each("add "+label, func(i int, _ *side) kmsg.Request {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.producers[i], p.epochs[i]
		req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
		one := kmsg.NewAddPartitionsToTxnRequestTransaction()
		one.TransactionalID, one.ProducerID, one.ProducerEpoch = p.id, p.producers[i], p.epochs[i]
		one.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: partitions}}
		req.Transactions = append(req.Transactions, one)
		return req
	})
}

func (p *txnProducer) offsets(label string) {
	p.x.t.Helper()
	p.x.each("group "+label, func(i int, _ *side) kmsg.Request {
		return &kmsg.AddOffsetsToTxnRequest{TransactionalID: p.id, ProducerID: p.producers[i], ProducerEpoch: p.epochs[i], Group: p.group}
	})
}

func (p *txnProducer) commit(label, topic string, partition, generation int32, member string) {
	p.x.t.Helper()
	p.x.each("commit "+label, func(_ int, s *side) kmsg.Request {
		return p.commitRequest(s, topic, partition, generation, member)
	})
}

func (p *txnProducer) commitRequest(s *side, topic string, partition, generation int32, member string) kmsg.Request {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	i := slices.Index(p.x.sides, s)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, p.producers[i], p.epochs[i], p.group
	req.Generation, req.MemberID = generation, member
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, 5, -1, kmsg.StringPtr("meta")
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, s.id(topic), append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// end ends the transaction; from version 5 on the answer has the producer's next epoch.
func (p *txnProducer) end(label string, commit bool) {
	p.x.t.Helper()
	for i, r := range p.x.each("end "+label, func(i int, _ *side) kmsg.Request {
		return &kmsg.EndTxnRequest{TransactionalID: p.id, ProducerID: p.producers[i], ProducerEpoch: p.epochs[i], Commit: commit}
	}) {
		if r, ok := r.(*kmsg.EndTxnResponse); ok && r.ErrorCode == 0 && r.Version >= 5 {
			p.producers[i], p.epochs[i] = r.ProducerID, r.ProducerEpoch
		}
	}
}

func (x *exchange) describeTxn(label string, ids ...string) {
	x.t.Helper()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	x.same("describe "+label, req)
}

func wholeTxn(x *exchange) {
	t := x.topic("t", 3, nil)
	p := x.txnProducer("x")
	x.describeTxn("empty", p.id)
	p.partitions("two", t, 0, 1)
	p.partitions("again", t, 1)
	x.describeTxn("open", p.id)
	list := kmsg.NewPtrListTransactionsRequest()
	list.StateFilters = []string{"Ongoing", "Odd"}
	x.same("list", list)
	p.offsets("first")
	p.offsets("again")
	p.commit("first", t, 0, -1, "")
	p.commit("unknown partition", t, 9, -1, "")
	p.commit("generation of an unknown group", t, 0, 3, "m")
	p.end("commit", true)
	other := x.txnProducer("y")
	other.partitions("other", t, 2)
	other.end("abort", false)
	x.describeTxn("unknown", x.name("unknown"))
	x.describeTxn("no ID", "")
}

func txnRefused(x *exchange) {
	t := x.topic("t", 2, nil)
	p := x.txnProducer("x")
	p.partitions("unknown topic", x.name("nothing"), 0)
	p.partitions("unknown partition", t, 0, 9)
	p.end("without a transaction", true)
	fenced := *p
	for i := range fenced.epochs {
		fenced.epochs[i]--
	}
	stranger := *p
	for i := range stranger.producers {
		stranger.producers[i] += 1000
	}
	nobody := *p
	nobody.id = ""
	unknown := *p
	unknown.id = x.name("unknown")
	for _, who := range []struct {
		name string
		p    *txnProducer
	}{{"older epoch", &fenced}, {"other producer", &stranger}, {"no ID", &nobody}, {"unknown ID", &unknown}} {
		who.p.partitions(who.name, t, 0)
		who.p.offsets(who.name)
		who.p.commit(who.name, t, 0, -1, "")
		who.p.end(who.name, true)
	}
}

func txnMarkers(x *exchange) {
	t := x.topic("t", 1, nil)
	x.each("markers", func(i int, _ *side) kmsg.Request {
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch = x.producer(i), 3
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: t, Partitions: []int32{0, 9}}, {Topic: x.name("nothing"), Partitions: []int32{0}}}
		req.Markers = append(req.Markers, m)
		return req
	})
}
