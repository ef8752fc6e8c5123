package gabionvet_test

import (
	"fmt"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/gabion-go/gabion/gabionvet"
)

// collected takes what analysistest has to say of findings without a want.
type collected struct{ *testing.T }

func (collected) Errorf(string, ...any) {}

// Of the mistakes that were planted without knowledge of the rules each is found by the rule that its list names, and
// not at all where it names none. docs/vet.md has the figures.
func TestMistakesPlantedUnaware(t *testing.T) {
	page, err := os.ReadFile("../docs/vet.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "twelve", "thirteen", "fourteen", "fifteen"} {
		t.Run(set, func(t *testing.T) {
			list, err := os.ReadFile("testdata/src/unaware/" + set + "/mistakes.txt")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			rules, place := map[string]string{}, map[string]string{}
			for line := range strings.Lines(string(list)) {
				f := strings.Split(strings.TrimSpace(line), " | ")
				if len(f) != 4 {
					continue
				}
				name := "unaware/" + set + "/" + strings.TrimSuffix(f[0], "/"+f[0][4:])
				names, rules[name], place[name] = append(names, name), f[1], f[2]
				if src, err := os.ReadFile("testdata/src/unaware/" + set + "/" + f[0]); err != nil || !strings.Contains(string(src), f[2]) {
					t.Errorf("%s does not have %q: %v", name, f[2], err)
				}
			}
			found := map[string][]string{}
			for _, r := range analysistest.Run(collected{t}, analysistest.TestData(), gabionvet.Everything, names...) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				for _, e := range r.Pass.TypeErrors {
					t.Errorf("%s does not type-check: %v", r.Pass.Pkg.Path(), e)
				}
				for _, d := range r.Diagnostics {
					found[r.Pass.Pkg.Path()] = append(found[r.Pass.Pkg.Path()], d.Category)
					if at := r.Pass.Fset.Position(d.Pos); !beforeRight(t, at) {
						t.Errorf("%s: false alarm in what is right: %s", at, d.Message)
					}
				}
			}
			n, ofRule := 0, regexp.MustCompile(`^G1[0-9]{2}$`)
			for _, name := range names {
				switch is := slices.Contains(found[name], rules[name]); {
				case is:
					n++
				case ofRule.MatchString(rules[name]):
					t.Errorf("%s: %s finds nothing, but %v does", name, rules[name], found[name])
				}
			}
			if want := fmt.Sprintf("| %s | %d of %d |", set, n, len(names)); len(names) < 13 || !strings.Contains(string(page), want) {
				t.Errorf("the page does not have %q", want)
			}
			if os.Getenv("SHOW") != "" {
				for _, name := range names {
					t.Log(name, rules[name], found[name])
				}
			}
		})
	}
}

// beforeRight reports whether a place stands before the variant of a mistake that is right; where a set has one, it is the last part of each file.
func beforeRight(t *testing.T, at token.Position) bool {
	src, err := os.ReadFile(at.Filename)
	if err != nil {
		t.Fatal(err)
	}
	right := strings.Index(string(src), "\n// RIGHT\n")
	return right < 0 || at.Offset < right
}
