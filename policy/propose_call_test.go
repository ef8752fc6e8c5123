package policy

import (
	"testing"
	"time"
)

// What is proposed must be possible beside the other timeouts.
func TestAProposedAttemptFitsIntoTheCall(t *testing.T) {
	p := Policy{Timeout: Timeout{Attempt: 8 * time.Second, Call: 10 * time.Second}}
	got, ok := p.ProposeAttempt(LatencyStats{Samples: 5000, P50: time.Second, P99: 6 * time.Second, P999: 7 * time.Second})
	if p.Timeout.Attempt = got.Attempt; !ok || p.Validate() != nil {
		t.Errorf("%v, %t: %v", got, ok, p.Validate())
	}
	p.Timeout.Attempt = 10 * time.Second
	if got, ok := p.ProposeAttempt(LatencyStats{Samples: 5000, P50: time.Second, P99: 6 * time.Second, P999: 9 * time.Second}); ok {
		t.Errorf("the whole call's time cannot be more: %v", got)
	}
}
