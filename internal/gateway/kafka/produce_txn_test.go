package kafka

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/recordbatch"
)

// coordinator stands for the transaction coordinator of logs in memory.
type coordinator struct {
	mu     sync.Mutex
	asked  []broker.TxnCheck
	answer error
	gate   chan struct{} // closed: answers come at once
}

func newCoordinator(m *memLogs) *coordinator {
	k := &coordinator{gate: make(chan struct{})}
	m.verify = func(c *broker.TxnCheck) []error {
		k.mu.Lock()
		k.asked = append(k.asked, *c)
		out := make([]error, len(c.Partitions))
		for i := range out {
			out[i] = k.answer
		}
		k.mu.Unlock()
		<-k.gate
		return out
	}
	return k
}

func (k *coordinator) checks() []broker.TxnCheck {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.asked)
}

// inTxn is a transactional produce request.
func inTxn(id, topic string, index int32, producer int64, sequence int32) *kmsg.ProduceRequest {
	req := produceOf(topic, index, -1, codedBatch(recordbatch.Info{Attributes: 0x10, ProducerID: producer, ProducerEpoch: 4, BaseSequence: sequence}))
	if id != "" {
		req.TransactionID = &id
	}
	return req
}

func TestTransactionIsVerified(t *testing.T) {
	for _, tc := range []struct {
		version  int16
		answer   error
		want     *kerr.Error
		implicit bool
	}{
		{9, nil, nil, false},
		{12, nil, nil, true},
		{10, base.Errorf(base.CodeTxnAbortable, "x"), kerr.InvalidTxnState, false},
		{11, base.Errorf(base.CodeTxnAbortable, "x"), kerr.TransactionAbortable, false},
		{11, base.Errorf(base.CodeConcurrentTxn, "x"), kerr.NotEnoughReplicas, false},
		{12, base.Errorf(base.CodeConcurrentTxn, "x"), kerr.ConcurrentTransactions, true},
		{12, base.Errorf(base.CodeNotReady, "x"), kerr.NotEnoughReplicas, true},
		{12, base.Errorf(base.CodeProducerFenced, "x"), kerr.InvalidProducerEpoch, true},
		{12, base.Errorf(base.CodeUnknownMapping, "x"), kerr.InvalidProducerIDMapping, true},
	} {
		w := newWire(t, nil)
		st := w.topic("t", 1)
		k := newCoordinator(w.m)
		k.answer = tc.answer
		close(k.gate)
		p := w.dial()
		name := fmt.Sprintf("version %d, answer %v", tc.version, tc.answer)
		for i := range int32(2) { // the second needs no verification once the first is written
			got := call[*kmsg.ProduceResponse](p, tc.version, inTxn("mine", "t", 0, 7, i)).Topics[0].Partitions[0]
			wantCode(t, name, got.ErrorCode, tc.want)
			if tc.want == nil && got.BaseOffset != int64(i) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		asked := k.checks()
		if tc.want == nil && len(asked) != 1 {
			t.Errorf("%s: asked %d times", name, len(asked))
		}
		c := asked[0]
		if c.Namespace != base.DefaultNamespace || c.Transactional != "mine" || c.ProducerID != 7 || c.Epoch != 4 || c.Implicit != tc.implicit ||
			!slices.Equal(c.Partitions, []group.Partition{{Stream: st.ID, Index: 0}}) {
			t.Errorf("%s: asked %+v", name, c)
		}
	}
}

// TestVerificationKeepsOrder: requests behind one that is being verified do not overtake it; those of others do.
func TestVerificationKeepsOrder(t *testing.T) {
	w := newWire(t, nil)
	st := w.topic("t", 2)
	k := newCoordinator(w.m)
	p := w.dial()
	var ids []int32
	var reqs []*kmsg.ProduceRequest
	send := func(req *kmsg.ProduceRequest) {
		ids, reqs = append(ids, p.write(9, req)), append(reqs, req)
	}
	send(inTxn("mine", "t", 0, 7, 0))
	eventually(t, "the coordinator is asked", func() bool { return len(k.checks()) == 1 })
	for i := int32(1); i < 4; i++ {
		send(inTxn("mine", "t", 0, 7, i))
	}
	send(produceOf("t", 1, -1, batchOf(1, 10)))
	eventually(t, "the other request is written", func() bool {
		s, _ := w.m.State(st.Partitions[1].Log)
		return s.HighWatermark == 1
	})
	if s, _ := w.m.State(st.Partitions[0].Log); s.HighWatermark != 0 {
		t.Errorf("%d records were written before the transaction was verified", s.HighWatermark)
	}
	close(k.gate)
	for i, id := range ids {
		got := p.read(id, reqs[i]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if want := []int64{0, 1, 2, 3, 0}[i]; got.ErrorCode != 0 || got.BaseOffset != want {
			t.Errorf("request %d: %+v, want offset %d", i, got, want)
		}
	}
	if n := len(k.checks()); n != 1 {
		t.Errorf("the coordinator was asked %d times", n)
	}
}

// TestVerifiedTogether: requests that are all refused before the first is verified are tried again in their order.
func TestVerifiedTogether(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 1)
	k := newCoordinator(w.m)
	close(k.gate)
	w.m.hold = true
	p := w.dial()
	var ids []int32
	var reqs []*kmsg.ProduceRequest
	for i := range int32(4) {
		req := inTxn("mine", "t", 0, 7, i)
		ids, reqs = append(ids, p.write(12, req)), append(reqs, req)
	}
	eventually(t, "four requests in flight", func() bool {
		w.m.lm.Lock()
		defer w.m.lm.Unlock()
		return len(w.m.held) == 4
	})
	w.m.release() // the last is refused first
	for i, id := range ids {
		got := p.read(id, reqs[i]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.BaseOffset != int64(i) {
			t.Errorf("request %d: %+v", i, got)
		}
	}
}

func TestTransactionalRequestIsRefusedWhole(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 2)
	p := w.dial()
	mixed := inTxn("mine", "t", 0, 7, 0)
	mixed.Topics[0].Partitions = append(mixed.Topics[0].Partitions, inTxn("mine", "t", 1, 8, 0).Topics[0].Partitions...)
	for _, tc := range []struct {
		req  *kmsg.ProduceRequest
		want *kerr.Error
	}{{inTxn("", "t", 0, 7, 0), kerr.TransactionalIDAuthorizationFailed}, {mixed, kerr.InvalidProducerIDMapping}} {
		for _, got := range call[*kmsg.ProduceResponse](p, 9, tc.req).Topics[0].Partitions {
			wantCode(t, fmt.Sprint("partition ", got.Partition), got.ErrorCode, tc.want)
		}
	}
	// A transactional ID with batches outside of a transaction is as good as none.
	plain := produceOf("t", 0, -1, batchOf(1, 10))
	plain.TransactionID = kmsg.StringPtr("mine")
	wantCode(t, "plain", call[*kmsg.ProduceResponse](p, 9, plain).Topics[0].Partitions[0].ErrorCode, nil)
}

// TestVerificationOutOfTime: a coordinator that does not answer costs its own request only.
func TestVerificationOutOfTime(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 1)
	k := newCoordinator(w.m)
	p := w.dial()
	req := inTxn("mine", "t", 0, 7, 0)
	req.TimeoutMillis = 10
	wantCode(t, "late", call[*kmsg.ProduceResponse](p, 9, req).Topics[0].Partitions[0].ErrorCode, kerr.RequestTimedOut)
	close(k.gate)
	got := call[*kmsg.ProduceResponse](p, 9, inTxn("mine", "t", 0, 7, 0)).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || got.BaseOffset != 0 {
		t.Errorf("%+v", got)
	}
}
