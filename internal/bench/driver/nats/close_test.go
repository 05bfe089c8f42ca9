package nats

import (
	"bufio"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// deafServer greets clients and then reads nothing more.
func deafServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			// A client that fails here tells the test.
			_, _ = c.Write([]byte(`INFO {"server_id":"deaf","version":"2.0.0","max_payload":1048576}` + "\r\n"))
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "PING") {
					_, _ = c.Write([]byte("PONG\r\n"))
					break
				}
			}
		}
	}()
	return l.Addr().String()
}

func TestClosingDoesNotWaitForAServerThatDoesNotRead(t *testing.T) {
	l, err := connect(t.Context(), options(t, "nats://"+deafServer(t)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for payload := make([]byte, 64<<10); l.Publish("x", payload) == nil; {
			written.Add(1)
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for before := int64(-1); before != written.Load(); <-tick.C {
		before = written.Load()
	}
	begin := time.Now()
	l.close()
	<-ended
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("closing took %v", took)
	}
}
