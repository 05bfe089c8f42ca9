package kafka

import (
	"encoding/binary"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/compress"
	"godwit/internal/gateway/intake"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
)

// Produce: versions 3 to 13; ApiVersions announces 0.
//
// Whatever acks says, an answer means that the records are committed; acks=0 has no answer, and
// closes the connection if something failed, as in Kafka. The requests of a connection overlap: each is handed to the journal as soon
// as it is read.
//
//   - 5: log start offset
//   - 7: zstd may be used (KIP-110)
//   - 8: record errors and a message (KIP-467)
//   - 9: flexible
//   - 10: room for the current leader (KIP-951), which is not told: this node is the only one
//   - 11, 12: errors and implicit partitions of transactions (KIP-890); see produce_txn.go
//   - 13: topic IDs (KIP-516)

// produce is one Produce request from its beginning until it is answered.
type produce struct {
	produceRequest
	c        *conn
	rc       *request
	buf      *intake.Buffer
	deadline time.Time
	results  []produceResult // one for each item
	sent     broker.Append
	done     atomic.Bool // what was handed to the journal has its results
	txn      *produceTxn // nil: no batch is transactional
}

// produceResult is what became of one item.
type produceResult struct {
	slot     int32 // index in sent.Items; -1: it was not sent
	code     int16
	message  *string
	records  []recordbatch.RecordError
	base     int64
	stamp    int64 // log append time in Unix ms; -1 if the topic keeps the producer's
	logStart int64
}

// begin decodes a request, and hands what is valid of it to the journal. Behind a request that broke the connection
// nothing is begun: its producer repeats all that has no answer, in order.
func (c *conn) begin(f *frame) {
	if c.broken != nil {
		c.busy.Add(-1)
		f.buf.Release()
		return
	}
	f.rc.api.m.requests.Inc()
	p := &produce{c: c, rc: f.rc, buf: f.buf}
	if err := p.start(f.body); err != nil {
		c.busy.Add(-1)
		p.buf.Release()
		c.complain(f.rc, err)
		return
	}
	c.pending = append(c.pending, p)
}

// start does all that comes before the journal. With an error nothing was sent.
func (p *produce) start(body []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	if p.produceRequest, err = decodeProduce(body, p.rc.version); err != nil {
		return err
	}
	p.deadline = p.rc.received.Add(max(time.Duration(p.timeout)*time.Millisecond, leastTimeout))
	p.results = make([]produceResult, len(p.items))
	p.sent.Items = make([]broker.AppendItem, 0, len(p.items))
	view, now := p.c.s.backend.Meta(), time.Now().UnixMilli()
	i := 0
	for k := range p.topics {
		t := &p.topics[k]
		s, refusal := p.topic(view, t)
		for range t.items {
			p.results[i] = produceResult{slot: -1, base: -1, stamp: -1, logStart: -1}
			if refusal != nil {
				p.results[i].code = p.rc.reject(refusal)
			} else {
				p.validate(&p.results[i], s, &p.items[i], now)
			}
			i++
		}
	}
	switch p.checkTxn(); {
	case len(p.sent.Items) == 0:
		p.finished(nil)
	case p.txn != nil && p.c.holds(p.txn.id):
		p.txn.stage = parked
	default:
		p.submit(&p.sent)
	}
	return nil
}

// submit hands an append to the journal.
func (p *produce) submit(a *broker.Append) {
	p.buf.Retain()
	p.done.Store(false)
	a.BumpsEpoch = p.rc.version >= implicitSince
	a.Done, a.Release = p.finished, p.buf.Release
	p.c.s.backend.Append(a)
}

// leastTimeout is the least time that a request gets. In Kafka timeout_ms is for replicas only: one node never
// exceeds it. Here it covers the write to the disk, which has to be possible.
const leastTimeout = time.Second

// finished is called when the journal has answered, maybe before start returns.
func (p *produce) finished(*broker.Append) {
	p.done.Store(true)
	p.c.nudge()
}

