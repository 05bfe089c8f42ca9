//go:build !invariants

package invariants

// Expensive says whether dear assertions run in this build.
const Expensive = false
