// Package http serves what operators and monitors ask a node: metrics, health, and the loss ledger.
package http

import (
	"context"
	"encoding/json"
	"errors"
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
	Pprof   bool                                   // serve /debug/pprof
	Log     *slog.Logger
}

// Entry is one entry of the loss ledger, ready to be encoded as JSON.
type Entry = any

// Server answers HTTP requests.
type Server struct {
	http http.Server
	opts Options
}

// maxHeader bounds a request's header, bytes. No request here has a body.
const maxHeader = 16 << 10

// New makes a server.
func New(o Options) *Server {
	s := &Server{opts: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /losses", s.losses)
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	s.http = http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, WriteTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	return s
}

// Serve answers on the listener until Close.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends it; requests under way are answered while ctx lasts.
func (s *Server) Close(ctx context.Context) error { return s.http.Shutdown(ctx) }

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("godwit\n\n/metrics  Prometheus metrics\n/healthz  200 while the process lives\n/readyz   200 while it serves and writes, else 503 with the reason\n/losses   the loss ledger, JSON: what groups will not see\n"))
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.opts.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ready\n"))
}

func (s *Server) losses(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	ls, err := s.opts.Losses(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if ls == nil {
		ls = []Entry{}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(ls)
}
