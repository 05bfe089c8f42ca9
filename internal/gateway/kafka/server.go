package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"godwit/internal/base"
	"godwit/internal/gateway/intake"
	"godwit/internal/gateway/kafka/sharesession"
)

// Server serves the Kafka protocol on any number of listeners.
type Server struct {
	opts     Options
	backend  Backend
	log      *slog.Logger
	complain rate // of connections that misbehave
	metrics  *metrics
	apis     apiTable
	produces *intake.Budget // for produce requests
	controls *intake.Budget // for all others
	buffers  intake.Pool
	sessions *sessions

	shareSessions *sharesession.Sessions

	altering sync.Mutex // a change of a list of configurations: it is read first

	ctx  context.Context // of all handlers
	stop context.CancelCauseFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	closed    bool
	running   sync.WaitGroup // connections
}

// errShutdown is why handlers end when the server closes.
var errShutdown = base.Errorf(base.CodeShutdown, "the broker is stopping")

// New makes a server. It serves once Serve is called.
func New(o Options) *Server {
	o.fill()
	control := o.controlShare()
	s := &Server{opts: o, backend: o.Backend, log: o.Log, produces: intake.NewBudget(o.MaxInFlightBytes - control), controls: intake.NewBudget(control),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}}
	s.metrics = newMetrics(o.Metrics, s)
	s.sessions = newSessions(o.FetchSessions, o.Metrics)
	s.shareSessions = sharesession.New(o.ShareSessions)
	s.apis = newAPITable(listAPIs(), s.metrics)
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

// inFlight is the size of all requests that are not answered.
func (s *Server) inFlight() int64 { return s.produces.Used() + s.controls.Used() }

// acceptRetry is how long accepting pauses when the system refuses, as it does when files run out.
const acceptRetry = 100 * time.Millisecond

// Serve accepts connections until ctx ends or the server closes, and returns nil then. It closes the listener; its
// connections live on until Close.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !s.listen(ln) {
		ln.Close()
		return errShutdown
	}
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			s.start(nc)
			continue
		case errors.Is(err, net.ErrClosed):
			s.mu.Lock()
			delete(s.listeners, ln)
			s.mu.Unlock()
			return nil
		}
		s.log.Warn("a connection was not accepted", "error", err)
		select {
		case <-time.After(acceptRetry):
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
}

func (s *Server) listen(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[ln] = struct{}{}
	return true
}

// start begins a connection, or closes it if there are too many.
func (s *Server) start(nc net.Conn) {
	s.mu.Lock()
	if s.closed || len(s.conns) >= s.opts.MaxConnections {
		full := !s.closed
		s.mu.Unlock()
		nc.Close()
		if full {
			s.metrics.rejected.Inc()
			s.complain.warn(s.log, "a connection was refused: the limit is reached", "limit", s.opts.MaxConnections, "remote", nc.RemoteAddr())
		}
		return
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	s.metrics.accepted.Inc()
	s.metrics.connections.Inc()
	go c.read()
	go func() {
		defer s.forget(c)
		c.work()
	}()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.connections.Dec()
	s.running.Done()
}

// cutWait is how long Close waits for connections that it has cut.
const cutWait = time.Second

// Close stops accepting, ends what waits, answers what was received and closes all connections. When ctx ends it
// cuts those that are left, and returns why ctx ended.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for ln := range s.listeners {
		ln.Close()
	}
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	s.stop(errShutdown)
	for _, c := range conns {
		c.finish(endedShutdown, errShutdown)
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range conns {
		c.nc.Close()
	}
	select {
	case <-done:
	case <-time.After(cutWait): // the disk may hang
	}
	return context.Cause(ctx)
}

// rate lets one log line a second through, and counts the others.
type rate struct {
	mu      sync.Mutex
	next    time.Time
	dropped int
}

func (r *rate) warn(log *slog.Logger, msg string, args ...any) {
	r.mu.Lock()
	now := time.Now()
	if now.Before(r.next) {
		r.dropped++
		r.mu.Unlock()
		return
	}
	dropped := r.dropped
	r.next, r.dropped = now.Add(time.Second), 0
	r.mu.Unlock()
	if dropped > 0 {
		args = append(args, "not_logged_before", dropped)
	}
	log.Warn(msg, args...)
}
