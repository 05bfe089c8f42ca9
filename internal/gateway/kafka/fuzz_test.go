package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// panics is a log that fails the test when a handler panics.
type panics struct {
	slog.Handler
	t *testing.T
}

func (p panics) Enabled(context.Context, slog.Level) bool { return true }

func (p panics) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += "\n" + a.String(); return true })
		p.t.Error(text)
	}
	return nil
}

// FuzzRequest sends bytes to a connection and goes away: the connection must end, without a panic and without
// keeping memory.
func FuzzRequest(f *testing.F) {
	for _, a := range listAPIs() {
		for _, version := range []int16{a.min, (a.min + a.max) / 2, a.max} {
			req := a.key.Request()
			req.SetVersion(version)
			f.Add(frameOf(int32(a.key), req))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMemLogs()
		stand := newFetchStand(t, func(o *Options) {
			o.Backend, o.Log = m, slog.New(panics{t: t})
			// A request that says it is large must not make the run slow.
			o.MaxRequestBytes, o.MaxControlBytes = 1<<20, 1<<20
		})
		stand.m = m
		st := stand.topic("t", 2)
		m.put(st.Partitions[0].Log, batchOf(3, 10))
		stand.talk(t, b)
	})
}

// talk sends bytes to a connection of the server and waits for its end.
func (f *fetchStand) talk(t *testing.T, b []byte) {
	ours, theirs := net.Pipe()
	f.s.start(theirs)
	go io.Copy(io.Discard, ours)
	ours.SetWriteDeadline(time.Now().Add(10 * time.Second))
	ours.Write(b)
	ours.Close()
	done := make(chan struct{})
	go func() {
		f.s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the connection did not end")
	}
	if n := f.s.inFlight(); n != 0 {
		t.Errorf("%d bytes are in flight after the end", n)
	}
}

// FuzzBody lets any bytes be the body of any request, behind a header that fits, so that the fuzzer need not find
// headers.
func FuzzBody(f *testing.F) {
	for _, a := range listAPIs() {
		for version := a.min; version <= a.max; version++ {
			req := a.key.Request()
			req.SetVersion(version)
			f.Add(int16(a.key), version, req.AppendTo(nil))
		}
	}
	f.Add(int16(kmsg.Fetch), int16(12), fetchBody(12))
	f.Add(int16(kmsg.Fetch), int16(4), fetchBody(4))
	f.Add(int16(kmsg.Produce), int16(9), func() []byte {
		req := produceOf("t", 0, -1, batchOf(2, 5))
		req.Version = 9
		return req.AppendTo(nil)
	}())
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		m := newMemLogs()
		stand := newFetchStand(t, func(o *Options) { o.Backend, o.Log = m, slog.New(panics{t: t}) })
		stand.m = m
		st := stand.topic("t", 2)
		m.put(st.Partitions[0].Log, batchOf(3, 10))
		a := stand.s.apis.find(key)
		if a == nil || version < a.min || version > a.max {
			return
		}
		head := []byte{0, 0, 0, 0, byte(key >> 8), byte(key), byte(version >> 8), byte(version), 0, 0, 0, 1, 0xff, 0xff}
		if flexible(a.key, version) {
			head = append(head, 0)
		}
		b := append(head, body...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		stand.talk(t, b)
	})
}

func fetchBody(version int16) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.Version = version
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "t"
	t.Partitions = append(t.Partitions, want(0, 0), want(1, 0))
	req.Topics = append(req.Topics, t)
	return req.AppendTo(nil)
}
