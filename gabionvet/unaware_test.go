package gabionvet_test

import (
	"fmt"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/gabion-go/gabion/gabionvet"
)

type quiet struct{ testing.TB }

func (quiet) Errorf(string, ...any) {}

func TestUnaware(t *testing.T) {
	for _, r := range analysistest.Run(quiet{t}, analysistest.TestData(), gabionvet.Everything, inSets("one", "two")...) {
		for _, d := range r.Diagnostics {
			p := r.Pass.Fset.Position(d.Pos)
			fmt.Printf("%s:%d: %s\n", p.Filename[len(analysistest.TestData()):], p.Line, d.Message)
		}
	}
}

func inSets(sets ...string) (p []string) {
	for _, set := range sets {
		for i := 1; i <= 13; i++ {
			p = append(p, fmt.Sprintf("unaware/%s/m%02d", set, i))
		}
	}
	return p
}
