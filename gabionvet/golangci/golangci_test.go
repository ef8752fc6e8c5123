package golangci_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

	"github.com/gabion-go/gabion/gabionvet"
	_ "github.com/gabion-go/gabion/gabionvet/golangci"
)

// golangci-lint finds the plugin by its name, makes it with the settings of the file, and
// asks for its analyzers.
func TestThePluginRegistersItself(t *testing.T) {
	for _, c := range []struct {
		fact     string
		settings any
		want     int
	}{
		{"without settings all rules run", nil, len(gabionvet.Analyzers)},
		{"with rules these run", map[string]any{"rules": []string{"G112", "G191"}}, 2},
		{"a rule that is not there is refused", map[string]any{"rules": []string{"G999"}}, -1},
		{"a setting that is not there is refused", map[string]any{"rule": []string{"G112"}}, -1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			make, err := register.GetPlugin("gabionvet")
			if err != nil {
				t.Fatal(err)
			}
			p, err := make(c.settings)
			if err != nil {
				if c.want >= 0 {
					t.Fatal(err)
				}
				return
			}
			all, err := p.BuildAnalyzers()
			if err != nil || len(all) != c.want {
				t.Errorf("%d analyzers, %v; want %d", len(all), err, c.want)
			}
			if p.GetLoadMode() != register.LoadModeTypesInfo {
				t.Errorf("load mode %q: the rules need types", p.GetLoadMode())
			}
		})
	}
}
