package lint

import (
	"flag"
	"fmt"
	"go/doc"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the folder table in docs/architecture.md")

const (
	architecture = "docs/architecture.md"
	tableBegin   = "<!-- folders -->"
	tableEnd     = "<!-- /folders -->"
)

func TestPackageComments(t *testing.T) { report(t, checkComments(repository(t))) }

// TestFolderTable keeps the table of folders in the architecture what the package comments say.
func TestFolderTable(t *testing.T) {
	tr := repository(t)
	text, ok := tr.texts[architecture]
	if !ok {
		t.Fatalf("%s is missing: the next person starts there", architecture)
	}
	want, err := withTable(text, folderTable(tr))
	if err != nil {
		t.Fatal(err)
	}
	if want == text {
		return
	}
	if !*update {
		t.Fatalf("the folder table in %s is not what the package comments say: run `go test ./internal/lint -update`", architecture)
	}
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(architecture)), []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// packageComments lists the comments above the package clauses of a package: one is right.
func packageComments(p *pkg) (texts []string) {
	for _, s := range p.files {
		if s.file.Doc != nil && s.file.Name.Name == p.name {
			texts = append(texts, s.file.Doc.Text())
		}
	}
	return texts
}

// commentBegin is how the comment of a package begins.
func commentBegin(p *pkg) string {
	if p.name == "main" {
		return "Command " + path.Base(p.dir) + " "
	}
	return "Package " + p.name + " "
}

func checkComments(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		begin := commentBegin(p)
		switch texts := packageComments(p); {
		case len(texts) == 0:
			findings = append(findings, fmt.Sprintf("%s: no package comment: begin doc.go with \"// %s...\": what it is, then what it promises", p.dir, begin))
		case len(texts) > 1:
			findings = append(findings, fmt.Sprintf("%s: %d package comments: keep one, in doc.go or at the top of the main file", p.dir, len(texts)))
		case !strings.HasPrefix(texts[0], begin):
			findings = append(findings, fmt.Sprintf("%s: the package comment must begin with %q: its first sentence stands in the folder table", p.dir, begin))
		}
	}
	return findings
}

// folderTable is the table of all packages with the first sentence of each package comment.
func folderTable(t *tree) string {
	var b strings.Builder
	b.WriteString("| folder | what is inside |\n|---|---|\n")
	for _, p := range t.pkgs {
		texts := packageComments(p)
		if len(texts) == 0 {
			continue
		}
		sentence := strings.TrimPrefix(new(doc.Package).Synopsis(texts[0]), commentBegin(p))
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.dir, strings.ReplaceAll(sentence, "|", `\|`))
	}
	return b.String()
}

// withTable replaces what stands between the markers.
func withTable(text, table string) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegin+"\n")
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("%s: the markers %s and %s around the folder table are missing", architecture, tableBegin, tableEnd)
	}
	return before + tableBegin + "\n" + table + tableEnd + after, nil
}
