package lint

import (
	"fmt"
	"go/ast"
	"testing"
)

// The budgets. They bound the tails, where programs rot; medians take care of themselves.
const (
	maxFunctionLines = 70   // of code outside tests, from "func" to the closing brace
	maxFileLines     = 800  // of every file; aim for 500
	maxPackageLines  = 8000 // of code outside tests; aim for 4,000
	maxStructFields  = 25   // an embedded struct counts as one
)

func TestBudgets(t *testing.T) { report(t, checkBudgets(repository(t))) }

func checkBudgets(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		sum := 0
		for _, s := range p.files {
			if s.generated {
				continue
			}
			if s.lines > maxFileLines {
				findings = append(findings, fmt.Sprintf("%s: %d lines, the budget is %d: split it by what its parts are about", s.path, s.lines, maxFileLines))
			}
			if !s.test {
				sum += s.lines
				findings = append(findings, declBudgets(t, s)...)
			}
		}
		if sum > maxPackageLines {
			findings = append(findings, fmt.Sprintf("%s: %d lines, the budget is %d: find the part with the narrowest interface and make it a package", p.dir, sum, maxPackageLines))
		}
	}
	return findings
}

// declBudgets measures the functions and structs of a file.
func declBudgets(t *tree, s *source) (findings []string) {
	line := func(n ast.Node) (from, to int) {
		return t.fset.Position(n.Pos()).Line, t.fset.Position(n.End()).Line
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			from, to := line(n)
			if length := to - from + 1; length > maxFunctionLines {
				findings = append(findings, fmt.Sprintf("%s: func %s has %d lines, the budget is %d: name its steps as functions of their own", t.at(n), n.Name.Name, length, maxFunctionLines))
			}
		case *ast.TypeSpec:
			st, ok := n.Type.(*ast.StructType)
			if !ok {
				return true
			}
			if fields := st.Fields.NumFields(); fields > maxStructFields {
				findings = append(findings, fmt.Sprintf("%s: struct %s has %d fields, the budget is %d: group those that change together into a struct of their own", t.at(n), n.Name.Name, fields, maxStructFields))
			}
		}
		return true
	})
	return findings
}
