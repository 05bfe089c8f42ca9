package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Scripts runs every script of the package under test, each in a test of its own. start makes a machine for one script, and returns what
// runs a command in it and writes the answer to out.
func Scripts(t *testing.T, start func(t *testing.T, out *Transcript) func(Command)) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out := &Transcript{}
			play(string(want), out, start(t, out))
			got := out.String()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: the transcript is now\n%s", file, got)
			}
		})
	}
}

// play runs the commands of a script and writes its transcript.
func play(script string, out *Transcript, run func(Command)) {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(out, line)
		if line != "" && line[0] != '#' {
			run(parse(line))
		}
	}
}

// Transcript is a script with its answers.
type Transcript struct{ strings.Builder }

// Say writes a line of an answer.
func (t *Transcript) Say(format string, args ...any) { fmt.Fprintf(t, "  "+format+"\n", args...) }

// Command is one line of a script: a verb, and then key=value and plain words in any order.
type Command struct {
	Verb   string
	Values map[string]string
	Words  []string // those without "=", or with ":" in front of it
}

func parse(line string) Command {
	words := strings.Fields(line)
	c := Command{Verb: words[0], Values: map[string]string{}}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.Contains(k, ":") {
			c.Values[k] = v
		} else {
			c.Words = append(c.Words, w)
		}
	}
	return c
}

// Has says whether the word stands there, alone or with a value.
func (c Command) Has(word string) bool {
	_, ok := c.Values[word]
	return ok || slices.Contains(c.Words, word)
}

// Str is the value of a key.
func (c Command) Str(key, unsaid string) string {
	if v, ok := c.Values[key]; ok {
		return v
	}
	return unsaid
}

// Num is the value of a key as a number, see [Number].
func (c Command) Num(key string, unsaid int64) int64 {
	if v, ok := c.Values[key]; ok {
		return Number(v)
	}
	return unsaid
}

// List is the value of a key, which commas divide; nil if there is none.
func (c Command) List(key string) []string {
	if c.Values[key] == "" {
		return nil
	}
	return strings.Split(c.Values[key], ",")
}

// Number reads a decimal number. It panics with what it cannot read: a script is the test's own.
func Number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
