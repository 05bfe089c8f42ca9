package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure lists the packages that decide: state and command in, state, results and effects out. The same
// input gives the same output on every replica, so they cannot reach a clock, a random source, a lock,
// a goroutine or the outside.
var pure = []string{"base", "varint", "invariants", "compress", "recordbatch", "topicconf", "partlog", "queue", "meta", "coord/group", "coord/share", "coord/streams", "coord/txn", "groupconf", "shard"}

// pools lists the pure packages that may keep scratch memory in a sync.Pool: codecs, whose results do
// not depend on it.
var pools = []string{"compress", "recordbatch"}

// impureImports maps what a pure package must not import to what it does instead. An entry covers
// the packages below it.
var impureImports = map[string]string{
	"os":               "return an effect; engine acts on it through vfs",
	"io/fs":            "return an effect; engine acts on it through vfs",
	"io/ioutil":        "return an effect; engine acts on it through vfs",
	"syscall":          "return an effect; engine acts on it through vfs",
	"golang.org/x/sys": "return an effect; engine acts on it through vfs",
	"net":              "return the bytes; a gateway sends them",
	"math/rand":        "take the random value as a field of the command or as an argument",
	"crypto/rand":      "take the random value as a field of the command or as an argument",
	"hash/maphash":     "use a hash without a random seed, such as hash/crc32",
	"context":          "finish at once; waiting is the engine's",
	"log":              "return what is worth logging as an effect or an error",
	"sync":             "own the state from one goroutine, the engine's loop; no lock is needed",
	"runtime":          "leave goroutines and memory to the engine",
	"flag":             "take settings as an Options value",
}

// impureCalls maps names of packages that are fine otherwise.
var impureCalls = map[string]string{
	"time.Now":       "take the time as a field of the command",
	"time.Since":     "take the time as a field of the command",
	"time.Until":     "take the time as a field of the command",
	"time.Sleep":     "return the deadline as an effect; engine sets the timer",
	"time.After":     "return the deadline as an effect; engine sets the timer",
	"time.AfterFunc": "return the deadline as an effect; engine sets the timer",
	"time.Tick":      "return the deadline as an effect; engine sets the timer",
	"time.NewTimer":  "return the deadline as an effect; engine sets the timer",
	"time.NewTicker": "return the deadline as an effect; engine sets the timer",
	"time.Local":     "use UTC; replicas may differ in their time zone",
	"fmt.Print":      "return what is worth saying",
	"fmt.Printf":     "return what is worth saying",
	"fmt.Println":    "return what is worth saying",
}

func TestPurity(t *testing.T) { report(t, checkPurity(repository(t))) }

func isPure(p *pkg) bool {
	return slices.Contains(pure, p.short()) || strings.HasPrefix(p.short(), "coord/")
}

func checkPurity(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if !isPure(p) {
			continue
		}
		for _, s := range p.code() {
			findings = append(findings, impureImportsOf(t, p, s)...)
			ast.Inspect(s.file, func(n ast.Node) bool {
				if what, remedy := impureNode(p, n); what != "" {
					findings = append(findings, fmt.Sprintf("%s: %s is pure and must not use %s: %s", t.at(n), p.short(), what, remedy))
				}
				return true
			})
		}
	}
	return findings
}

func impureImportsOf(t *tree, p *pkg, s *source) (findings []string) {
	for _, spec := range s.file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		if target == "sync" && slices.Contains(pools, p.short()) {
			continue // impureNode looks at what it is used for
		}
		for bad, remedy := range impureImports {
			if target == bad || strings.HasPrefix(target, bad+"/") {
				findings = append(findings, fmt.Sprintf("%s: %s is pure and must not import %s: %s", t.at(spec), p.short(), target, remedy))
			}
		}
	}
	return findings
}

// impureNode says what is impure about n, and what to do instead.
func impureNode(p *pkg, n ast.Node) (what, remedy string) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine", "return an effect; goroutines live in engine"
	case *ast.ChanType:
		return "a channel", "return results and effects as values"
	case *ast.SendStmt:
		return "a channel", "return results and effects as values"
	case *ast.SelectStmt:
		return "select", "return results and effects as values"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel", "take what arrives as a command"
		}
	case *ast.SelectorExpr:
		from, name := p.imported(n)
		if from == "sync" && name != "Pool" {
			return "sync." + name, "a codec may keep a sync.Pool; other state has one owner, the engine's loop"
		}
		if remedy, bad := impureCalls[from+"."+name]; bad {
			return from + "." + name, remedy
		}
	}
	return "", ""
}
