package dashboard

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestWhatWasSpentIsALineEach(t *testing.T) {
	for want, s := range map[string]policy.Spend{
		"spent: 1.24 usd in 332 answers, 0.00374 usd each":           {Unit: "usd", Amount: 1.2417, Answers: 332},
		"spent: 1,200,431 tokens in 1 answer, 1,200,431 tokens each": {Unit: "tokens", Amount: 1200431, Answers: 1},
		"spent: 0 usd in 2 answers, 0 usd each":                      {Unit: "usd", Answers: 2},
	} {
		v := vitals{known: true, stats: policy.Stats{Spent: []policy.Spend{s}}}
		if got := strings.Join(v.levels(&evidence{}), "\n"); !strings.Contains(got, want) {
			t.Errorf("the page says %s, and not %s", got, want)
		}
	}
	v := vitals{known: true, stats: policy.Stats{Spent: []policy.Spend{{Unit: "usd"}}}}
	if got := strings.Join(v.levels(&evidence{}), "\n"); strings.Contains(got, "spent") {
		t.Errorf("nothing was spent, and the page says %s", got)
	}
}
