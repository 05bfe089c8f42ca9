// Package lint keeps the habits of the repository as tests: layers, purity, budgets, comments, documents.
//
// It has no code of its own beside its tests. A rule is a function from the parsed tree to findings;
// a finding names the place and what to write instead. TestRulesFindWhatTheyForbid feeds each rule a
// small tree that breaks it, so that a rule that stopped looking fails too.
//
// The tree is parsed, not compiled: a package that does not build yet is still checked, and the
// whole takes seconds. Identifiers are resolved by go/types with empty stand-ins for imports, so a
// local variable called time is not mistaken for the package.
//
// `go test ./internal/lint -update` rewrites the folder table in docs/architecture.md.
package lint
