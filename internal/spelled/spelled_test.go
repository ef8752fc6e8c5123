package spelled

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

func TestWhatAPolicySays(t *testing.T) {
	got := Written(policy.Policy{
		Safe:    true,
		Timeout: policy.Timeout{Call: 90 * time.Second, Attempt: policy.Off},
		Retry:   policy.Retry{Attempts: 2, Backoff: backoff.Const(0), Budget: policy.Budget{Off: true, Capacity: 3}},
		Breaker: policy.Breaker{FailureRate: 0.5},
		HTTP:    policy.HTTP{Transient: []int{404, 500}, Permanent: []int{}},
	})
	want := []Setting{
		{"safe", "true"}, {"timeout.call", "1m30s"}, {"timeout.attempt", "off"}, {"retry.attempts", "2"},
		{"retry.backoff.kind", "constant"}, {"retry.backoff.base", "off"}, {"retry.budget", "off"},
		{"breaker.failure_rate", "50%"}, {"http.transient", "[404, 500]"},
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	if len(Written(policy.Policy{})) != 0 {
		t.Error("the zero policy says something")
	}
}
