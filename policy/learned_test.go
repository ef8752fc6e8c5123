package policy

import (
	"strings"
	"testing"
)

func TestALearnedLimit(t *testing.T) {
	for _, c := range []struct {
		fact string
		in   Bulkhead
		want Bulkhead // resolved
		says string   // what Validate says; empty means nothing
	}{
		{"its bounds have defaults", Bulkhead{Limit: Learned}, Bulkhead{Limit: Learned, Min: 1, Max: 1000}, ""},
		{"the highest is never below the lowest", Bulkhead{Limit: Learned, Min: 5000}, Bulkhead{Limit: Learned, Min: 5000, Max: 5000}, ""},
		{"a queue may be written", Bulkhead{Limit: Learned, Queue: 7}, Bulkhead{Limit: Learned, Min: 1, Max: 1000, Queue: 7}, ""},
		{"the bounds must not cross", Bulkhead{Limit: Learned, Min: 10, Max: 5}, Bulkhead{Limit: Learned, Min: 10, Max: 5}, "bulkhead.min: 10 is more than bulkhead.max, 5"},
		{"slots of whole calls say nothing of the dependency", Bulkhead{Limit: Learned, Per: PerCall}, Bulkhead{Limit: Learned, Per: PerCall, Min: 1, Max: 1000}, "bulkhead.limit: learned needs slots that are held by attempts"},
		{"a fixed limit has no bounds", Bulkhead{Limit: 10, Max: 20}, Bulkhead{Limit: 10, Max: 20, Queue: 20}, "bulkhead.max: 20 has no effect where bulkhead.limit is a number"},
		{"a bound can't be off", Bulkhead{Limit: Learned, Min: Off}, Bulkhead{Limit: Learned, Min: Off, Max: 1000}, "bulkhead.min: off is not possible here"},
		{"other numbers can't be learned", Bulkhead{Limit: Learned, Max: Learned}, Bulkhead{Limit: Learned, Min: 1, Max: Learned}, "bulkhead.max: learned is negative"},
		{"nothing is said of a bulkhead that is off", Bulkhead{Off: true, Limit: Learned, Per: PerCall}, Bulkhead{Off: true, Limit: Learned, Per: PerCall, Min: 1, Max: 1000}, ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := Policy{Bulkhead: c.in}
			c.want.QueueTimeout = defaultQueueTimeout
			if got := p.Resolved().Bulkhead; got != c.want || p.Resolved().Resolved().Bulkhead != c.want {
				t.Errorf("resolves to %+v, want %+v", got, c.want)
			}
			err := p.Validate()
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("Validate says %v, want %q", err, c.says)
			}
		})
	}
}