// nudge has the worker look at the requests that wait.
func (c *conn) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// topic finds the topic, or an error that holds for all its partitions.
func (p *produce) topic(view *meta.View, t *produceTopic) (*meta.Stream, *kerr.Error) {
	if p.acks < -1 || p.acks > 1 {
		return nil, kerr.InvalidRequiredAcks
	}
	if p.rc.version >= 13 {
		if s, ok := view.StreamByID(t.id); ok && s.Namespace == p.rc.namespace {
			return s, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if s, ok := view.Stream(p.rc.namespace, t.name); ok {
		return s, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// validate checks one batch, and puts it on the list of what is sent.
func (p *produce) validate(r *produceResult, s *meta.Stream, item *produceItem, now int64) {
	switch {
	case item.index < 0 || int(item.index) >= len(s.Partitions):
		r.code = p.rc.reject(kerr.UnknownTopicOrPartition)
		return
	case int(item.index) >= s.Ready:
		r.code = p.rc.reject(kerr.NotLeaderForPartition)
		return
	}
	if err := p.admit(item.records); err != nil {
		p.refuse(r, err)
		return
	}
	rules := rulesOf(s, now)
	out, infos, err := recordbatch.Validate(item.records, &rules)
	if err != nil {
		p.refuse(r, err)
		return
	}
	if rules.LogAppendTime {
		r.stamp = now
	}
	at := s.Partitions[item.index]
	if infos[0].IsTransactional() {
		p.transactional(s, item.index, &infos[0])
	}
	r.slot = int32(len(p.sent.Items))
	p.sent.Items = append(p.sent.Items, broker.AppendItem{Log: at.Log, Shard: at.Shard, Data: out, Batches: infos})
}

// admit refuses batches that are well-formed and not for this broker or this version.
func (p *produce) admit(records []byte) error {
	info, err := recordbatch.ParseHeader(records)
	switch {
	case err != nil:
		return nil // Validate says it better
	case p.rc.version < 7 && info.Codec() == compress.Zstd:
		return base.Errorf(base.CodeUnsupportedCodec, "Produce requests with version %d are not allowed to use ZStandard compression", p.rc.version)
	}
	return nil
}

// maxDecompressed bounds what the records of one batch may take, bytes: a small request must not be able to ask for
// gigabytes. Batches of common clients stay below a mebibyte.
const maxDecompressed = 128 << 20

func rulesOf(s *meta.Stream, now int64) recordbatch.Rules {
	c := s.Config
	r := recordbatch.Rules{
		MaxSize:         c.MaxMessageBytes,
		LogAppendTime:   c.LogAppendTime,
		BeforeMaxMs:     c.TimestampBeforeMaxMs,
		AfterMaxMs:      c.TimestampAfterMaxMs,
		RequireKeys:     c.CleanupCompact,
		NowMs:           now,
		MaxRecord:       c.MaxDecompressedBytes,
		MaxDecompressed: maxDecompressed,
	}
	if !c.KeepCompression {
		r.Compression = &recordbatch.Compression{Codec: c.Codec, Level: c.CompressionLevel}
	}
	return r
}

// refuse turns an error about an item into its result.
func (p *produce) refuse(r *produceResult, err error) {
	r.code, r.message = p.rc.fail(err), message(err)
	var bad *recordbatch.InvalidRecords
	if errors.As(err, &bad) {
		r.records = bad.Records
	}
}

// take takes the journal's results over. late says that there are none in time.
func (p *produce) take(late bool) {
	for i := range p.results {
		r := &p.results[i]
		if r.slot < 0 {
			continue
		}
		if late {
			r.code, r.stamp = p.rc.reject(kerr.RequestTimedOut), -1
			continue
		}
		it := &p.sent.Items[r.slot]
		if it.Err != nil {
			p.refuse(r, p.txnError(it.Err))
			r.stamp = -1
			if aboutSequence(it.Err) {
				r.logStart = it.LogStart // tells the producer whether its records were deleted
			}
			continue
		}
		r.base, r.logStart = it.BaseOffset, it.LogStart
	}
}

// aboutSequence reports whether an error is one of the idempotent producer's.
func aboutSequence(err error) bool {
	switch base.CodeOf(err) {
	case base.CodeOutOfOrderSequence, base.CodeDuplicateSequence, base.CodeFencedProducer, base.CodeUnknownProducer:
		return true
	}
	return false
}

// failed reports whether any item failed.
func (p *produce) failed() bool {
	for i := range p.results {
		if p.results[i].code != 0 {
			return true
		}
	}
	return false
}

// settle answers the oldest requests, as far as they are done or out of time.
func (c *conn) settle() {
	c.advance()
	for len(c.pending) > 0 {
		p := c.pending[0]
		late := false
		if !p.ready() {
			if late = !time.Now().Before(p.deadline); !late {
				return
			}
		}
		c.pending[0] = nil
		if c.pending = c.pending[1:]; len(c.pending) == 0 {
			c.pending = nil
		}
		c.answer(p, late)
		if late {
			c.advance() // it may have been waited for
		}
	}
}

// answer queues the response of a request, and gives its memory back. late says that the journal has no results in
// time.
func (c *conn) answer(p *produce, late bool) {
	defer c.busy.Add(-1)
	defer p.buf.Release()
	defer c.guard(p.rc)
	p.take(late)
	switch {
	case c.broken != nil:
	case p.acks != 0:
		at := len(c.out)
		c.out = appendHeader(c.out, p.rc, p.rc.version >= 9)
		c.out = p.appendResponse(c.out)
		binary.BigEndian.PutUint32(c.out[at:], uint32(len(c.out)-at-4))
		c.unsent = append(c.unsent, p.rc)
	case p.failed():
		// The producer learns from the end of the connection that it has to look up its leaders anew.
		c.flush()
		c.s.complain.warn(c.s.log, "a connection is closed: a produce request with acks=0 failed", "client", p.rc.clientID, "remote", p.rc.remote)
		c.abort(endedRefused, errRefused)
	default:
		p.rc.api.answered(p.rc.received)
	}
}

var errRefused = errors.New("a produce request without an answer failed")

// appendResponse encodes the response behind dst.
func (p *produce) appendResponse(dst []byte) []byte {
	e := encoder{dst: dst, compact: p.rc.version >= 9}
	e.count(len(p.topics))
	i := 0
	for k := range p.topics {
		t := &p.topics[k]
		if p.rc.version >= 13 {
			e.dst = append(e.dst, t.id[:]...)
		} else {
			e.string(t.name)
		}
		e.count(t.items)
		for range t.items {
			p.appendResult(&e, p.items[i].index, &p.results[i])
			i++
		}
		e.noTags()
	}
	e.int32(0) // throttle time
	e.noTags()
	return e.dst
}

// appendResult encodes one partition.
func (p *produce) appendResult(e *encoder, index int32, r *produceResult) {
	e.int32(index)
	e.int16(r.code)
	e.int64(r.base)
	e.int64(r.stamp)
	if p.rc.version >= 5 {
		e.int64(r.logStart)
	}
	if p.rc.version >= 8 {
		e.count(len(r.records))
		for i := range r.records {
			e.int32(int32(r.records[i].Index))
			e.nullable(&r.records[i].Msg)
			e.noTags()
		}
		e.nullable(r.message)
	}
	e.noTags()
}
