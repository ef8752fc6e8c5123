package policy

import (
	"testing"
	"time"
)

// SPEC C8.
func TestPresetsAreValidAndFit(t *testing.T) {
	for _, name := range PresetNames() {
		t.Run(name, func(t *testing.T) {
			p, ok := Preset(name)
			if !ok {
				t.Fatal("named, but not there")
			}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			need, call := longest(p.Resolved()), p.Resolved().Timeout.Call
			if fits := need <= call; fits == (name == "payment") {
				t.Errorf("all attempts need %v of a call timeout of %v", need, call)
			}
		})
	}
}

// longest returns how long a call takes when each attempt times out and each
// wait is the longest.
func longest(p Policy) (sum time.Duration) {
	var wait time.Duration
	for n := range p.Retry.Attempts {
		sum += p.Timeout.Attempt
		if n > 0 {
			wait = p.Retry.Backoff.Delay(n-1, wait, 1)
			sum += wait
		}
	}
	return sum
}

func TestPresetSaysWhatTheSpecificationSays(t *testing.T) {
	attempts := map[string]int{"external-api": 4, "database": 6, "message-queue": 11, "internal-rpc": 3, "payment": 4, "cache": 5, "llm": 3, "best-effort": 2}
	if len(attempts) != len(PresetNames()) {
		t.Errorf("presets are %v", PresetNames())
	}
	for name, n := range attempts {
		if p, _ := Preset(name); p.Resolved().Retry.Attempts != n {
			t.Errorf("%s has %d attempts, want %d", name, p.Retry.Attempts, n)
		}
	}
	pay, _ := Preset("payment")
	if pay.Key != KeyRequired || pay.Hedge.Max != 0 || pay.Bulkhead.Limit != 10 || pay.Breaker != (Breaker{}) {
		t.Errorf("payment is %+v", pay)
	}
	if _, ok := Preset("payments"); ok {
		t.Error("a preset that does not exist is there")
	}
}
