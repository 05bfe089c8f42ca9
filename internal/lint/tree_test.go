package lint

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "godwit"

// A tree is what the rules look at: the Go packages of the module and the text files beside them.
// Paths are slash-separated and relative to the root of the repository.
type tree struct {
	fsys   fs.FS
	fset   *token.FileSet
	pkgs   []*pkg            // ordered by dir
	texts  map[string]string // every text file, Go files included
	errors []string          // files that do not parse
}

// A pkg is one folder with Go files.
type pkg struct {
	dir   string // "internal/base"
	name  string // of the package clause, without _test
	files []*source
	info  *types.Info // of all files; types that come from imports are unknown
	types *types.Package
}

// A source is one Go file.
type source struct {
	path      string
	test      bool
	generated bool // has the standard header "Code generated ... DO NOT EDIT."
	lines     int
	file      *ast.File
}

// short is the package's name in the tables of this package: its folder without "internal/".
func (p *pkg) short() string { return strings.TrimPrefix(p.dir, "internal/") }

// code lists the files that are built into the program.
func (p *pkg) code() []*source {
	return slices.DeleteFunc(slices.Clone(p.files), func(s *source) bool { return s.test })
}

// at prints a position as path:line.
func (t *tree) at(n ast.Node) string {
	pos := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}

// imported returns the import path that e names if e is `pkg.Name`, and the name.
func (p *pkg) imported(n ast.Node) (importPath, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	if pn, ok := p.info.Uses[id].(*types.PkgName); ok {
		return pn.Imported().Path(), sel.Sel.Name
	}
	return "", ""
}

// skipDir tells the folders that are not the project's own text.
func skipDir(name string) bool {
	switch name {
	case "bin", "data", "testdata", "node_modules", "__pycache__", "target", "venv":
		return true
	}
	return strings.HasPrefix(name, ".") && name != "." && name != ".ci"
}

var textFile = regexp.MustCompile(`(\.(go|md|sh|py|js|mjs|ts|java|xml|json|toml|yml|yaml|sum|mod)|(^|/)(Makefile|run|\.gitattributes|\.gitignore))$`)

// load reads and parses the tree below the root of fsys.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet(), texts: map[string]string{}}
	byDir := map[string]*pkg{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone since the folder was listed
		case err != nil:
			return err
		case d.IsDir():
			if skipDir(d.Name()) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || !textFile.MatchString(name):
			return nil
		}
		b, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		t.texts[name] = string(b)
		if path.Ext(name) == ".go" {
			t.parse(byDir, name, b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range byDir {
		t.resolve(p)
		t.pkgs = append(t.pkgs, p)
	}
	slices.SortFunc(t.pkgs, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return t, nil
}

func (t *tree) parse(byDir map[string]*pkg, name string, b []byte) {
	f, err := parser.ParseFile(t.fset, name, b, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.errors = append(t.errors, fmt.Sprintf("does not parse: %v", err))
		return
	}
	dir := path.Dir(name)
	p := byDir[dir]
	if p == nil {
		p = &pkg{dir: dir}
		byDir[dir] = p
	}
	src := &source{
		path:      name,
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(f),
		lines:     bytes.Count(b, []byte("\n")),
		file:      f,
	}
	if p.name == "" || !src.test {
		p.name = strings.TrimSuffix(f.Name.Name, "_test")
	}
	p.files = append(p.files, src)
}

// resolve finds out what every identifier of the package refers to. Errors are expected, since
// imports are stand-ins and files for different systems are read together; what cannot be resolved
// stays unknown.
func (t *tree) resolve(p *pkg) {
	p.info = &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: standIns{}, Error: func(error) {}, FakeImportC: true}
	var inside, outside []*ast.File
	for _, s := range p.files {
		if s.test && strings.HasSuffix(s.file.Name.Name, "_test") {
			outside = append(outside, s.file)
		} else {
			inside = append(inside, s.file)
		}
	}
	p.types, _ = conf.Check(p.dir, t.fset, inside, p.info)
	_, _ = conf.Check(p.dir+"_test", t.fset, outside, p.info)
}

// standIns imports every path as an empty package.
type standIns struct{}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

func (standIns) Import(p string) (*types.Package, error) {
	name := path.Base(p)
	if majorVersion.MatchString(name) {
		name = path.Base(path.Dir(p))
	}
	stand := types.NewPackage(p, name)
	stand.MarkComplete()
	return stand, nil
}

// root is the folder of go.mod at or above the test's working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

var loadOnce = sync.OnceValues(func() (*tree, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	return load(os.DirFS(dir))
})

// repository is the tree of this repository, loaded once.
func repository(t *testing.T) *tree {
	t.Helper()
	tr, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// report fails the test with every finding.
func report(t *testing.T, findings []string) {
	t.Helper()
	slices.Sort(findings)
	for _, f := range slices.Compact(findings) {
		t.Error(f)
	}
}

func TestEveryFileParses(t *testing.T) {
	report(t, repository(t).errors)
}
