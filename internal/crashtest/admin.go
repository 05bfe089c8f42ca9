package crashtest

import (
	"context"
	"fmt"

	"godwit/internal/meta"
)

// createStream makes a stream: every other one with retention, the rest compacted by key.
func (w *world) createStream(ctx context.Context, partitions int) error {
	if len(w.streams) >= 4 {
		return nil
	}
	w.next++
	s := &stream{name: fmt.Sprintf("s%d", w.next), id: w.e.NewID()}
	w.streams = append(w.streams, s)
	overrides := map[string]string{"retention.ms": "600000"}
	if s.compacted = w.next%2 == 0; s.compacted {
		overrides = map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
	}
	req := &meta.CreateStream{Namespace: "default", Name: s.name, Partitions: partitions, Replicas: 1,
		Overrides: overrides}
	_, err := w.e.DecideMeta(ctx, func(st *meta.State, now int64) (*meta.Command, error) {
		return st.DecideCreate(req, s.id, now, w.options().Limits)
	})
	if err == nil {
		err = w.e.AwaitView(ctx, func(v *meta.View) bool {
			st, ok := v.StreamByID(s.id)
			return ok && st.Ready == len(st.Partitions)
		})
	}
	if err != nil || w.dead.Load() {
		return w.tolerate(err)
	}
	s.created = true
	st, _ := w.e.View().StreamByID(s.id)
	return w.adopt(s, st)
}

func (w *world) dropStream(ctx context.Context, a int) error {
	if len(w.streams) == 0 {
		return nil
	}
	s := w.streams[a%len(w.streams)]
	if !s.created || s.doomed {
		return nil
	}
	s.doomed = true
	_, err := w.e.DecideMeta(ctx, func(st *meta.State, _ int64) (*meta.Command, error) { return st.DecideDelete(s.id) })
	if err == nil && !w.dead.Load() {
		s.deleted = true
	}
	return w.tolerate(err)
}

// deleteRecords asks for a share of a log to go.
func (w *world) deleteRecords(ctx context.Context, a, b int) error {
	logs := w.logs()
	if len(logs) == 0 {
		return nil
	}
	m := logs[a%len(logs)]
	st, ok := w.e.State(m.id)
	if !ok {
		return nil
	}
	before := st.Start + (st.HighWatermark-st.Start)*int64(b%101)/100
	for _, s := range w.streams {
		for i, l := range s.logs {
			if l != m {
				continue
			}
			ms, ok := w.e.View().StreamByID(s.id)
			if !ok {
				return nil
			}
			m.trimmed = max(m.trimmed, before)
			start, err := w.e.DeleteRecords(ctx, ms, int32(i), before)
			if err == nil && !w.dead.Load() {
				m.start = max(m.start, start)
			}
			return w.tolerate(err)
		}
	}
	return nil
}

// expectRetention allows retention to take everything that is old enough: all that is there, at most.
func (w *world) expectRetention() {
	for _, m := range w.logs() {
		if st, ok := w.e.State(m.id); ok {
			m.trimmed = max(m.trimmed, st.HighWatermark)
		}
	}
}
