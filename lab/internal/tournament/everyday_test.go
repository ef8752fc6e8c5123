package tournament

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/lab/internal/family"
)

// sparsest is a fleet whose clients call once in 50 s. What each may keep for the next
// failure is what all of them may send at once in an outage, and the budget keeps little:
// about five times as many of its calls fail as without one.
const sparsest = "-10000x0.02"

// The budget must not be what everyday failures cost: with the defaults hardly more
// calls fail than without a budget, at as many sends.
func TestEverydayErrorsCostHardlyMoreThanWithoutABudget(t *testing.T) {
	testrace.Serial(t)
	names := []string{"family:everyday-20pct-1x20", "family:everyday-10pct-1x0.2"}
	if !testing.Short() {
		names = nil
		for _, w := range family.All() {
			if w.Group == family.Everyday && !strings.HasSuffix(w.Name, sparsest) {
				names = append(names, w.Name)
			}
		}
	}
	worlds, err := Named(names, func(bool) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	gabion := Gabion()
	gabion.Judged = true
	r, err := Run(t.Context(), Options{Entrants: []Entrant{gabion}, Worlds: worlds})
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Everyday; e.Worlds != len(names) || !e.Held() {
		t.Errorf("%s:\n%s", e.Sentence(), strings.Join(e.Missed, "\n"))
	}
}
