package gabionvet_test

import (
	"os"
	"regexp"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/gabion-go/gabion/gabionvet"
)

// Each want in testdata is found, and nothing else is.
func TestEachMistakeIsFoundAndNothingElse(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), gabionvet.Everything, "planted", "mistakes", "followed", "shapes")
}

// The mistakes that no linter of the field finds.
func TestEachPlantedMistakeIsFound(t *testing.T) {
	src, err := os.ReadFile("testdata/src/planted/planted.go")
	if err != nil {
		t.Fatal(err)
	}
	mistakes := regexp.MustCompile(`(?m)^// [0-9]+: `).FindAllIndex(src, -1)
	for i, m := range mistakes {
		end := len(src)
		if i+1 < len(mistakes) {
			end = mistakes[i+1][0]
		}
		if !regexp.MustCompile("// want `G").Match(src[m[0]:end]) {
			t.Errorf("mistake %d is not found", i+1)
		}
	}
	if len(mistakes) != 11 {
		t.Errorf("%d mistakes are planted, want 11", len(mistakes))
	}
}

func TestTheAnalyzersAreSound(t *testing.T) {
	if err := analysis.Validate(gabionvet.Analyzers); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range gabionvet.Analyzers {
		id := regexp.MustCompile(`^G1[0-9]{2}: `).FindString(a.Doc)
		if id == "" || seen[id] {
			t.Errorf("%s: %q does not begin with an id of its own", a.Name, a.Doc)
		}
		seen[id] = true
	}
}

// Applied together the fixes make code that compiles and in which nothing is found.
func TestFixesMendWhatIsFound(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), gabionvet.Everything, "fixes")
}
