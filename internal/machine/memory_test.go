package machine

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func remembering(t *testing.T) *State {
	t.Helper()
	return NewState(0, rulesOf(t, policy.Policy{
		Timeout:   policy.Timeout{Attempt: 10 * time.Second, AttemptMin: 50 * time.Millisecond, Percentile: 0.95},
		Bulkhead:  policy.Bulkhead{Limit: policy.Learned, Min: 2, Max: 30},
		Endpoints: policy.Endpoints{List: []policy.Endpoint{{Name: "a", URL: "http://a"}, {Name: "b", URL: "http://b"}}},
	}), Setup{Totals: true})
}

// Whatever is said, nothing leaves the bounds of the policy.
func TestWhatOthersSayStaysWithinThePolicy(t *testing.T) {
	for _, c := range []struct {
		fact        string
		said        Memory
		limit       int
		least, most time.Duration // of an attempt
	}{
		{"a limit below the least", Memory{Limit: 1}, 2, 10 * time.Second, 10 * time.Second},
		{"a limit above the most", Memory{Limit: math.MaxInt}, 30, 10 * time.Second, 10 * time.Second},
		{"a time below the least", Memory{Parts: []PartMemory{{Timeout: 1}}}, 0, 50 * time.Millisecond, 50 * time.Millisecond},
		{"a time above the most", Memory{Parts: []PartMemory{{Timeout: time.Hour}}}, 0, 10 * time.Second, 10 * time.Second},
		{"a time that is half of the most", Memory{Parts: []PartMemory{{Timeout: 2 * time.Second}}}, 0, 4 * time.Second, 4 * time.Second},
		{"a pace that ends never", Memory{Parts: []PartMemory{{Held: math.MaxInt64, Rate: math.NaN()}}}, 0, 10 * time.Second, 10 * time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := remembering(t)
			usual := s.Stats(1).Bulkhead.Limit
			Remember(s, 1, 60e9, &c.said)
			st := s.Stats(2)
			if want := max(c.limit, 0); want != 0 && st.Bulkhead.Limit != want || want == 0 && st.Bulkhead.Limit != usual {
				t.Errorf("the limit is %d", st.Bulkhead.Limit)
			}
			if got := st.Main.Timeout.Attempt; got < c.least || got > c.most {
				t.Errorf("an attempt has %v", got)
			}
			if got := st.Main.Paced; got > 5*time.Second {
				t.Errorf("calls are spaced for %v", got)
			}
			// It is never told on as if it was learned here.
			if m := MemoryOf(s, 3); m.Limit != 0 || len(m.Parts) != 0 || m.Resends != 0 {
				t.Errorf("it reports %+v", m)
			}
		})
	}
}

func TestWhatIsTooOldIsNotRemembered(t *testing.T) {
	s := remembering(t)
	usual := s.Stats(1).Bulkhead.Limit
	Remember(s, 60e9, 60e9, &Memory{Limit: 3, Parts: []PartMemory{{Timeout: time.Second, Held: time.Second}}})
	if st := s.Stats(60e9); st.Bulkhead.Limit != usual || st.Main.Timeout.Attempt != 10*time.Second || st.Main.Paced != 0 {
		t.Errorf("%+v", st)
	}
	Remember(s, 1, 60e9, &Memory{Parts: []PartMemory{{Timeout: time.Second}}})
	if got := s.Stats(61e9).Main.Timeout.Attempt; got != 10*time.Second {
		t.Errorf("a minute later an attempt has %v", got)
	}
}

// The choice among endpoints begins with what others know of them.
func TestEndpointsAreKnownToThoseThatStart(t *testing.T) {
	s := remembering(t)
	Remember(s, 1, 60e9, &Memory{Parts: []PartMemory{{Name: "b", Cost: time.Second, Broken: true}, {Name: "a", Cost: time.Millisecond}}})
	for _, e := range s.Stats(2).Endpoints {
		if want := map[string]time.Duration{"a": time.Millisecond, "b": time.Second}[e.Name]; e.Latency != want {
			t.Errorf("%s takes %v, want %v", e.Name, e.Latency, want)
		}
	}
	if m := MemoryOf(s, 3); len(m.Parts) != 0 {
		t.Errorf("it reports %+v", m)
	}
}
