package vfs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair is two ends of a connection on loopback.
func pair(t testing.TB, network, address string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	check(t, err)
	defer l.Close()
	client, err = net.Dial(network, l.Addr().String())
	check(t, err)
	server, err = l.Accept()
	check(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// connections lists what SendFile writes to: TCP and Unix sockets by sendfile, a pipe by copying.
func connections(t *testing.T) map[string]func() (client, server net.Conn) {
	return map[string]func() (client, server net.Conn){
		"tcp":  func() (net.Conn, net.Conn) { return pair(t, "tcp", "127.0.0.1:0") },
		"unix": func() (net.Conn, net.Conn) { return pair(t, "unix", t.TempDir()+"/s") },
		"pipe": func() (net.Conn, net.Conn) { return net.Pipe() },
	}
}

// fileOf makes a file of n random bytes.
func fileOf(t testing.TB, fsys FS, name string, n int) (File, []byte) {
	t.Helper()
	data := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return create(t, fsys, name, string(data)), data
}

func TestSendFile(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		f, data := fileOf(t, fsys, fsys.PathJoin(dir, "f"), 3<<20)
		defer f.Close()
		for name, connect := range connections(t) {
			client, server := connect()
			var got bytes.Buffer
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(&got, client)
				done <- err
			}()
			for _, part := range [][2]int64{{0, 1}, {5, 0}, {1 << 20, 2 << 20}, {100, 200}} {
				if n, err := SendFile(server, f, part[0], part[1]); n != part[1] || err != nil {
					t.Fatalf("%s: %v: sent %d, %v", name, part, n, err)
				}
			}
			server.Close()
			check(t, <-done)
			want := string(data[:1]) + string(data[1<<20:]) + string(data[100:300])
			if got.String() != want {
				t.Fatalf("%s: %d bytes arrived, want %d, or they differ", name, got.Len(), len(want))
			}
		}
	})
}

// TestSendFileShared has many connections read one handle at different offsets: none may move another's position.
func TestSendFileShared(t *testing.T) {
	f, data := fileOf(t, Default, t.TempDir()+"/f", 4<<20)
	defer f.Close()
	var wg sync.WaitGroup
	for k := range 8 {
		client, server := pair(t, "tcp", "127.0.0.1:0")
		off, n := int64(k*300_000), int64(1<<20)
		wg.Go(func() {
			if sent, err := SendFile(server, f, off, n); sent != n || err != nil {
				t.Errorf("sent %d, %v", sent, err)
			}
			server.Close()
		})
		wg.Go(func() {
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, data[off:off+n]) {
				t.Errorf("%d bytes from %d on arrived, %v, or they differ", len(got), off, err)
			}
		})
	}
	wg.Wait()
}

func TestSendFileShort(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		f, _ := fileOf(t, fsys, fsys.PathJoin(dir, "f"), 1000)
		defer f.Close()
		for name, connect := range connections(t) {
			client, server := connect()
			go func() { _, _ = io.Copy(io.Discard, client) }()
			n, err := SendFile(server, f, 400, 601)
			if !errors.Is(err, io.ErrUnexpectedEOF) || n > 600 || !strings.Contains(err.Error(), "ends at 1000") {
				t.Fatalf("%s: %d, %v", name, n, err)
			}
		}
	})
}

// TestSendFileDeadline sends to a peer that does not read.
func TestSendFileDeadline(t *testing.T) {
	f, _ := fileOf(t, Default, t.TempDir()+"/f", 16<<20)
	defer f.Close()
	for name, connect := range connections(t) {
		_, server := connect()
		check(t, server.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		n, err := SendFile(server, f, 0, 16<<20)
		if !errors.Is(err, os.ErrDeadlineExceeded) || n >= 16<<20 {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
	}
}

func TestSendFileClosedConn(t *testing.T) {
	f, _ := fileOf(t, Default, t.TempDir()+"/f", 1000)
	defer f.Close()
	for name, connect := range connections(t) {
		_, server := connect()
		server.Close()
		if n, err := SendFile(server, f, 0, 1000); n != 0 || err == nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
	}
}

func TestSendFileReadError(t *testing.T) {
	fsys := NewFaults(NewCrashing(), 1)
	f, _ := fileOf(t, fsys, "/f", 1000)
	defer f.Close()
	fsys.Inject(Rule{Ops: OpRead, Err: os.ErrPermission})
	client, server := net.Pipe()
	defer client.Close()
	if n, err := SendFile(server, f, 0, 1000); n != 0 || !errors.Is(err, os.ErrPermission) {
		t.Fatalf("%d, %v", n, err)
	}
}

func BenchmarkSendFile(b *testing.B) {
	f, _ := fileOf(b, Default, b.TempDir()+"/f", 1<<20)
	defer f.Close()
	client, server := pair(b, "tcp", "127.0.0.1:0")
	go func() { _, _ = io.Copy(io.Discard, client) }()
	b.ReportAllocs()
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := SendFile(server, f, 0, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
