package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/vfs"
)

// real is a server over a real broker on a real disk.
type real struct {
	t    testing.TB
	e    *engine.Engine
	b    *broker.Broker
	s    *Server
	addr string
}

// logTo writes the server's log to the test's.
type logTo struct{ t testing.TB }

func (l logTo) Write(b []byte) (int, error) {
	l.t.Log(string(b))
	return len(b), nil
}

// startReal starts a broker and serves it. change may change the options.
func startReal(t testing.TB, change func(*Options)) *real {
	t.Helper()
	limits := meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}
	e, err := engine.Open(engine.Options{FS: vfs.Default, Dir: t.TempDir(), Rand: rand.New(rand.NewPCG(1, 2)), Shards: 4, FileSize: 64 << 20, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, e: e, b: broker.New(e, broker.Options{Node: 1, Limits: limits})}
	o := Options{Backend: Broker(r.b), Log: slog.New(slog.NewTextHandler(logTo{t}, nil))}
	if change != nil {
		change(&o)
	}
	r.s = New(o)
	r.addr = serve(t, r.s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.s.Close(ctx); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return r
}

// serve lets a server listen on a free port.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(context.Background(), ln)
	return ln.Addr().String()
}

// peer is a client that sees every byte.
type peer struct {
	t    testing.TB
	nc   net.Conn
	next int32
}

func dial(t testing.TB, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	return &peer{t: t, nc: nc}
}

// frameOf encodes a request with its length.
func frameOf(id int32, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("peer")).AppendRequest(nil, req, id)
}

// write sends a request and returns its correlation ID.
func (p *peer) write(version int16, req kmsg.Request) int32 {
	p.t.Helper()
	req.SetVersion(version)
	p.next++
	if _, err := p.nc.Write(frameOf(p.next, req)); err != nil {
		p.t.Fatal(err)
	}
	return p.next
}

// read reads the response of a request.
func (p *peer) read(id int32, req kmsg.Request) kmsg.Response {
	p.t.Helper()
	b := p.readFrame()
	if got := int32(binary.BigEndian.Uint32(b)); got != id {
		p.t.Fatalf("the response is for request %d, want %d", got, id)
	}
	b = b[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		p.t.Fatalf("%T version %d: %v", resp, resp.GetVersion(), err)
	}
	return resp
}

func (p *peer) readFrame() []byte {
	p.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(p.nc, size[:]); err != nil {
		p.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p.nc, b); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// call sends a request and waits for its response.
func call[R kmsg.Response](p *peer, version int16, req kmsg.Request) R {
	p.t.Helper()
	return p.read(p.write(version, req), req).(R)
}
