package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"godwit/interop/installed"
)

// application is one thing to run. limit is how long it may take, several times what it does take.
type application struct {
	name  string
	run   func(context.Context, *world) (string, error)
	limit time.Duration
	short bool // in the short selection: those that show more than another of the kind
}

var applications = []application{
	{"mixed", mixed, 4 * time.Minute, true},
	{"members", membersUniform, 4 * time.Minute, true},
	{"members-regex", membersRegex, 4 * time.Minute, true},
	{"members-migrate", membersMigrate, 4 * time.Minute, true},
	{"shares", shares, 4 * time.Minute, true},
	{"connect", connect, 8 * time.Minute, false},
	{"connect-once", connectOnce, 8 * time.Minute, true},
	{"copy", copying, 8 * time.Minute, true},
	{"words", words, 8 * time.Minute, false},
	{"words-once", wordsOnce, 8 * time.Minute, true},
	{"words-streams", wordsStreams, 12 * time.Minute, true},
	{"mirror", mirror, 8 * time.Minute, false},
	{"mirror-once", mirrorOnce, 8 * time.Minute, true},
}

// world is what one application has.
type world struct {
	places  installed.Places
	godwit  string // the binary
	dir     string // of this application, for data and logs
	rand    *rand.Rand
	kafka   bool // brokers are Apache Kafka, to try the applications
	long    bool // as many faults as for a soak test
	kills   int  // for those applications that count them; 0 leaves it to them
	brokers []*broker

	mu    sync.Mutex
	owned []*process
}

func (w *world) own(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owned = append(w.owned, p)
}

// killAll ends whatever runs still.
func (w *world) killAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.owned {
		p.kill()
	}
}

// between draws a duration.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rand.Int64N(int64(to-from)))
}

func main() {
	godwit := flag.String("godwit", ".cache/interop/godwit", "the binary to test")
	source := flag.String("source", "interop", "the interop folder of the repository")
	built := flag.String("built", ".cache/interop", "the folder that apps.sh prepared")
	only := flag.String("apps", "", "comma-separated applications to run (default all: "+strings.Join(names(), ", ")+")")
	short := flag.Bool("short", false, "run a selection that takes 10 minutes")
	seed := flag.Uint64("seed", 0, "seed of the faults; 0 draws one")
	long := flag.Bool("long", false, "run each for many times as long")
	kills := flag.Int("kills", 0, "how often to kill brokers, workers and clients (default: as fits -long)")
	kafka := flag.Bool("kafka", false, "run on Apache Kafka, which bench/peers/kafka.sh has installed, to try the applications themselves")
	flag.Parse()
	places, err := installed.Find(*source, *built)
	if err == nil {
		*godwit, err = filepath.Abs(*godwit)
	}
	if err == nil && *only != "" {
		for _, name := range strings.Split(*only, ",") {
			if !slices.Contains(names(), name) {
				err = fmt.Errorf("no application is named %q (there are %s)", name, strings.Join(names(), ", "))
			}
		}
	}
	if err == nil {
		err = alone(places)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(2)
	}
	for *seed == 0 {
		*seed = rand.Uint64() >> 32 // short enough to type
	}
	fmt.Printf("applications on Godwit, seed %d\n", *seed)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	passed, failed := 0, 0
	for _, a := range applications {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), a.name) || *short && !a.short || ctx.Err() != nil {
			continue
		}
		w := &world{places: places, godwit: *godwit, dir: filepath.Join(places.Built, "applications", a.name),
			rand: rand.New(rand.NewPCG(*seed, 0)), kafka: *kafka, long: *long, kills: *kills}
		start := time.Now()
		text, err := w.perform(ctx, a)
		if err != nil {
			failed++
			fmt.Printf("FAIL %s, %.0f s: %v\n     logs and data are in %s; the seed was %d\n", a.name, time.Since(start).Seconds(), err, w.dir, *seed)
			continue
		}
		passed++
		fmt.Printf("ok   %s, %.0f s: %s\n", a.name, time.Since(start).Seconds(), text)
	}
	if ctx.Err() != nil {
		failed++
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// alone fails if another run has the folder, until this program ends.
func alone(places installed.Places) error {
	dir := filepath.Join(places.Built, "applications")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another run uses %s: wait for it, or end it: %w", dir, err)
	}
	return nil
}

func names() []string {
	var out []string
	for _, a := range applications {
		out = append(out, a.name)
	}
	return out
}

// killCount is how often an application kills: the number that was asked for, or short, many times more for a soak test.
func (w *world) killCount(short int) int {
	switch {
	case w.kills > 0:
		return w.kills
	case w.long:
		return short * longer
	}
	return short
}

// perform runs one application in a fresh folder and retires its brokers.
func (w *world) perform(ctx context.Context, a application) (string, error) {
	if err := os.RemoveAll(w.dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return "", err
	}
	limit := a.limit + time.Duration(w.kills)*time.Minute
	if w.long {
		limit *= longer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %v", limit))
	defer cancel()
	defer w.killAll()
	text, err := a.run(ctx, w)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	for _, b := range w.brokers {
		err = errors.Join(err, b.retire())
	}
	return text, err
}

// longer is how many times more a soak test does.
const longer = 10
