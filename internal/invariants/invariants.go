// Package invariants is the one place for assertions: what must hold or the program has a bug.
//
// Check stays on in production; wrap dear checks in `if invariants.Expensive { ... }`, which
// the build tag `invariants` (used by CI) turns on.
package invariants

import "fmt"

// Check panics with the formatted numbers unless ok holds.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("invariant broken: "+format, args...))
	}
}
