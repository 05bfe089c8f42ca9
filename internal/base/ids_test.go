package base

import (
	"strings"
	"testing"
)

func TestGroupNames(t *testing.T) {
	for name, ok := range map[string]bool{"": false, "g": true, strings.Repeat("g", MaxGroupName): true, strings.Repeat("g", MaxGroupName+1): false} {
		if err := (GroupKey{Group: name}).Check(); (err == nil) != ok || err != nil && err.Code != CodeInvalidGroup {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
}
