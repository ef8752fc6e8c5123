package gabionvet

import (
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Everything runs all rules in one pass, so that tests load packages once.
var Everything = &analysis.Analyzer{
	Name: "everything",
	Doc:  "all rules",
}

func init() {
	Everything.Requires = []*analysis.Analyzer{index}
	Everything.Run = func(pass *analysis.Pass) (any, error) {
		u := pass.ResultOf[index].(*unit)
		results := map[*analysis.Analyzer]any{}
		for i, r := range rules {
			results[ofRules[i]] = r.check(pass, u)
		}
		with := *pass
		with.ResultOf = results
		staleIgnores(&with, &check{unit: u, rule: rule{id: "G191"}, pass: pass, used: &used{}}, rules, ofRules)
		return nil, nil
	}
}

// Prerequisites are what Everything needs to have run, in order.
func Prerequisites() []*analysis.Analyzer { return []*analysis.Analyzer{inspect.Analyzer, index} }
