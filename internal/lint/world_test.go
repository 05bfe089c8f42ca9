package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// osUsers lists the packages that may import os and what lies below it, and make system calls, with what for. Data
// files go through vfs, so that tests can put a crashing file system under everything.
var osUsers = map[string]string{
	"vfs":        "is the file system",
	"app":        "signals, process limits, the data directory's lock",
	"cli":        "standard input and output, exit codes, files the user names",
	"cmd/godwit": "exit code",
	"settings":   "the settings file and the environment",

	"bench/load":     "a timer of the system, finer than the runtime's",
	"bench/probe":    "other processes, and the machine, as the system shows them",
	"bench/scenario": "scenarios the user names",
	"bench/target":   "the scripts that control targets",

	"golden": "a package's scripts, which tests rewrite",
}

// timeUsers lists the packages that may read the clock themselves, with what for.
var timeUsers = map[string]string{
	"clock":         "is the clock",
	"app":           "start-up and shutdown times in the log",
	"cli":           "progress and time-outs of commands",
	"gateway/kafka": "deadlines of connections, request latency",
	"gateway/http":  "deadlines of connections, request latency",

	"bench/driver/kafka": "measures the real world's time",
	"bench/load":         "measures the real world's time",
	"bench/probe":        "measures the real world's time",
	"bench/run":          "measures the real world's time",
}

// mutableVars lists package variables that may change, as "folder.name", with the reason.
var mutableVars = map[string]string{
	"cmd/godwit.version": "set by the linker",
}

func TestFilesGoThroughVFS(t *testing.T)  { report(t, checkOS(repository(t))) }
func TestTimeComesFromClock(t *testing.T) { report(t, checkTime(repository(t))) }
func TestNoInit(t *testing.T)             { report(t, checkInit(repository(t))) }
func TestNoGlobalState(t *testing.T)      { report(t, checkGlobals(repository(t))) }

// errorNumber matches the names in syscall that compare and do not act, such as ENOSPC.
var errorNumber = regexp.MustCompile(`^E[A-Z0-9]+$`)

// checkOS keeps files, processes and system calls in the packages made for them.
func checkOS(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if _, may := osUsers[p.short()]; may || !inProgram(p) || p.dir == "internal/lint" {
			continue
		}
		for _, s := range p.code() {
			for _, spec := range s.file.Imports {
				target, _ := strconv.Unquote(spec.Path.Value)
				switch {
				case target == "os" || target == "io/ioutil":
					findings = append(findings, fmt.Sprintf("%s: %s must not import %s: open files through vfs.FS; errors are io/fs.ErrNotExist and its like", t.at(spec), p.short(), target))
				case strings.HasPrefix(target, "os/"):
					findings = append(findings, fmt.Sprintf("%s: %s must not import %s: add a method to vfs and call that", t.at(spec), p.short(), target))
				}
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if from, name := p.imported(n); from == "syscall" && !errorNumber.MatchString(name) {
					findings = append(findings, fmt.Sprintf("%s: %s must not use syscall.%s: add a method to vfs and call that", t.at(n), p.short(), name))
				}
				return true
			})
		}
	}
	return findings
}

// checkTime keeps the reading of the clock in the packages made for it.
func checkTime(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if !inProgram(p) || p.dir == "internal/lint" {
			continue
		}
		_, may := timeUsers[p.short()]
		for _, s := range p.code() {
			ast.Inspect(s.file, func(n ast.Node) bool {
				from, name := p.imported(n)
				switch {
				case from != "time":
				case name == "Sleep":
					findings = append(findings, fmt.Sprintf("%s: time.Sleep cannot be interrupted: select on a timer and on the channel that ends the wait", t.at(n)))
				case !may && (name == "Now" || name == "Since" || name == "Until"):
					findings = append(findings, fmt.Sprintf("%s: %s must not call time.%s: take a clock.Clock in Options and ask that", t.at(n), p.short(), name))
				}
				return true
			})
		}
	}
	return findings
}

func checkInit(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		for _, s := range p.code() {
			for _, d := range s.file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					findings = append(findings, fmt.Sprintf("%s: no init functions: build the value where it is declared, or name the parts in one explicit list", t.at(fn)))
				}
			}
		}
	}
	return findings
}

// checkGlobals finds package variables that hold state: written to anywhere, or of a type that exists
// to be changed. Errors, tables and pools are fine: nobody writes to them.
func checkGlobals(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if !inProgram(p) {
			continue
		}
		vars := packageVars(p)
		say := func(id *ast.Ident, at ast.Node, what string) {
			key := p.dir + "." + id.Name
			if _, ok := mutableVars[strings.TrimPrefix(key, "internal/")]; !ok {
				findings = append(findings, fmt.Sprintf("%s: package variable %s %s: make it a field of the value that owns it, passed in through Options", t.at(at), id.Name, what))
			}
		}
		for _, s := range p.files {
			if !s.test {
				for _, spec := range varSpecs(s) {
					if kind := stateful(p, spec); kind != "" {
						say(spec.Names[0], spec, "is a "+kind)
					}
				}
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				for _, target := range written(p, n) {
					root, foreign := rootOf(p, target)
					if foreign != "" {
						findings = append(findings, fmt.Sprintf("%s: writes to %s of another package: pass the value through that package's Options", t.at(n), foreign))
					} else if root != nil && vars[p.info.Uses[root]] {
						say(root, n, "is written to")
					}
				}
				return true
			})
		}
	}
	return findings
}

func varSpecs(s *source) (specs []*ast.ValueSpec) {
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, spec := range g.Specs {
				specs = append(specs, spec.(*ast.ValueSpec))
			}
		}
	}
	return specs
}

// packageVars is the set of variables declared at package level outside tests.
func packageVars(p *pkg) map[types.Object]bool {
	vars := map[types.Object]bool{}
	for _, s := range p.code() {
		for _, spec := range varSpecs(s) {
			for _, id := range spec.Names {
				if obj := p.info.Defs[id]; obj != nil && id.Name != "_" {
					vars[obj] = true
				}
			}
		}
	}
	return vars
}

// stateful names the type of a variable that is made to be changed, "" for any other.
func stateful(p *pkg, spec *ast.ValueSpec) string {
	exprs := append([]ast.Expr{spec.Type}, spec.Values...)
	for _, e := range exprs {
		if u, ok := e.(*ast.UnaryExpr); ok {
			e = u.X
		}
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if lit, ok := e.(*ast.CompositeLit); ok {
			e = lit.Type
		}
		if ix, ok := e.(*ast.IndexExpr); ok {
			e = ix.X
		}
		if _, ok := e.(*ast.ChanType); ok {
			return "channel"
		}
		from, name := p.imported(e)
		if (from == "sync" || from == "sync/atomic") && name != "Pool" && !strings.HasPrefix(name, "Once") {
			return path.Base(from) + "." + name
		}
	}
	return ""
}

// written lists the expressions that n changes.
func written(p *pkg, n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.CallExpr:
		id, ok := n.Fun.(*ast.Ident)
		if !ok || len(n.Args) == 0 {
			return nil
		}
		if _, builtin := p.info.Uses[id].(*types.Builtin); builtin && (id.Name == "delete" || id.Name == "clear") {
			return n.Args[:1]
		}
	}
	return nil
}

// rootOf finds the variable that a write to e changes: x for x.f[i]. If that belongs to another package
// foreign is its full name.
func rootOf(p *pkg, e ast.Expr) (root *ast.Ident, foreign string) {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x, ""
		case *ast.SelectorExpr:
			if from, name := p.imported(x); from != "" {
				return nil, from + "." + name
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil, ""
		}
	}
}
