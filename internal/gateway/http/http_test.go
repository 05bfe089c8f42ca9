package http

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// stand is a server on loopback whose broker is made of the fields.
type stand struct {
	*Server
	addr   string
	served chan error

	mu     sync.Mutex
	ready  error
	losses func(context.Context) ([]Entry, error)
}

func newStand(t *testing.T, o Options) *stand {
	t.Helper()
	st := &stand{served: make(chan error, 1), losses: func(context.Context) ([]Entry, error) { return nil, nil }}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "godwit_answer", Help: "x"}, func() float64 { return 42 }))
	if o.Metrics == nil {
		o.Metrics = registry
	}
	o.Ready = func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.ready
	}
	o.Losses = func(ctx context.Context) ([]Entry, error) {
		st.mu.Lock()
		fn := st.losses
		st.mu.Unlock()
		return fn(ctx)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	st.Server = New(o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	st.addr = ln.Addr().String()
	go func() { st.served <- st.Serve(ln) }()
	t.Cleanup(func() { st.Close(context.Background()) })
	return st
}

func (st *stand) set(ready error, losses func(context.Context) ([]Entry, error)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ready, st.losses = ready, losses
}

// ask sends one request and returns status, body and content type.
func (st *stand) ask(t *testing.T, method, path string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+st.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header.Get("Content-Type")
}

func TestPaths(t *testing.T) {
	st := newStand(t, Options{})
	type loss struct {
		Group string `json:"group"`
	}
	some := func(context.Context) ([]Entry, error) { return []Entry{loss{"g"}, loss{"h"}}, nil }
	none := func(context.Context) ([]Entry, error) { return nil, nil }
	fails := func(context.Context) ([]Entry, error) { return nil, errors.New("the shard does not answer") }
	for _, tc := range []struct {
		ready  error
		losses func(context.Context) ([]Entry, error)
		method string
		path   string
		status int
		body   string
		kind   string
	}{
		{nil, none, "GET", "/", 200, "/metrics  Prometheus metrics", "text/plain"},
		{nil, none, "GET", "/healthz", 200, "ok\n", "text/plain"},
		{nil, none, "HEAD", "/healthz", 200, "", "text/plain"},
		{nil, none, "GET", "/readyz", 200, "ready\n", "text/plain"},
		{errors.New("the disk is full"), none, "GET", "/readyz", 503, "the disk is full\n", "text/plain"},
		{errors.New("the disk is full"), none, "GET", "/healthz", 200, "ok\n", "text/plain"},
		{nil, none, "GET", "/losses", 200, "[]\n", "application/json"},
		{nil, some, "GET", "/losses", 200, "[{\"group\":\"g\"},{\"group\":\"h\"}]\n", "application/json"},
		{nil, fails, "GET", "/losses", 503, "the shard does not answer\n", "text/plain"},
		{nil, none, "GET", "/metrics", 200, "\ngodwit_answer 42\n", "text/plain"},
		{nil, none, "GET", "/no/such", 404, "", ""},
		{nil, none, "POST", "/healthz", 405, "", ""},
		{nil, none, "DELETE", "/", 405, "", ""},
		{nil, none, "GET", "/debug/pprof/", 404, "", ""},
	} {
		st.set(tc.ready, tc.losses)
		status, body, kind := st.ask(t, tc.method, tc.path)
		if status != tc.status || !strings.Contains(body, tc.body) || !strings.HasPrefix(kind, tc.kind) {
			t.Errorf("%s %s: %d, %q, %q", tc.method, tc.path, status, kind, body)
		}
	}
}

func TestPprof(t *testing.T) {
	st := newStand(t, Options{Pprof: true})
	for path, want := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/symbol": 200, "/debug/pprof/cmdline": 404} {
		if status, body, _ := st.ask(t, "GET", path); status != want {
			t.Errorf("%s: %d, %.100q", path, status, body)
		}
	}
	if _, body, _ := st.ask(t, "GET", "/"); !strings.Contains(body, "/debug/pprof/") {
		t.Errorf("the index is %q", body)
	}
}

// gatherer fails for a part of the metrics.
type gatherer struct{ prometheus.Gatherer }

func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	families, _ := g.Gatherer.Gather()
	return families, errors.New("a collector failed")
}

// TestMetricsInPart serves what there is, and logs what failed.
func TestMetricsInPart(t *testing.T) {
	registry := prometheus.NewRegistry()
	total := prometheus.NewCounter(prometheus.CounterOpts{Name: "godwit_test_total", Help: "x"})
	total.Inc()
	registry.MustRegister(total)
	var log bytes.Buffer
	st := newStand(t, Options{Metrics: gatherer{registry}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if status, body, _ := st.ask(t, "GET", "/metrics"); status != 200 || !strings.Contains(body, "godwit_test_total 1") {
		t.Errorf("%d, %q", status, body)
	}
	if !strings.Contains(log.String(), "a collector failed") {
		t.Errorf("logged %q", log.String())
	}
}

// TestLimits sends what no client should.
func TestLimits(t *testing.T) {
	st := newStand(t, Options{})
	for name, tc := range map[string]struct{ request, status string }{
		"a long header":  {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", "431"},
		"many headers":   {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", maxHeader/2) + "\r\n", "431"},
		"no host":        {"GET / HTTP/1.1\r\n\r\n", "400"},
		"another target": {"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "307"},
		"not HTTP":       {"\x16\x03\x01\x00\x00\r\n\r\n", "400"},
	} {
		c, err := net.Dial("tcp", st.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, tc.request) // the server may hang up in the middle
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, tc.status) {
			t.Errorf("%s: %q, %v; want %s", name, line, err, tc.status)
		}
	}
	if s := &st.http; s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 {
		t.Errorf("a time-out is missing: %+v", s)
	}
}

// TestClose answers what is under way, and cuts off what takes too long.
func TestClose(t *testing.T) {
	for _, patient := range []bool{true, false} {
		st := newStand(t, Options{})
		begun, end := make(chan struct{}), make(chan struct{})
		st.set(nil, func(ctx context.Context) ([]Entry, error) {
			close(begun)
			select {
			case <-end:
				return []Entry{"answered"}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		answer := make(chan string, 1)
		go func() {
			resp, err := http.Get("http://" + st.addr + "/losses")
			if err != nil {
				answer <- "cut off"
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			answer <- string(body)
		}()
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		closed := make(chan error, 1)
		want := "[\"answered\"]\n"
		if !patient {
			cancel()
			want = "cut off"
		}
		go func() { closed <- st.Close(ctx) }()
		if err := <-st.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if patient {
			close(end)
		}
		if got := <-answer; got != want {
			t.Errorf("patient %v: answered %q, want %q", patient, got, want)
		}
		if err := <-closed; (err == nil) != patient {
			t.Errorf("patient %v: Close: %v", patient, err)
		}
		cancel()
		if _, err := net.Dial("tcp", st.addr); err == nil {
			t.Error("it still listens")
		}
	}
}

func TestServeTellsWhy(t *testing.T) {
	st := newStand(t, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := st.Serve(ln); err == nil {
		t.Error("a closed listener serves")
	}
}
