package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

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
