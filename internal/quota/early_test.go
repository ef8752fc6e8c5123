package quota

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

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
