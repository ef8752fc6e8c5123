package policy

import (
	"testing"

	"github.com/gabion-go/gabion/bulkhead"
)

// The largest limit and queue that a policy may say are the largest that a bulkhead holds.
func TestWhatAPolicyMaySayABulkheadHolds(t *testing.T) {
	for _, over := range []int{0, 1} {
		p := Policy{Bulkhead: Bulkhead{Limit: maxSlots + over, Queue: maxQueue + over}}
		if err := p.Validate(); (err == nil) != (over == 0) {
			t.Errorf("%d slots and %d places: %v", p.Bulkhead.Limit, p.Bulkhead.Queue, err)
		}
		s := bulkhead.New(p.Bulkhead.Limit, p.Bulkhead.Queue, false, 1).Stats()
		if holds := s.Limit == p.Bulkhead.Limit && s.QueueLimit == p.Bulkhead.Queue; holds != (over == 0) {
			t.Errorf("asked for %d and %d, it has %d and %d", p.Bulkhead.Limit, p.Bulkhead.Queue, s.Limit, s.QueueLimit)
		}
	}
}

// Kinds has each kind once, and nothing that is none.
func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if name := k.String(); name == "" || name == Kind(numKinds).String() || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[k.String()] = true
	}
	if len(seen) != int(numKinds)-1 {
		t.Errorf("%d of %d kinds", len(seen), numKinds-1)
	}
}
