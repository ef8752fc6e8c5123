package gabionvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// pages is where the pages of the rules are.
const pages = "https://github.com/gabion-go/gabion/blob/main/docs/lint/"

// A rule is one kind of mistake.
type rule struct {
	id   string // G101; never used again for another rule
	name string // the analyzer's name, and its flag
	doc  string // one sentence
	run  func(*check)
}

// used is what an analyzer of a rule returns: the ignores that kept it from reporting.
type used struct{ ignores []*ignore }

// index makes the view of a package that all rules share.
var index = &analysis.Analyzer{
	Name:             "gabionindex",
	Doc:              "collects what the rules of gabionvet want to know of a package",
	URL:              pages,
	Run:              func(pass *analysis.Pass) (any, error) { return newUnit(pass), nil },
	Requires:         []*analysis.Analyzer{inspect.Analyzer},
	ResultType:       reflect.TypeFor[*unit](),
	RunDespiteErrors: false,
}

// analyzer makes an analyzer of a rule.
func (r rule) analyzer() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:       r.name,
		Doc:        r.id + ": " + r.doc,
		URL:        pages + r.id + ".md",
		Requires:   []*analysis.Analyzer{index},
		ResultType: reflect.TypeFor[*used](),
		Run: func(pass *analysis.Pass) (any, error) {
			return r.check(pass, pass.ResultOf[index].(*unit)), nil
		},
	}
}

func (r rule) check(pass *analysis.Pass, u *unit) *used {
	c := &check{unit: u, rule: r, pass: pass, used: &used{}, told: map[token.Pos]bool{}}
	r.run(c)
	return c.used
}

// check is one run of one rule over one package.
type check struct {
	*unit
	rule rule
	pass *analysis.Pass
	used *used
	told map[token.Pos]bool
}

// report reports a mistake, once for each place, unless a comment ignores it.
func (c *check) report(n ast.Node, fixes []analysis.SuggestedFix, format string, args ...any) {
	if n == nil || c.told[n.Pos()] || !c.unit.looksAt(n.Pos()) {
		return
	}
	c.told[n.Pos()] = true
	if i := c.unit.ignored(c.rule.id, n.Pos()); i != nil {
		c.used.ignores = append(c.used.ignores, i)
		return
	}
	d := diagnostic(c.rule.id, n, format, args...)
	d.SuggestedFixes = fixes
	c.pass.Report(d)
}

func diagnostic(id string, n ast.Node, format string, args ...any) analysis.Diagnostic {
	return analysis.Diagnostic{
		Pos: n.Pos(), End: n.End(), Category: id,
		Message: id + ": " + fmt.Sprintf(format, args...),
		URL:     pages + id + ".md",
	}
}
