package kafka

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentListsTheRequests holds the table of docs/protocols/kafka.md against the list of what is served.
func TestDocumentListsTheRequests(t *testing.T) {
	const name = "../../../docs/protocols/kafka.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) \| (\d+) \|$`).FindAllStringSubmatch(string(text), -1) {
		got = append(got, strings.Join(m[1:], " "))
	}
	for _, a := range listAPIs() {
		want = append(want, fmt.Sprint(a.key.Name(), " ", a.min, " ", a.max))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s lists\n%s\n\nserved is\n%s", name, g, w)
	}
}
