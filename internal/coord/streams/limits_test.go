package streams

import (
	"fmt"
	"strings"
	"testing"

	"godwit/internal/base"
)

// TestTopologyLimits: what costs more than any application needs is refused before it is planned.
func TestTopologyLimits(t *testing.T) {
	many := &Topology{}
	for i := range maxSubtopologies + 1 {
		many.Subtopologies = append(many.Subtopologies, Subtopology{ID: fmt.Sprintf("%04d", i), Sources: []string{"t"}})
	}
	if err := many.checkShape(); err == nil || err.Code != base.CodeInvalidTopology {
		t.Errorf("%d subtopologies: %v", len(many.Subtopologies), err)
	}
	wide := &Topology{Subtopologies: []Subtopology{{ID: "0", Sources: strings.Split(strings.Repeat("t,", maxNames), ",")}}}
	if err := wide.checkShape(); err == nil || err.Code != base.CodeInvalidTopology {
		t.Errorf("%d names: %v", len(wide.Subtopologies[0].Sources), err)
	}
	fits := &Topology{Subtopologies: many.Subtopologies[:2]}
	of := func(partitions int) func(string) (Topic, bool) {
		return func(string) (Topic, bool) { return Topic{Name: "t", Partitions: partitions}, true }
	}
	if _, err := configure(fits, of(maxTasks/2)); err != nil {
		t.Errorf("%d tasks: %v", maxTasks, err)
	}
	if _, err := configure(fits, of(maxTasks/2+1)); err == nil || err.Code != base.CodeInvalidTopology {
		t.Errorf("%d tasks: %v", maxTasks+2, err)
	}
}
