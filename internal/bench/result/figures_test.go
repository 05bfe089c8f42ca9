package result

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declared lists the constants of type Figure in figures.go.
func declared(t *testing.T) (figures []Figure) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "figures.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Figure" {
			return true
		}
		for _, e := range v.Values {
			s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			figures = append(figures, Figure(s))
		}
		return true
	})
	return figures
}

func TestEveryFigureIsDescribed(t *testing.T) {
	all := declared(t)
	if len(all) < 20 {
		t.Fatalf("found only %d figures", len(all))
	}
	for _, f := range all {
		a, ok := abouts[f]
		switch {
		case !ok:
			t.Errorf("%s is not in the table abouts", f)
		case a.Title == "" || a.Unit == "" || len(a.Title) > 20 || len(a.Unit) > 10:
			t.Errorf("%s: title %q and unit %q have to fit into the head of a table", f, a.Title, a.Unit)
		case !strings.HasSuffix(a.Says, ".") || strings.Contains(a.Says, ". "):
			t.Errorf("%s: want one sentence, have %q", f, a.Says)
		}
		if n := len(slices.DeleteFunc(slices.Clone(Order), func(o Figure) bool { return o != f })); n != 1 {
			t.Errorf("%s is %d times in Order", f, n)
		}
	}
	if len(abouts) != len(all) || len(Order) != len(all) {
		t.Errorf("%d figures, %d described, %d in order", len(all), len(abouts), len(Order))
	}
	for _, f := range OfUsage {
		if !slices.Contains(all, f) {
			t.Errorf("OfUsage has %s, which is no figure", f)
		}
	}
}

func TestUnknownFigureHasItsName(t *testing.T) {
	if a := Figure("odd").About(); a.Title != "odd" || a.Better != Neutral {
		t.Errorf("got %+v", a)
	}
}
