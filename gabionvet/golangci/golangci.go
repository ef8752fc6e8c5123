// Package golangci makes gabionvet a module plugin of golangci-lint. A file
// .custom-gcl.yml names it, and golangci-lint custom builds a program with it:
//
//	version: v2.15.0
//	plugins:
//	  - module: github.com/gabion-go/gabion/gabionvet
//	    import: github.com/gabion-go/gabion/gabionvet/golangci
//	    version: latest
//
// In .golangci.yml it is then a custom linter of type module with the name gabionvet. Its
// setting rules lists the ids that run; without it all do.
package golangci

import (
	"fmt"
	"slices"
	"strings"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/gabion-go/gabion/gabionvet"
)

func init() { register.Plugin("gabionvet", New) }

// Settings are what .golangci.yml may say of the linter.
type Settings struct {
	// Rules are the ids of the rules that run, such as G101. None means all.
	Rules []string `json:"rules"`
}

type plugin struct{ analyzers []*analysis.Analyzer }

// New makes the linter. It refuses an id that no rule has.
func New(settings any) (register.LinterPlugin, error) {
	s, err := register.DecodeSettings[Settings](settings)
	if err != nil {
		return nil, fmt.Errorf("gabionvet: %w", err)
	}
	if len(s.Rules) == 0 {
		return plugin{gabionvet.Analyzers}, nil
	}
	var chosen []*analysis.Analyzer
	for _, id := range s.Rules {
		i := slices.IndexFunc(gabionvet.Analyzers, func(a *analysis.Analyzer) bool { return strings.HasPrefix(a.Doc, id+":") })
		if i < 0 {
			return nil, fmt.Errorf("gabionvet: there is no rule %q", id)
		}
		chosen = append(chosen, gabionvet.Analyzers[i])
	}
	return plugin{chosen}, nil
}

// BuildAnalyzers returns the rules that run.
func (p plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) { return p.analyzers, nil }

// GetLoadMode says that the rules need types.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
