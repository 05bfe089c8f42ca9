package lint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLinksResolve(t *testing.T)        { report(t, checkLinks(repository(t))) }
func TestMakeTargetsExist(t *testing.T)    { report(t, checkMakeTargets(repository(t))) }
func TestDocumentsAreIndexed(t *testing.T) { report(t, checkIndex(repository(t))) }
func TestShownCommandsExist(t *testing.T)  { report(t, shownCommands(t, repository(t))) }

// documents lists the Markdown files, in order.
func documents(t *tree) (names []string) {
	for name := range t.texts {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var (
	mdLink    = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)\)`)
	mdCode    = regexp.MustCompile("`[^`]*`")
	mdHeading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// prose calls do for every line of a Markdown text outside fenced blocks.
func prose(text string, do func(line int, s string)) {
	fenced := false
	for i, s := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(s), "```") {
			fenced = !fenced
		} else if !fenced {
			do(i+1, s)
		}
	}
}

// anchors is the set of headings of a document in the form that links use.
func anchors(text string) map[string]bool {
	set := map[string]bool{}
	prose(text, func(_ int, s string) {
		if m := mdHeading.FindStringSubmatch(s); m != nil {
			slug := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
			set[strings.ReplaceAll(slug, " ", "-")] = true
		}
	})
	return set
}

// checkLinks follows every relative link to its file and heading.
func checkLinks(t *tree) (findings []string) {
	for _, name := range documents(t) {
		prose(t.texts[name], func(line int, s string) {
			for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(s, ""), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				target := name
				if file != "" {
					target = path.Join(path.Dir(name), file)
				}
				if f, err := t.fsys.Open(target); err != nil {
					findings = append(findings, fmt.Sprintf("%s:%d: the link to %s leads nowhere: there is no %s", name, line, m[1], target))
					continue
				} else {
					f.Close()
				}
				if anchor != "" && path.Ext(target) == ".md" && !anchors(t.texts[target])[anchor] {
					findings = append(findings, fmt.Sprintf("%s:%d: the link to %s leads to no heading of %s", name, line, m[1], target))
				}
			}
		})
	}
	return findings
}

// checkIndex wants every document to be reachable from the index.
func checkIndex(t *tree) (findings []string) {
	for _, name := range documents(t) {
		folder := path.Dir(name)
		if path.Base(name) == "README.md" {
			folder = path.Dir(folder) // a folder's own index stands in the one above
		}
		index := folder + "/README.md"
		rest, below := strings.CutPrefix(name, folder+"/")
		if below && strings.HasPrefix(name, "docs/") && name != "docs/README.md" && !strings.Contains(t.texts[index], "]("+rest+")") {
			findings = append(findings, fmt.Sprintf("%s: not in %s: add a row that says for whom it is", name, index))
		}
	}
	return findings
}

// A shown is one simple command in a shell block of a document.
type shown struct {
	file  string
	line  int
	words []string
}

func (c shown) String() string {
	return fmt.Sprintf("%s:%d: `%s`", c.file, c.line, strings.Join(c.words, " "))
}

// commands lists what the documents tell their readers to type.
func commands(t *tree) (found []shown) {
	for _, name := range documents(t) {
		shell, pending := false, ""
		for i, s := range strings.Split(t.texts[name], "\n") {
			trimmed := strings.TrimSpace(s)
			if lang, fence := strings.CutPrefix(trimmed, "```"); fence {
				shell = !shell && slices.Contains([]string{"sh", "bash", "shell", "console"}, lang)
				pending = ""
				continue
			}
			if !shell {
				continue
			}
			if head, more := strings.CutSuffix(trimmed, `\`); more {
				pending += head + " "
				continue
			}
			for _, words := range split(strings.TrimPrefix(pending+trimmed, "$ ")) {
				found = append(found, shown{name, i + 1, words})
			}
			pending = ""
		}
	}
	return found
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// split cuts a shell line into simple commands: at pipes and the like, without redirections, leading
// assignments and comments. Quotes hold words together.
func split(line string) (cmds [][]string) {
	var words []string
	var word strings.Builder
	inWord, redirect := false, false
	var quote rune
	endWord := func() {
		if inWord && !redirect && (len(words) > 0 || !assignment.MatchString(word.String())) {
			words = append(words, word.String())
		}
		if inWord {
			redirect = false
		}
		word.Reset()
		inWord = false
	}
	endCmd := func() {
		endWord()
		if len(words) > 0 {
			cmds = append(cmds, words)
		}
		words, redirect = nil, false
	}
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCmd()
			return cmds
		case r == ' ' || r == '\t':
			endWord()
		case r == '|' || r == ';' || r == '&' || r == '(' || r == ')':
			endCmd()
		case r == '>' || r == '<':
			endWord()
			redirect = true
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCmd()
	return cmds
}

var makeRule = regexp.MustCompile(`(?m)^([a-z][a-z0-9_ -]*):([^=]|$)`)

// checkMakeTargets wants a rule in the Makefile for every `make x` that is shown.
func checkMakeTargets(t *tree) (findings []string) {
	targets := map[string]bool{}
	for _, m := range makeRule.FindAllStringSubmatch(t.texts["Makefile"], -1) {
		for _, name := range strings.Fields(m[1]) {
			targets[name] = true
		}
	}
	for _, c := range commands(t) {
		if c.words[0] != "make" {
			continue
		}
		for _, w := range c.words[1:] {
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") && !targets[w] {
				findings = append(findings, fmt.Sprintf("%s: the Makefile has no target %s", c, w))
			}
		}
	}
	return findings
}

// shownCommands asks the program itself whether it understands every `godwit ...` that is shown: the
// command line with --help behind it is parsed, but not run.
func shownCommands(t *testing.T, tr *tree) (findings []string) {
	if !slices.ContainsFunc(tr.pkgs, func(p *pkg) bool { return p.dir == "cmd/godwit" }) {
		return nil
	}
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "godwit")
	build := exec.Command("go", "build", "-o", bin, "./cmd/godwit")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return []string{fmt.Sprintf("cmd/godwit does not build: %v\n%s", err, out)}
	}
	for _, c := range commands(tr) {
		if path.Base(c.words[0]) != "godwit" {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		run := exec.CommandContext(ctx, bin, append(slices.Clone(c.words[1:]), "--help")...)
		run.Dir = t.TempDir()
		out, err := run.CombinedOutput()
		cancel()
		if err != nil {
			findings = append(findings, fmt.Sprintf("%s: godwit does not understand it: %v\n%s", c, err, out))
		}
	}
	return findings
}
