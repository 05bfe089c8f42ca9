package lint

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// files makes a tree of names and texts.
func files(t *testing.T, texts map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.errors) > 0 {
		t.Fatal(tr.errors)
	}
	return tr
}

// TestRulesFindWhatTheyForbid runs each rule on one small file that breaks it, or that comes close and
// does not.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	for _, c := range []struct {
		name string
		rule func(*tree) []string
		path string
		text string
		want string // part of the only finding; "" = none
	}{
		{"gateway to gateway", checkLayers, "internal/gateway/http/a.go", `package http; import _ "godwit/internal/gateway/kafka"`, "gateways do not know each other"},
		{"gateway to engine", checkLayers, "internal/gateway/http/a.go", `package http; import _ "godwit/internal/engine"`, "calls broker and nothing below"},
		{"gateway to storage", checkLayers, "internal/gateway/kafka/a.go", `package kafka; import _ "godwit/internal/storage/wal"`, "calls broker and nothing below"},
		{"gateway to broker", checkLayers, "internal/gateway/kafka/a.go", `package kafka; import _ "godwit/internal/broker"`, ""},
		{"pure to acting", checkLayers, "internal/shard/a.go", `package shard; import _ "godwit/internal/storage/wal"`, "return an effect"},
		{"acting to pure", checkLayers, "internal/storage/wal/a.go", `package wal; import _ "godwit/internal/shard"`, "take the plain value"},
		{"up to app", checkLayers, "internal/broker/a.go", `package broker; import _ "godwit/internal/app"`, "only cmd/godwit imports app"},
		{"not in the table", checkLayers, "internal/novel/a.go", `package novel`, "give it a row"},
		{"tests are free", checkLayers, "internal/shard/a_test.go", `package shard; import _ "godwit/internal/storage/wal"`, ""},
		{"pebble in engine", checkOutsiders, "internal/engine/a.go", `package engine; import _ "github.com/cockroachdb/pebble/v2/vfs"`, "is for storage/state, vfs"},
		{"pebble in state", checkOutsiders, "internal/storage/state/a.go", `package state; import _ "github.com/cockroachdb/pebble/v2"`, ""},
		{"unknown module", checkOutsiders, "internal/engine/a.go", `package engine; import _ "example.com/x"`, "not among the modules"},
		{"empty name", checkNames, "internal/util/a.go", `package util`, "says nothing"},

		{"clock", checkPurity, "internal/meta/a.go", `package meta; import "time"; var f = time.Now`, "take the time as a field"},
		{"durations", checkPurity, "internal/meta/a.go", `package meta; import "time"; const d = time.Second`, ""},
		{"shadowed time", checkPurity, "internal/meta/a.go", `package meta; func f(time struct{ Now int }) int { return time.Now }`, ""},
		{"renamed time", checkPurity, "internal/meta/a.go", `package meta; import t "time"; var f = t.Now`, "time.Now"},
		{"rand", checkPurity, "internal/meta/a.go", `package meta; import _ "math/rand/v2"`, "take the random value"},
		{"network", checkPurity, "internal/coord/txn/a.go", `package txn; import _ "net/http"`, "a gateway sends them"},
		{"goroutine", checkPurity, "internal/shard/a.go", `package shard; func f() { go f() }`, "goroutines live in engine"},
		{"channel", checkPurity, "internal/shard/a.go", `package shard; type t chan int`, "a channel"},
		{"receive", checkPurity, "internal/shard/a.go", `package shard; func f(c C) { <-c }`, "a channel"},
		{"lock", checkPurity, "internal/partlog/a.go", `package partlog; import _ "sync"`, "own the state from one goroutine"},
		{"pool of a codec", checkPurity, "internal/compress/a.go", `package compress; import "sync"; var p sync.Pool`, ""},
		{"lock of a codec", checkPurity, "internal/compress/a.go", `package compress; import "sync"; type t struct { mu sync.Mutex }`, "sync.Mutex"},

		{"os", checkOS, "internal/storage/wal/a.go", `package wal; import _ "os"`, "through vfs.FS"},
		{"exec", checkOS, "internal/broker/a.go", `package broker; import _ "os/exec"`, "add a method to vfs"},
		{"system call", checkOS, "internal/broker/a.go", `package broker; import "syscall"; var _ = syscall.Fsync`, "add a method to vfs"},
		{"error number", checkOS, "internal/broker/a.go", `package broker; import "syscall"; var _ = syscall.ENOSPC`, ""},
		{"os in vfs", checkOS, "internal/vfs/a.go", `package vfs; import _ "os"`, ""},
		{"time.Now", checkTime, "internal/engine/a.go", `package engine; import "time"; var t = time.Now()`, "clock.Clock"},
		{"time.Sleep", checkTime, "internal/app/a.go", `package app; import "time"; func f() { time.Sleep(1) }`, "select on a timer"},
		{"init", checkInit, "internal/engine/a.go", `package engine; func init() {}`, "explicit list"},
		{"init method", checkInit, "internal/engine/a.go", `package engine; type t int; func (t) init() {}`, ""},
		{"assigned global", checkGlobals, "internal/engine/a.go", `package engine; var n int; func f() { n = 1 }`, "is written to"},
		{"counted global", checkGlobals, "internal/engine/a.go", `package engine; var n int; func f() { n++ }`, "is written to"},
		{"filled map", checkGlobals, "internal/engine/a.go", `package engine; var m = map[int]int{}; func f() { m[1] = 2 }`, "is written to"},
		{"emptied map", checkGlobals, "internal/engine/a.go", `package engine; var m = map[int]int{}; func f() { delete(m, 1) }`, "is written to"},
		{"shadowed global", checkGlobals, "internal/engine/a.go", `package engine; var n int; func f() { n := 1; n = 2; _ = n }`, ""},
		{"global lock", checkGlobals, "internal/engine/a.go", `package engine; import "sync"; var mu sync.Mutex`, "sync.Mutex"},
		{"global atomic", checkGlobals, "internal/engine/a.go", `package engine; import "sync/atomic"; var n = &atomic.Int64{}`, "atomic.Int64"},
		{"global pool", checkGlobals, "internal/engine/a.go", `package engine; import "sync"; var p = sync.Pool{}`, ""},
		{"global channel", checkGlobals, "internal/engine/a.go", `package engine; var c chan int`, "channel"},
		{"foreign global", checkGlobals, "internal/engine/a.go", `package engine; import "net/http"; func f() { http.DefaultClient = nil }`, "another package"},
		{"table", checkGlobals, "internal/engine/a.go", `package engine; var names = map[int]string{1: "a"}`, ""},

		{"long function", checkBudgets, "internal/engine/a.go", "package engine\nfunc f() {\n" + many(69, "\n") + "}\n", "has 71 lines"},
		{"fitting function", checkBudgets, "internal/engine/a.go", "package engine\nfunc f() {\n" + many(68, "\n") + "}\n", ""},
		{"long file", checkBudgets, "internal/engine/a_test.go", "package engine\n" + many(800, "\n"), "801 lines"},
		{"generated", checkBudgets, "internal/engine/a.go", "// Code generated by x. DO NOT EDIT.\npackage engine\n" + many(900, "\n"), ""},
		{"wide struct", checkBudgets, "internal/engine/a.go", "package engine\ntype t struct {\n" + many(25, "a int\n") + "b, c int }", "27 fields"},
		{"no comment", checkComments, "internal/engine/a.go", "package engine", "no package comment"},
		{"wrong comment", checkComments, "internal/engine/a.go", "// The engine.\npackage engine", "must begin with"},
		{"comment", checkComments, "internal/engine/a.go", "// Package engine is.\npackage engine", ""},

		{"unfuzzed decoder", checkFuzz, "internal/storage/wal/a.go", "package wal", "without a fuzz target"},
		{"undeclared decoder", checkFuzz, "internal/engine/a.go", "package engine; func parseX(b []byte) int { return 0 }", "reads bytes"},
		{"no corpus", checkFuzz, "internal/storage/wal/a_test.go", "package wal; func FuzzX() {}", "has no corpus"},
		{"sleep", checkWaits, "internal/engine/a_test.go", `package engine; import "time"; func f() { time.Sleep(1) }`, "tests do not sleep"},
		{"sleep in a bubble", checkWaits, "internal/engine/a_test.go", `package engine; import ("time"; "testing/synctest"); func f() { synctest.Test(nil, func() { time.Sleep(1) }) }`, ""},
		{"skip", checkWaits, "internal/engine/a_test.go", `package engine; import "testing"; func f(t *testing.T) { t.Skip("x") }`, "tests do not skip"},
		{"skip of a reader", checkWaits, "internal/engine/a_test.go", `package engine; func f(r reader) { r.Skip(4) }`, ""},
		{"open end", checkMarkers, "docs/a.md", "TO" + "DO: more", "finish it"},
		{"open comment", checkMarkers, "internal/engine/a.go", "package engine // FIX" + "ME", "finish it"},

		{"dead link", checkLinks, "README.md", "see [a](docs/a.md)", "no docs/a.md"},
		{"dead heading", checkLinks, "README.md", "# Some words\n[a](#some-word)", "no heading"},
		{"links", checkLinks, "README.md", "# Some `words`, here\n[a](#some-words-here) [b](https://x.y) [c](README.md) `[d](e)`", ""},
		{"lost document", checkIndex, "docs/a.md", "# A", "add a row"},
		{"unknown target", checkMakeTargets, "README.md", "```sh\nV=1 make -j2 nothing X=2 # twice\n```", "no target nothing"},
		{"not a command", checkMakeTargets, "README.md", "```\nmake nothing\n```", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.rule(files(t, map[string]string{c.path: c.text}))
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("found %q", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("found %q, want one finding with %q", got, c.want)
			}
		})
	}
}

