package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// While calls of high priority always wait, one turn in ten is of the lower ones, and no priority has none.
func TestNoPriorityWaitsForEver(t *testing.T) {
	const low, normal, high = policy.PriorityLow, policy.PriorityNormal, policy.PriorityHigh
	g := hundred()
	ask(t, 0, 0, uses(g, 98), Taken, 0)
	last := clock.Instant(0)
	var waiting []*Reservation
	join := func(p policy.Priority) {
		r := g.Reserve(&Cost{Unit: "tokens", Amount: 1}, "", p)
		ask(t, last, clock.Never, r, Later, 0)
		waiting = append(waiting, r)
	}
	for range 5 {
		join(low)
		join(normal)
	}
	for range 3 {
		join(high)
	}
	var turns strings.Builder
	for now := second; turns.Len() < 60; now += second {
		for i, r := range waiting {
			if _, a := r.Ask(now, clock.Never, nil); a == Taken {
				waiting = append(waiting[:i], waiting[i+1:]...)
				last = now
				turns.WriteByte("LnH"[r.priority-low])
				if r.priority == high {
					join(high)
				}
				break
			}
		}
	}
	if got, want := turns.String(), strings.Repeat("HHHHHHHHHLHHHHHHHHHn", 3); got != want {
		t.Errorf("the turns are %s, want %s", got, want)
	}
}

// A call that needs another quota than those that go has no turn for that.
func TestATurnIsOfAQuotaThatBothNeed(t *testing.T) {
	g := hundred(policy.Quota{Unit: "images", Amount: 10, Span: 100 * time.Second, Estimate: 0, Among: 1})
	image := g.Reserve(&Cost{Unit: "images", Amount: 10, Next: &Cost{Unit: "tokens", Amount: 0}}, "", policy.PriorityLow)
	ask(t, 0, clock.Never, image, Taken, 0)
	ask(t, 0, clock.Never, g.Reserve(image.cost, "", policy.PriorityLow), Later, 0)
	for range 50 {
		ask(t, 0, 0, uses(g, 1), Taken, 0)
	}
	if r := g.line.waiting[0]; r.raised {
		t.Error("it has a turn in a quota that it does not need")
	}
}

// One that may not go before the first answer is refused with a time after which it makes sense to come again.
func TestOneThatIsEarlyGetsATime(t *testing.T) {
	for _, tt := range []struct {
		fact  string
		quota policy.Quota
		want  clock.Instant
	}{
		{"what it needs comes back", policy.Quota{Unit: policy.Requests, Amount: 500, Span: time.Minute, Estimate: 1}, second * 120 / 1000},
		{"a second at most", policy.Quota{Unit: policy.Requests, Amount: 100, Span: 24 * time.Hour, Estimate: 1, Window: true}, second},
		{"ten milliseconds at least", policy.Quota{Unit: policy.Requests, Amount: 1e6, Span: time.Second, Estimate: 1}, second / 100},
	} {
		tt.quota.Among = 1
		g := New(0, []policy.Quota{tt.quota})
		for range int(tt.quota.Amount * firstOut) {
			g.Reserve(nil, "", 0).Anyway(0)
		}
		at, a := g.Reserve(nil, "", 0).Ask(0, 0, nil)
		if a != Refused || at != tt.want {
			t.Errorf("%s: answer %d, at %v, want %v", tt.fact, a, time.Duration(at), time.Duration(tt.want))
		}
	}
}
