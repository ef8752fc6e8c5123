package tournament

import (
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// held is a result of three runs each: gabion, the plain client and another.
func held(ours, plains, others cell) *Result {
	r := hand(1, []cell{ours}, []cell{plains}, []cell{others})
	r.Entrants[1].Name, r.Entrants[2].Name = plain, "other"
	r.reduce()
	return r
}

func TestWhatIsBelowThePlainClient(t *testing.T) {
	high, mid, low := []float64{0.95, 0.951, 0.949}, []float64{0.948, 0.949, 0.947}, []float64{0.945, 0.946, 0.944}
	wild := []float64{0.7, 0.95, 0.99}
	one, none := []float64{1, 1, 1}, []float64{0, 0, 0}
	for _, c := range []struct {
		fact     string
		ours     []float64
		below    int
		resolved bool
	}{
		{"half a point fewer", low, 1, true},
		{"a fifth of a point fewer is tolerated", mid, 0, false},
		{"as many", high, 0, false},
		{"fewer on average, by chance, is said so", wild, 1, false},
	} {
		r := held(of(c.ours, one, none), of(high, one, none), of(high, one, none))
		if len(r.Below) != c.below || r.Kinds[0].Below != c.below || c.below > 0 && r.Below[0].Resolved != c.resolved {
			t.Errorf("%s: %+v, in the table %d", c.fact, r.Below, r.Kinds[0].Below)
		}
		if says := r.bars()[0]; strings.HasPrefix(says, "In no world") != (c.below == 0) {
			t.Errorf("%s: %s", c.fact, says)
		}
	}
}

func TestTheBestOfTheOthersSendsLittleMore(t *testing.T) {
	high, low := []float64{0.97, 0.971, 0.969}, []float64{0.95, 0.951, 0.949}
	one, more, most, none := []float64{1, 1, 1}, []float64{1.19, 1.19, 1.19}, []float64{1.21, 1.21, 1.21}, []float64{0, 0, 0}
	for _, c := range []struct {
		fact   string
		other  cell
		best   string
		better bool
	}{
		{"more answers at a fair load", of(high, more, none), "other", true},
		{"more answers at a load that is not fair", of(high, most, none), plain, false},
		{"as many answers as the first", of(low, one, none), "other", false},
	} {
		k := held(of(low, one, none), of([]float64{0.9, 0.901, 0.899}, one, none), c.other).Kinds[0]
		if k.Best != c.best || k.Better != c.better {
			t.Errorf("%s: the best is %s, resolved %v", c.fact, k.Best, k.Better)
		}
	}
}

func TestWhatABudgetCostsEveryDay(t *testing.T) {
	f, err := scenario.Parse("family:everyday", []byte(blip))
	if err != nil {
		t.Fatal(err)
	}
	none := []float64{0, 0, 0}
	for _, c := range []struct {
		fact              string
		fails, least      float64 // of a hundred calls
		sends, without    float64
		missed, aimIsHeld bool
	}{
		{"as many failures", 10, 10, 1.05, 1.05, false, true},
		{"a tenth more failures", 11, 10, 1.05, 1.05, false, true},
		{"half as many again", 15, 10, 1.05, 1.05, true, false},
		{"as many failures at more sends", 10, 10, 1.08, 1.05, true, false},
		{"few more of next to none, which is chance", 0.2, 0.1, 1.05, 1.05, false, false},
	} {
		r := hand(1, []cell{of([]float64{1 - c.fails/100, 1 - c.fails/100, 1 - c.fails/100}, []float64{c.sends, c.sends, c.sends}, none)})
		r.Worlds[0].File, r.Worlds[0].Kind = f, family.Everyday
		r.free = []cell{of([]float64{1 - c.least/100, 1 - c.least/100, 1 - c.least/100}, []float64{c.without, c.without, c.without}, none)}
		r.reduce()
		if e := r.Everyday; e == nil || len(e.Missed) > 0 != c.missed || e.Held() != c.aimIsHeld {
			t.Errorf("%s: %+v", c.fact, e)
		}
	}
}

// A world of everyday errors is also played without the budget, with what the entrant changes, and
// by no other entrant.
func TestTheFirstEntrantIsPlayedWithoutItsBudget(t *testing.T) {
	worlds, err := Named([]string{"family:everyday-20pct-1x0.2", "family:steady-5pct-1x0.02"}, func(bool) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	once := func(p policy.Policy) policy.Policy {
		p.Retry.Attempts = 2
		p.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow, Ratio: 0.001, Floor: policy.Off}
		return p
	}
	r, err := Run(t.Context(), Options{Entrants: []Entrant{{Name: "a", Policies: scenario.Policies{Name: "a", Change: once}, Judged: true}}, Worlds: worlds})
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Everyday; e == nil || e.Worlds != 1 || e.Failures < 4 || e.Sends > 0.95 || len(e.Missed) != 1 || e.Held() {
		t.Errorf("hardly any retry, against as many as there are attempts: %+v", e)
	}
	if sends := r.free[0].mean(load); sends > 1.22 {
		t.Errorf("without its budget it sends %.3f attempts a call, and two are the most of a call: a fifth of the calls fails", sends)
	}
	if len(r.free[1].values[answered]) != 0 {
		t.Error("a world that is not of everyday errors was played without the budget")
	}
	if kinds := []string{r.Kinds[0].Name, r.Kinds[1].Name}; !slices.Equal(kinds, []string{family.Everyday, "steady errors"}) {
		t.Errorf("the kinds are %v", kinds)
	}
}
