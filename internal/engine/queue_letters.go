package engine

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/queue"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/storage/segment"
)

// Names and texts of dead-letter records (KIP-1191), as Kafka 4.4 writes them.
const (
	letterTopic      = "__dlq.errors.topic"
	letterPartition  = "__dlq.errors.partition"
	letterOffset     = "__dlq.errors.offset"
	letterGroup      = "__dlq.errors.group"
	letterDeliveries = "__dlq.errors.delivery.count"
	letterMessage    = "__dlq.errors.message"

	letterRejected = "Offset rejected by client."
	letterLimit    = "Offset delivery count exceeded the threshold."
)

// letterEnabled is the topic configuration that lets share groups write to a topic.
const letterEnabled = "errors.deadletterqueue.group.enable"

const (
	letterBytes   = 512 << 10 // bytes of one append
	letterEffects = 100       // effects that are carried out in one go
	letterRoom    = 512       // bytes of a batch that are no record's, and of a record that are neither key, value nor headers
)

// letterJob copies what effects of one queue name to the group's dead-letter topic. It goes on step by step, outside the loops; the
// engine's answer to one append begins the next step.
//
// An effect is part of the queue's state until it is confirmed, so it is carried out at least once. What may have been tried
// before, in an earlier run or with an answer that was lost, is looked up in the dead-letter topic first: a record there
// that is not older than the effect is its work.
type letterJob struct {
	e              *Engine
	key            shard.QueueKey
	queue          *queue.Queue // another one may have the key when the job is done
	source, target *meta.Stream
	index, to      int32 // partitions of them
	copies         bool  // key and value
	tried          uint64
	effects        []queue.Effect
	next           int64              // offset of the first effect from which on there is something to do; -1: not begun
	there          map[int64]struct{} // offsets of the first effect that are there already
	done           []uint64
	finish         func(done []uint64, err error)
}

// letters has outstanding effects carried out, if nobody does so.
func (h *queueHost) letters(l *loop, hq *hostedQueue, q *queue.Queue) {
	effects := q.Effects()
	if l.term == 0 || len(effects) == 0 || h.jobs[hq.key] != nil || hq.lettersAt > l.now() {
		return
	}
	j := &letterJob{e: l.e, key: hq.key, queue: q, copies: hq.seen.CopyRecords, tried: h.tried[hq.key], next: -1,
		effects: slices.Clone(effects[:min(len(effects), letterEffects)])}
	h.jobs[hq.key] = j
	h.tried[hq.key] = max(j.tried, j.effects[len(j.effects)-1].ID)
	refused := j.address(hq.seen.DeadLetters)
	j.finish = func(done []uint64, err error) {
		l.post(message{call: func(l *loop) { l.queues.lettersDone(l, j, done, refused, err) }})
	}
	if refused != nil {
		for i := range j.effects {
			j.done = append(j.done, j.effects[i].ID)
		}
		j.finish(j.done, nil)
		return
	}
	l.e.aside(j.step)
}

// lettersDone confirms what was carried out, or what cannot be. The latter goes to the loss ledger.
func (h *queueHost) lettersDone(l *loop, j *letterJob, done []uint64, refused, failure error) {
	delete(h.jobs, j.key)
	hq, q, err := h.open(l, j.key)
	switch {
	case err != nil:
		return // the queue is gone, or another leader goes on
	case q != j.queue:
		h.letters(l, hq, q) // effects of the same numbers that are others
		return
	}
	if failure != nil {
		l.e.opts.Log.Warn("dead letters cannot be written; it is tried again", "group", j.key.Group.Group, "error", failure)
		hq.lettersAt = l.now() + tickAgain
	}
	if refused != nil {
		l.e.opts.Log.Warn("dead letters were dropped", "group", j.key.Group.Group, "error", refused)
		if losses := j.losses(); losses != nil {
			l.command(&shard.Command{Losses: losses}, func(*shard.Applied, error) {})
		}
	}
	if cmd := q.Confirm(l.now(), done); cmd != nil {
		h.journal(l, hq, q, cmd, func(error) {}) // when it is applied the next job begins
	} else {
		h.schedule(l, hq, q)
	}
}

// losses is what the ledger says of effects that cannot be carried out.
func (j *letterJob) losses() (out []shard.Loss) {
	if j.source == nil {
		return nil
	}
	for _, ef := range j.effects {
		out = append(out, shard.Loss{Namespace: j.key.Group.Namespace, Group: j.key.Group.Group, Stream: j.source.ID, Name: j.source.Name,
			Partition: j.index, From: ef.First, To: ef.Last + 1, Count: ef.Len(), Cause: shard.CauseDeadLetter})
	}
	return out
}