// TestFolderTableIsReplaced: rows in order of folders, the text around them untouched.
func TestFolderTableIsReplaced(t *testing.T) {
	tr := files(t, map[string]string{
		"internal/b/doc.go": "// Package b holds | bars. More.\npackage b",
		"internal/a/a.go":   "// Package a is first.\npackage a",
	})
	got, err := withTable("x\n"+tableBegin+"\nold\n"+tableEnd+"\ny\n", folderTable(tr))
	if err != nil {
		t.Fatal(err)
	}
	want := "x\n" + tableBegin + "\n| folder | what is inside |\n|---|---|\n| `internal/a` | is first. |\n| `internal/b` | holds \\| bars. |\n" + tableEnd + "\ny\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := withTable("no markers", ""); err == nil {
		t.Error("a document without markers is accepted")
	}
}

func TestShellLinesAreSplit(t *testing.T) {
	for line, want := range map[string][][]string{
		`make run`:                          {{"make", "run"}},
		`A=1 B="x y" make -j2 C=3`:          {{"make", "-j2", "C=3"}},
		`echo 'a | b' | kcat -P -t x > out`: {{"echo", "a | b"}, {"kcat", "-P", "-t", "x"}},
		`a && b ; c & # d`:                  {{"a"}, {"b"}, {"c"}},
		`a < in b`:                          {{"a", "b"}},
		`# only a comment`:                  nil,
		`echo k#v`:                          {{"echo", "k#v"}},
	} {
		if got := split(line); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
