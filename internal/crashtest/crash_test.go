package crashtest

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

var (
	runs = flag.Int("crash.runs", 300, "random runs of the crash test")
	seed = flag.Uint64("crash.seed", 0, "seed of the crash test; 0 draws one")
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("rapid.checks", strconv.Itoa(*runs))
	if *seed != 0 {
		flag.Set("rapid.seed", strconv.FormatUint(*seed, 10))
	}
	os.Exit(m.Run())
}

// opGen draws mostly produces and turns, so that something is under way when the power goes.
func opGen() *rapid.Generator[Op] {
	weighted := []Kind{}
	weights := map[Kind]int{Produce: 14, Turns: 10, Checkpoint: 3, Retain: 1, Delete: 1, CreateStream: 3, DropStream: 1,
		Roll: 2, Compact: 2, Cut: 1, CutAt: 3, Restart: 1, FailSync: 1, FillDisk: 1, Transact: 8, EndTxn: 5}
	for k := range Kind(Kinds()) {
		for range weights[k] {
			weighted = append(weighted, k)
		}
	}
	return rapid.Custom(func(t *rapid.T) Op {
		return Op{rapid.SampledFrom(weighted).Draw(t, "kind"), rapid.Uint16().Draw(t, "a"), rapid.Uint16().Draw(t, "b")}
	})
}

func TestCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Seed: rapid.Uint64().Draw(t, "seed"), Percentage: -1}
		ops := append([]Op{{CreateStream, 1, 0}}, rapid.SliceOfN(opGen(), 1, 80).Draw(t, "ops")...)
		if err := Run(cfg, ops); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCrashCatchesMissingSync shows that the test would notice if the log were not synced.
func TestCrashCatchesMissingSync(t *testing.T) {
	ops := []Op{{CreateStream, 0, 0}}
	for i := range uint16(20) {
		ops = append(ops, Op{Produce, i, i * 97}, Op{Turns, 31, 0})
	}
	ops = append(ops, Op{Cut, 0, 0})
	if err := Run(Config{Seed: 1, Percentage: 0}, ops); err != nil {
		t.Fatalf("with syncs: %v", err)
	}
	if err := Run(Config{Seed: 1, Percentage: 0, DropSyncs: true}, ops); err == nil {
		t.Fatal("without syncs acknowledged records were lost, and nobody noticed")
	} else {
		t.Logf("without syncs: %v", err)
	}
}