// address finds the two streams. The error says why nothing can be written, as things are configured.
func (j *letterJob) address(topic string) error {
	view := j.e.View()
	view.All(func(s *meta.Stream) bool {
		for i, p := range s.Partitions {
			if p.Log == j.key.Log {
				j.source, j.index = s, int32(i)
				return false
			}
		}
		return true
	})
	if j.source == nil {
		return base.Errorf(base.CodeUnknownStream, "the topic is being deleted")
	}
	t, ok := view.Stream(j.key.Group.Namespace, topic)
	enabled := func(m map[string]string) bool { return strings.EqualFold(strings.TrimSpace(m[letterEnabled]), "true") }
	switch prefix := *j.e.opts.DeadLetterPrefix; {
	case topic == "":
		return base.Errorf(base.CodeInvalidConfig, "the group has no dead-letter topic any more")
	case !strings.HasPrefix(topic, prefix):
		return base.Errorf(base.CodeInvalidConfig, "the name of dead-letter topic %s does not begin with %q", topic, prefix)
	case !ok || len(t.Partitions) == 0:
		return base.Errorf(base.CodeUnknownStream, "dead-letter topic %s does not exist: create it with %s=true", topic, letterEnabled)
	case t.Overrides[letterEnabled] == "" && !enabled(j.e.opts.TopicDefaults), t.Overrides[letterEnabled] != "" && !enabled(t.Overrides):
		return base.Errorf(base.CodeInvalidConfig, "topic %s takes no dead letters: set its configuration %s=true", topic, letterEnabled)
	}
	j.target, j.to = t, j.index%int32(len(t.Partitions))
	return nil
}

// step writes as much as goes into one append. It may wait for disks.
func (j *letterJob) step() {
	for len(j.effects) > 0 {
		ef := &j.effects[0]
		if j.next < 0 {
			if err := j.begin(ef); err != nil {
				j.finish(j.done, err)
				return
			}
		}
		data, next, err := j.batch(ef)
		if err != nil {
			j.finish(j.done, err)
			return
		}
		if data != nil {
			j.write(data, func() { j.advance(next); j.step() })
			return
		}
		j.advance(next)
	}
	j.finish(j.done, nil)
}

// advance notes that the first effect is carried out up to an offset.
func (j *letterJob) advance(next int64) {
	if j.next = next; next > j.effects[0].Last {
		j.done = append(j.done, j.effects[0].ID)
		j.effects, j.next = j.effects[1:], -1
	}
}

// write appends a batch and goes on when it is committed.
func (j *letterJob) write(data []byte, then func()) {
	info, err := recordbatch.ParseHeader(data)
	if err != nil {
		j.finish(j.done, err)
		return
	}
	p := j.target.Partitions[j.to]
	a := &Append{Items: []AppendItem{{Log: p.Log, Shard: p.Shard, Data: data, Batches: []recordbatch.Info{info}}}}
	a.Done = func(a *Append) {
		if err := a.Items[0].Err; err != nil {
			j.finish(j.done, err)
			return
		}
		j.e.aside(then)
	}
	j.e.Append(a)
}

// begin finds out what of an effect is there already.
func (j *letterJob) begin(ef *queue.Effect) error {
	j.next, j.there = ef.First, nil
	if ef.ID > j.tried {
		return nil
	}
	log := j.target.Partitions[j.to].Log
	from, _, _, err := j.e.OffsetForTime(context.Background(), log, ef.Time)
	st, ok := j.e.State(log)
	if err != nil || !ok || from < 0 {
		return err
	}
	j.there = map[int64]struct{}{}
	where := j.where()
	r := &lagReader{store: j.e.store, log: log}
	defer r.close()
	return r.headers(context.Background(), from, st.HighWatermark, func(f *segment.File, pos int64, h *recordbatch.Info) (bool, error) {
		if !r.counts(h) || h.MaxTimestamp < ef.Time {
			return true, nil
		}
		return true, r.records(f, pos, h, func(rec *recordbatch.Record) bool {
			offset, ok := letterAt(rec)
			if ok && bytes.HasPrefix(rec.RawHeaders, where) && rec.Timestamp >= ef.Time && j.isGroup(rec) {
				j.there[offset] = struct{}{}
			}
			return true
		})
	})
}

// where is the headers that all letters of the queue begin with.
func (j *letterJob) where() []byte {
	b := recordbatch.AppendHeader(nil, letterTopic, []byte(j.source.Name))
	return recordbatch.AppendHeader(b, letterPartition, []byte(strconv.Itoa(int(j.index))))
}

