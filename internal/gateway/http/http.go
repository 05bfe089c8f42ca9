// Package http serves what operators and monitors ask a node: metrics, health, the loss ledger, and how far groups are behind.
package http

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options of a server.
type Options struct {
	Metrics prometheus.Gatherer
	Ready   func() error                           // nil: ready; else the reason why not
	Losses  func(context.Context) ([]Entry, error) // the loss ledger
	Groups  Groups
	Cluster string // ID
	Pprof   bool   // serve /debug/pprof
	Log     *slog.Logger
}

// Entry is one entry of the loss ledger, ready to be encoded as JSON.
type Entry = any

// Server answers HTTP requests.
type Server struct {
	http http.Server
	opts Options
}

// The limits of one connection and of all.
const (
	maxHeader  = 16 << 10         // of a request, bytes; bodies are never read
	maxScrapes = 4                // of metrics at a time: each walks all counters
	readTime   = 10 * time.Second // for a request to arrive
	idleTime   = 2 * time.Minute  // between requests
	writeTime  = 2 * time.Minute  // for an answer to be taken, a profile included
	ledgerTime = 30 * time.Second // for the broker to list the loss ledger
)

// New makes a server.
func New(o Options) *Server {
	s := &Server{opts: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /losses", s.losses)
	mux.HandleFunc("GET /v1/groups", s.groups)
	mux.HandleFunc("GET /v1/groups/{name}", s.group)
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound) // arguments are nobody's business
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	}
	s.http = http.Server{
		Handler: mux, ReadHeaderTimeout: readTime, ReadTimeout: readTime, IdleTimeout: idleTime, WriteTimeout: writeTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// text answers with plain text that is true now only.
func text(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	io.WriteString(w, body)
}

// Serve answers on the listener until Close.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends it; requests under way are answered while ctx lasts, then cut off.
func (s *Server) Close(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	body := "godwit\n\n/metrics  Prometheus metrics\n/healthz  200 while the process lives\n" +
		"/readyz   200 while it serves and writes, else 503 with the reason\n/losses   the loss ledger, JSON: what groups will not see\n" +
		"/v1/groups  consumer groups and how far they are behind, JSON; /v1/groups/NAME one with its members and partitions\n"
	if s.opts.Pprof {
		body += "/debug/pprof/  profiles\n"
	}
	text(w, body)
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := s.opts.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	text(w, "ready\n")
}

func (s *Server) losses(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTime)
	defer cancel()
	ls, err := s.opts.Losses(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if ls == nil {
		ls = []Entry{}
	}
	s.json(w, ls)
}
