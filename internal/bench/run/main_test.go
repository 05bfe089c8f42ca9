package run

import (
	"os"
	"testing"
)

// testDir holds what tests build, until the last of them is over.
var testDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "godwit-bench-run")
	if err != nil {
		panic(err)
	}
	testDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
