package lint

import (
	"fmt"
	"go/ast"
	"go/types"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoders lists the packages that read bytes from outside the process: what each decodes. Every one
// has a fuzz target. A package that parses only what its own process has checked has its reason after
// "trusted:" instead.
var decoders = map[string]string{
	"recordbatch":     "record batches as clients send them",
	"compress":        "compressed record sets as clients send them",
	"gateway/kafka":   "requests of the Kafka protocol",
	"storage/wal":     "files after a crash",
	"storage/segment": "files after a crash",

	"shard":   "trusted: journal entries of its own making, checksummed by the WAL",
	"meta":    "trusted: journal entries and snapshots of its own making, checksummed by the WAL and the state store",
	"partlog": "trusted: journal entries and snapshots of its own making, checksummed by the WAL and the state store",
}

// waits and skips list the places in tests that may sleep or skip, as "path:function", with the reason.
var (
	waits = map[string]string{}
	skips = map[string]string{}
)

func TestDecodersAreFuzzed(t *testing.T) { report(t, checkFuzz(repository(t))) }
func TestTestsDoNotWait(t *testing.T)    { report(t, checkWaits(repository(t))) }
func TestNothingIsLeftOpen(t *testing.T) { report(t, checkMarkers(repository(t))) }

// fuzzTargets lists the functions of a package that `go test -fuzz` runs.
func fuzzTargets(p *pkg) (names []string) {
	for _, s := range p.files {
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && s.test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// checkFuzz wants a fuzz target with a committed corpus for everything that reads foreign bytes.
func checkFuzz(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		targets := fuzzTargets(p)
		what, known := decoders[p.short()]
		trusted := strings.HasPrefix(what, "trusted:")
		if known && !trusted && len(targets) == 0 {
			findings = append(findings, fmt.Sprintf("%s: decodes %s without a fuzz target: add func FuzzX(f *testing.F) and its corpus in testdata/fuzz/FuzzX", p.dir, what))
		}
		for _, name := range targets {
			if corpus, err := fs.ReadDir(t.fsys, path.Join(p.dir, "testdata/fuzz", name)); err != nil || len(corpus) == 0 {
				findings = append(findings, fmt.Sprintf("%s: %s has no corpus: commit a few real inputs as testdata/fuzz/%s/*", p.dir, name, name))
			}
		}
		if known || !inProgram(p) || p.dir == "internal/lint" {
			continue
		}
		for _, s := range p.code() {
			for _, d := range s.file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && decodes(fn) && len(targets) == 0 {
					findings = append(findings, fmt.Sprintf("%s: %s reads bytes and the package has no fuzz target: add one, or give the package a row in decoders in internal/lint/testing_test.go that says why its input can be trusted", t.at(fn), fn.Name.Name))
				}
			}
		}
	}
	return findings
}

var decoderName = regexp.MustCompile(`^(?i:decode|parse|unmarshal|restore)`)

// decodes guesses by its name and its arguments whether a function reads an encoding.
func decodes(fn *ast.FuncDecl) bool {
	if !decoderName.MatchString(fn.Name.Name) {
		return false
	}
	return slices.ContainsFunc(fn.Type.Params.List, func(f *ast.Field) bool {
		a, ok := f.Type.(*ast.ArrayType)
		if !ok || a.Len != nil {
			return false
		}
		elem, ok := a.Elt.(*ast.Ident)
		return ok && elem.Name == "byte"
	})
}

// checkWaits finds tests that sleep or skip. Inside synctest.Test sleeping is the way to move the clock.
func checkWaits(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		for _, s := range p.files {
			if !s.test {
				continue
			}
			for _, d := range s.file.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				key := s.path + ":" + fn.Name.Name
				for _, n := range sleeps(p, fn.Body) {
					if _, may := waits[key]; !may {
						findings = append(findings, fmt.Sprintf("%s: tests do not sleep: wait for the event (a channel, a callback, a state polled under a deadline by the package's own helper), or run in testing/synctest", t.at(n)))
					}
				}
				for _, n := range skipCalls(p, fn.Body) {
					if _, may := skips[key]; !may {
						findings = append(findings, fmt.Sprintf("%s: tests do not skip: make what is missing part of the test, or move the test behind a build tag that a make target sets", t.at(n)))
					}
				}
			}
		}
	}
	return findings
}

// sleeps lists the calls of time.Sleep below body, leaving out what runs in a synctest bubble.
func sleeps(p *pkg, body ast.Node) (found []ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if from, name := p.imported(call.Fun); from == "testing/synctest" && name == "Test" {
				return false
			}
		}
		if from, name := p.imported(n); from == "time" && name == "Sleep" {
			found = append(found, n)
		}
		return true
	})
	return found
}

// skipCalls lists the calls of Skip, Skipf and SkipNow on a *testing.T and its kin.
func skipCalls(p *pkg, body ast.Node) (found []ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || p.info.Uses[id] == nil {
			return true
		}
		_, isVar := p.info.Uses[id].(*types.Var)
		byName := slices.Contains([]string{"t", "tb", "b", "f", "st", "rt"}, id.Name)
		switch sel.Sel.Name {
		case "Skipf", "SkipNow":
			found = append(found, n)
		case "Skip":
			if isVar && byName {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// openEnds are the words by which unfinished work announces itself; spelled so that this line
// is not found.
var openEnds = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK|for n` + `ow)\b`)

func checkMarkers(t *tree) (findings []string) {
	for name, text := range t.texts {
		if strings.HasSuffix(name, ".sum") || !openEnds.MatchString(text) {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if m := openEnds.FindString(line); m != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: %q: finish it, or write down as a limit what is not there", name, i+1, m))
			}
		}
	}
	return findings
}
