package killtest

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	rounds = flag.Int("kill.runs", 6, "how often the broker is killed")
	seed   = flag.Uint64("kill.seed", 0, "seed of the moments of killing; 0 draws one")
)

const (
	topic      = "killed"
	partitions = 6
)

// server is the real binary.
type server struct {
	bin, dir, addr string
	cmd            *exec.Cmd
}

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "godwit")
	cmd := exec.Command("go", "build", "-o", bin, "godwit/cmd/godwit")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	return bin
}

// freeAddr finds an address that stays the same over all lives of the server.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// start runs the server until it says that it is ready.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.bin, "serve", "--data", s.dir, "--kafka", s.addr, "--http", "off", "--log-format", "json",
		"--wal-file-size", "8MiB", "--checkpoint-interval", "300ms")
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var l struct{ Msg string }
		log = append(log, lines.Text())
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "ready" {
			go io.Copy(io.Discard, out)
			return
		}
	}
	t.Fatalf("the server did not become ready: %v\n%v", s.cmd.Wait(), log)
}

func (s *server) kill(sig syscall.Signal) error {
	s.cmd.Process.Signal(sig)
	return s.cmd.Wait()
}

type place struct {
	partition int32
	offset    int64
}

// book notes what was acknowledged.
type book struct {
	mu    sync.Mutex
	acked map[place]string
	next  int
}

func (b *book) value() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return strconv.Itoa(b.next)
}

func (b *book) note(r *kgo.Record, err error) {
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked[place{r.Partition, r.Offset}] = string(r.Value)
}

// load produces until ctx ends.
func (b *book) load(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedRecords(2000), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		cl.Produce(ctx, &kgo.Record{Value: []byte(b.value()), Headers: []kgo.RecordHeader{{Key: "pad", Value: make([]byte, rand.IntN(2000))}}}, b.note)
	}
	return nil
}

// verify reads everything and compares it with the book.
func (b *book) verify(ctx context.Context, addr string) (read int, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	next := map[int32]int64{}
	seen := map[string]place{}
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := len(b.acked)
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return read, fmt.Errorf("reading, %d records to go: %w", left, err)
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			at, value := place{r.Partition, r.Offset}, string(r.Value)
			if r.Offset != next[r.Partition] {
				return read, fmt.Errorf("partition %d: offset %d after %d", r.Partition, r.Offset, next[r.Partition]-1)
			}
			next[r.Partition]++
			if other, twice := seen[value]; twice {
				return read, fmt.Errorf("record %s is at %v and at %v", value, other, at)
			}
			seen[value] = at
			if want, ok := b.acked[at]; ok {
				missing--
				if want != value {
					return read, fmt.Errorf("record %s was acknowledged at %v; %s is there", want, at, value)
				}
			}
			left--
			read++
		}
	}
	if missing > 0 {
		return read, fmt.Errorf("%d acknowledged records are missing", missing)
	}
	return read, nil
}

func TestKill(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 7))
	s := &server{bin: build(t), dir: t.TempDir(), addr: freeAddr(t)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*rounds)*20*time.Second+2*time.Minute)
	defer cancel()
	s.start(t)
	defer func() { s.kill(syscall.SIGKILL) }()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	cl.Close()

	b := &book{acked: map[place]string{}}
	loadCtx, stop := context.WithCancel(ctx)
	var producers sync.WaitGroup
	for range 3 {
		producers.Go(func() {
			if err := b.load(loadCtx, s.addr); err != nil {
				t.Error(err)
			}
		})
	}
	for range *rounds {
		// The moment of the kill is the test's input, not something to wait for.
		<-time.After(time.Duration(100+rng.IntN(700)) * time.Millisecond)
		s.kill(syscall.SIGKILL)
		s.start(t)
	}
	stop()
	producers.Wait()
	read, err := b.verify(ctx, s.addr)
	if err != nil {
		t.Fatalf("after %d kills: %v", *rounds, err)
	}
	t.Logf("%d kills, %d records acknowledged, %d read", *rounds, len(b.acked), read)
	if len(b.acked) < *rounds {
		t.Fatalf("only %d records were acknowledged: the load did not run", len(b.acked))
	}
	if err := s.kill(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v", err)
	}
	if out, err := exec.Command(s.bin, "fsck", "--data", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("fsck: %v\n%s", err, out)
	}
}
