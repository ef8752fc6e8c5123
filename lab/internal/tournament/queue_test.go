package tournament

import (
	"testing"

	"github.com/gabion-go/gabion/internal/testrace"
)

// A refusal that costs half an answer makes each re-send take another call's turn. With retries that went on
// paying for themselves, eleven of a hundred calls fewer were answered than by a plain client, at a load of 1.2.
func TestRetriesEndWhereCallsWaitForEachOther(t *testing.T) {
	testrace.Serial(t)
	worlds, err := Named([]string{"family:cost-refusing-50pct-100x2", "family:cost-refusing-10pct-100x2"}, func(bool) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Opponents([]string{"plain"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Entrants: append([]Entrant{Gabion()}, plain...), Worlds: worlds})
	if err != nil {
		t.Fatal(err)
	}
	for w := range worlds {
		ours, theirs := &r.cells[0][w], &r.cells[1][w]
		if ours.mean(answered) < theirs.mean(answered)-0.03 || ours.mean(load) > 1.12 {
			t.Errorf("%s: %.4f answered in time at a load of %.3f, and %.4f by a plain client",
				worlds[w].File.Name, ours.mean(answered), ours.mean(load), theirs.mean(answered))
		}
	}
}
