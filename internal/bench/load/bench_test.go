package load

import (
	"context"
	"testing"

	"godwit/internal/bench/driver"
)

// noop is a driver that does nothing: everything is done at once.
type noop struct{ done func(uint64, error) }

func (n *noop) Send(_ context.Context, m driver.Message) error {
	n.done(m.Tag, nil)
	return nil
}
func (n *noop) Flush(context.Context) error { return nil }
func (n *noop) Close() error                { return nil }

// echo is a driver whose messages arrive at once, and are then done.
type echo struct {
	noop
	handle func(driver.Delivery) bool
}

func (e *echo) Send(ctx context.Context, m driver.Message) error {
	e.handle(driver.Delivery{Payload: m.Payload})
	return e.noop.Send(ctx, m)
}

// pipe is a driver whose messages are done by another goroutine, in batches.
type pipe struct {
	done  func(uint64, error)
	tags  []uint64
	ready chan []uint64
	empty chan []uint64
}

func newPipe(done func(uint64, error)) *pipe {
	p := &pipe{done: done, ready: make(chan []uint64, 16), empty: make(chan []uint64, 16)}
	go func() {
		for tags := range p.ready {
			for _, t := range tags {
				p.done(t, nil)
			}
			p.empty <- tags[:0]
		}
	}()
	return p
}

func (p *pipe) Send(ctx context.Context, m driver.Message) error {
	if p.tags = append(p.tags, m.Tag); len(p.tags) < 500 {
		return nil
	}
	return p.Flush(ctx)
}

func (p *pipe) Flush(context.Context) error {
	p.ready <- p.tags
	select {
	case p.tags = <-p.empty:
	default:
		p.tags = nil
	}
	return nil
}

func (p *pipe) Close() error { close(p.ready); return nil }

func BenchmarkSend(b *testing.B) {
	for _, bc := range []struct {
		name      string
		producers int
		rate      float64
		make      func(*Session, func(uint64, error)) driver.Producer
	}{
		{"closed", 2, 0, func(_ *Session, done func(uint64, error)) driver.Producer { return &noop{done} }},
		{"closed-1", 1, 0, func(_ *Session, done func(uint64, error)) driver.Producer { return &noop{done} }},
		{"pipe", 1, 0, func(_ *Session, done func(uint64, error)) driver.Producer { return newPipe(done) }},
		{"open", 2, 1e12, func(_ *Session, done func(uint64, error)) driver.Producer { return &noop{done} }},
		{"delivered", 2, 0, func(s *Session, done func(uint64, error)) driver.Producer {
			return &echo{noop{done}, s.Subscription("s").Handler()}
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			s := NewSession(Options{Run: 1, Keys: 16, Destinations: 4, Size: 100, InFlight: 10_000, Seed: 1})
			for range bc.producers {
				err := s.AddProducer(b.Context(), func(o driver.ProducerOptions) (driver.Producer, error) { return bc.make(s, o.Done), nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			sent, err := s.Send(b.Context(), Phase{ID: 1, Rate: bc.rate, Poisson: true, Messages: int64(b.N), Record: true})
			if err != nil || sent.Acked != int64(b.N) {
				b.Fatal(sent, err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