// letterAt is the offset that a letter is about.
func letterAt(rec *recordbatch.Record) (offset int64, ok bool) {
	for name, value := range rec.All() {
		if string(name) == letterOffset {
			at, err := strconv.ParseInt(string(value), 10, 64)
			return at, err == nil
		}
	}
	return 0, false
}

func (j *letterJob) isGroup(rec *recordbatch.Record) bool {
	for name, value := range rec.All() {
		if string(name) == letterGroup {
			return string(value) == j.key.Group.Group
		}
	}
	return false
}

// batch makes the next batch of an effect, as large as is allowed, and says where it ends; nil if all is there up to next.
func (j *letterJob) batch(ef *queue.Effect) (data []byte, next int64, err error) {
	most := min(letterBytes, j.target.Config.MaxMessageBytes) - letterRoom
	now := max(j.e.opts.Clock.Now().UnixMilli(), ef.Time)
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, 0, 0)
	next = j.next
	size := 0
	// add takes the next offset, with what is left of its record; false: it has to wait for the next batch.
	add := func(original *recordbatch.Record) bool {
		if _, ok := j.there[next]; ok {
			next++
			return true
		}
		rec := recordbatch.Record{OffsetDelta: int32(b.Len()), Timestamp: now, Headers: 6}
		rec.RawHeaders = j.headers(ef, next)
		own := len(rec.RawHeaders) + letterRoom
		if original != nil && own+len(original.Key)+len(original.Value) <= most {
			rec.Key, rec.Value = slices.Clone(original.Key), slices.Clone(original.Value)
			own += len(rec.Key) + len(rec.Value)
		}
		if b.Len() > 0 && size+own > most {
			return false
		}
		b.Add(&rec)
		size += own
		next++
		return true
	}
	full := false
	if j.copies {
		if full, err = j.originals(ef, &next, add); err != nil {
			return nil, next, err
		}
	}
	for !full && next <= ef.Last && add(nil) {
	}
	if b.Len() == 0 {
		return nil, next, nil
	}
	data, err = b.AppendTo(nil)
	return data, next, err
}

// originals reads the records from next on and adds them, and what is missing before each. full: the batch is.
func (j *letterJob) originals(ef *queue.Effect, next *int64, add func(*recordbatch.Record) bool) (full bool, err error) {
	log := j.key.Log
	st, ok := j.e.State(log)
	if !ok {
		return false, nil
	}
	r := &lagReader{store: j.e.store, log: log}
	defer r.close()
	from := max(*next, st.Start)
	if from > ef.Last {
		return false, nil
	}
	err = r.headers(context.Background(), from, min(ef.Last+1, st.HighWatermark), func(f *segment.File, pos int64, h *recordbatch.Info) (bool, error) {
		if !r.counts(h) {
			return true, nil
		}
		err := r.records(f, pos, h, func(rec *recordbatch.Record) bool {
			if rec.Offset < *next || rec.Offset > ef.Last {
				return true
			}
			for !full && *next < rec.Offset {
				full = !add(nil)
			}
			full = full || !add(rec)
			return !full
		})
		return !full, err
	})
	return full, err
}

// headers are those of the letter about one record.
func (j *letterJob) headers(ef *queue.Effect, offset int64) []byte {
	message := letterRejected
	if ef.Cause == queue.CauseLimit {
		message = letterLimit
	}
	b := recordbatch.AppendHeader(j.where(), letterOffset, []byte(strconv.FormatInt(offset, 10)))
	b = recordbatch.AppendHeader(b, letterGroup, []byte(j.key.Group.Group))
	b = recordbatch.AppendHeader(b, letterDeliveries, fmt.Append(nil, ef.Deliveries))
	return recordbatch.AppendHeader(b, letterMessage, []byte(message))
}

// heldBack is the lowest offset of a log that dead letters still have to be copied from; the largest there is, if none has.
func heldBack(m *shard.Machine, log base.LogID) int64 {
	at := int64(math.MaxInt64)
	m.QueuesOf(log, func(_ shard.QueueKey, q *queue.Queue) {
		for _, ef := range q.Effects() {
			at = min(at, ef.First)
		}
	})
	return at
}

// holdBack lowers what retention wants to trim to what dead letters do not need any more.
func (e *Engine) holdBack(ctx context.Context, plans []trimPlan) ([]trimPlan, error) {
	for i := range plans {
		p := &plans[i]
		part := p.stream.Partitions[p.partition]
		err := e.Call(ctx, part.Shard, func(m *shard.Machine) { p.start = min(p.start, heldBack(m, part.Log)) })
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(plans, func(p trimPlan) bool {
		st, ok := e.State(p.stream.Partitions[p.partition].Log)
		return !ok || p.start <= st.Start
	}), nil
}
