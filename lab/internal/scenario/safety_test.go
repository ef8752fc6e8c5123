package scenario

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// A vendor answers 503 to three of ten requests, as production meets it.
const vendor = `version: 1
title: x
duration: 60s
replications: 3
clients:
  shop: {count: 10, rate: 50/s, calls: [{to: payments}]}
services:
  payments: {time: 1ms}
faults:
  - {kind: errors, service: payments, at: 0s, for: 60s, share: 30%}
policies:
  payments: {breaker: off}
`

// What the policy and the call declare decides what is repeated, as it does in
// production: by default nothing.
func TestOnlyWhatIsDeclaredSafeIsRepeated(t *testing.T) {
	for _, c := range []struct {
		fact, policy, call string
		repeats            bool
	}{
		{"nothing is declared", "{}", "", false},
		{"the policy declares it safe", "{safe: true}", "", true},
		{"the caller gives a key", "{}", ", keyed: true", true},
		{"the policy has keys made", "{key: made}", "", true},
		{"a GET", "{}", ", method: GET", true},
		{"a PUT", "{}", ", method: PUT", true},
		{"a POST", "{}", ", method: POST", false},
		{"a POST with a key", "{}", ", method: POST, keyed: true", true},
		{"a payment with the caller's key", "{preset: payment}", ", keyed: true", true},
		{"a GET needs no key", "{key: required}", ", method: GET", true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			text := strings.NewReplacer("payments: {breaker: off}", "payments: "+c.policy, "{to: payments}", "{to: payments"+c.call+"}").Replace(vendor)
			s := study(t, text, Options{})
			got := metric(t, s, 0, "tries", "payments", "during").Mean.Value
			if c.repeats != (got > 1.02) || !c.repeats && got != 1 {
				t.Errorf("%g attempts for each first one", got)
			}
		})
	}
}

func TestACallThatLacksItsKeyIsRefused(t *testing.T) {
	text := strings.Replace(vendor, "payments: {breaker: off}", "payments: {preset: payment}", 1)
	s := study(t, text, Options{Replications: 2})
	for key, want := range map[string]float64{"goodput": 0, "refused": 1, "failed": 1} {
		if got := metric(t, s, 0, key, "", "during").Mean.Value; got != want {
			t.Errorf("%s is %g, want %g", key, got, want)
		}
	}
	if got := metric(t, s, 0, "received", "payments", "during").Mean.Value; got != 0 {
		t.Errorf("%g requests reached the vendor", got)
	}
	ended := s.Sides[0].Phases[0].Ended
	if len(ended) != 1 || ended[0].Reason != "key_missing" || !ended[0].Local {
		t.Errorf("calls ended by %+v", ended)
	}
}

// Callers of a policy that requires a key give one in production, or nothing would work
// there. A file that is tried in a scenario which says nothing of keys is taken so.
func TestCallersGiveTheKeyThatAGivenFileRequires(t *testing.T) {
	for _, key := range []string{"required", "declared"} {
		f, err := config.Parse("prod.yaml", []byte("version: 1\ndependencies:\n  payments: {preset: payment, key: "+key+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := study(t, vendor, Options{Replications: 2, Policies: Policies{File: f}})
		if got := metric(t, s, 0, "goodput", "", "during").Mean.Value; got < 0.6 {
			t.Errorf("key: %s: %g of the calls are answered", key, got)
		}
		if got := metric(t, s, 0, "tries", "payments", "during").Mean.Value; (got > 1.02) != (key == "required") {
			t.Errorf("key: %s: %g attempts for each first one", key, got)
		}
	}
}

// A hedge is a second request at once: where the method says that the work is no
// reading, only a policy that declares everything safe allows it.
func TestWhatIsHedged(t *testing.T) {
	for _, c := range []struct {
		fact, policy, call string
		hedges             bool
	}{
		{"a call with a key", "", ", keyed: true", true},
		{"a GET", "", ", method: GET", true},
		{"a POST with a key", "", ", method: POST, keyed: true", false},
		{"a POST that the policy declares safe", "safe: true, ", ", method: POST", true},
		{"a call of which nothing is said", "", "", false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			text := strings.NewReplacer("payments: {breaker: off}", "payments: {"+c.policy+"breaker: off, hedge: {max: 1, delay: 10ms}}",
				"{to: payments}", "{to: payments"+c.call+"}", "time: 1ms", "time: 50ms", "share: 30%", "share: 1%").Replace(vendor)
			got := metric(t, study(t, text, Options{Replications: 2}), 0, "hedges", "", "during").Mean.Value
			if c.hedges != (got > 0.01) {
				t.Errorf("%g of the calls are hedged", got)
			}
		})
	}
}

// A key that the policy has made is as good for a service that honours keys as the
// caller's.
func TestMadeKeysAreHonoured(t *testing.T) {
	for mode, want := range map[string]bool{"{key: made, breaker: off}": false, "{safe: true, breaker: off}": true} {
		honours := map[bool]string{false: ", honours_keys: true"}[want]
		text := strings.NewReplacer("payments: {breaker: off}", "payments: "+mode, "kind: errors", "kind: lost_answers", "time: 1ms", "time: 1ms"+honours).Replace(vendor)
		if got := metric(t, study(t, text, Options{Replications: 2}), 0, "duplicates", "payments", "during").Mean.Value; (got > 0) != want {
			t.Errorf("%s: %g pieces of work are done twice", mode, got)
		}
	}
}
