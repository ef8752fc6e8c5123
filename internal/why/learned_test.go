package why

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

func TestMovesOfALimitInWords(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		fact string
		n    *policy.Numbers
		want string
	}{
		{"set by a policy", nil, "the bulkhead has 40 slots now"},
		{"nothing is known yet", &policy.Numbers{Limit: 40, Before: 80, Moved: terms.LimitTried, Each: 200 * ms, Answered: 400},
			"the bulkhead has 40 slots now, it had 80 (fewer are tried for a moment): 400 answers a second took 200ms each"},
		{"found", &policy.Numbers{Limit: 40, Before: 20, Moved: terms.LimitFound, Each: 110 * ms, Usual: 100 * ms, Answered: 300},
			"the bulkhead has 40 slots now, it had 20 (found by trying fewer): 300 answers a second took 110ms each, without waiting they take 100ms"},
	} {
		if got := ofDependency(policy.Event{Kind: policy.KindLimitMoved, Count: 40, Numbers: c.n}); got != c.want {
			t.Errorf("%s: %q, want %q", c.fact, got, c.want)
		}
	}
	for _, m := range []string{terms.LimitGrew, terms.LimitTried, terms.LimitFound, terms.LimitCrowded, terms.LimitStarved, terms.LimitBack} {
		if moves[m] == "" {
			t.Errorf("%s has no words", m)
		}
	}
}
