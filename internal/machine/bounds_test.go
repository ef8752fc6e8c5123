package machine

import (
	"errors"
	"testing"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/policy"
)

// The largest limit and queue that a policy may say are the largest that a bulkhead holds.
func TestWhatAPolicyMaySayABulkheadHolds(t *testing.T) {
	const maxSlots, maxQueue = 1<<21 - 1, 1<<20 - 1
	for _, over := range []int{0, 1} {
		p := policy.Policy{Bulkhead: policy.Bulkhead{Limit: maxSlots + over, Queue: maxQueue + over}}
		findings, _ := errors.AsType[policy.Mistakes](p.Validate())
		if want := 2 * over; len(findings) != want {
			t.Errorf("%d slots and %d places: %v", p.Bulkhead.Limit, p.Bulkhead.Queue, findings)
		}
		s := bulkhead.New(p.Bulkhead.Limit, p.Bulkhead.Queue, false).Stats()
		if holds := s.Limit == p.Bulkhead.Limit && s.QueueLimit == p.Bulkhead.Queue; holds != (over == 0) {
			t.Errorf("asked for %d and %d, it has %d and %d", p.Bulkhead.Limit, p.Bulkhead.Queue, s.Limit, s.QueueLimit)
		}
	}
}
