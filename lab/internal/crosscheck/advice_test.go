package crosscheck

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

// answered is the share of the calls that are answered in the trouble by a policy of that
// timeout.
func answered(t *testing.T, timeout policy.Timeout, service, fault string) float64 {
	t.Helper()
	return answeredBy(t, timeout, service, fault, 92)
}

func answeredBy(t *testing.T, timeout policy.Timeout, service, fault string, seed uint64) float64 {
	t.Helper()
	s, err := lab.Parse("world.yaml", fmt.Appendf(nil, `version: 1
title: advice
duration: 150s
warmup: 10s
replications: 1
clients:
  shop: {count: 20, rate: 300/s, calls: [{to: db, network: 1ms}]}
services:
  db: {%s}
policies:
  db: {}
faults:
  - {service: db, at: 20s, for: 100s, %s}
`, service, fault))
	if err != nil {
		t.Fatal(err)
	}
	f := &config.File{Name: "gabion.yaml", Policies: map[string]policy.Policy{"db": {Safe: true, Timeout: timeout}}}
	r, err := s.Run(context.Background(), lab.Options{Config: f, Alone: true, Seed: seed, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return (&outcome{report: r}).metric(t, "goodput", "", "during")
}

// The worlds of the advice: one replica of three hangs, or half of the capacity is gone.
const (
	swallows  = "kind: black_hole, replicas: 1"
	vanish    = "kind: black_hole"
	halved    = "kind: brown_out, factor: 0.5"
	replicas  = "replicas: 3, workers: 10, queue: 400, time: lognormal 20ms/100ms"
	twoHumps  = "workers: 20, queue: 400, time: 90% lognormal 20ms/100ms | 10% lognormal 250ms/600ms"
	noTimeout = policy.Off
)

// Where answers are late, attempts that go on bring nearly as much as no attempt timeout does.
// Where requests vanish, the trials cost half a point at most: over twelve seeds 0.38 of 90.0 beside a replica that
// hangs, and half of the capacity gone brings 65.2 instead of 16.8. ADR 92 has more worlds.
func TestAttemptsGoOnWhereThatHelps(t *testing.T) {
	short := policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}
	strict, none := short, short
	strict.Strict, none.Attempt = true, noTimeout
	if now, best := answered(t, short, twoHumps, halved), answered(t, none, twoHumps, halved); now < 0.95*best {
		t.Errorf("half of the capacity is gone: %.1f %% are answered, and %.1f without an attempt timeout", 100*now, 100*best)
	}
	for _, fault := range []string{swallows, vanish} {
		if now, before := answered(t, short, replicas, fault), answered(t, strict, replicas, fault); now < before-0.006 {
			t.Errorf("%s: %.1f %% are answered, and %.1f with strict timeouts", fault, 100*now, 100*before)
		}
	}
}

// G008 advises a measured attempt timeout where an attempt may take the call. So it must help where
// attempts hang, and do no harm where answers are late.
func TestWhatG008AdvisesHelps(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			whole := policy.Timeout{Call: 3 * time.Second, Attempt: 3 * time.Second, Strict: strict}
			advised := policy.Timeout{Call: whole.Call, Percentile: 0.999, Strict: strict} // attempt: p99.9, as G008 says
			help := answered(t, advised, replicas, swallows) - answered(t, whole, replicas, swallows)
			harm := answered(t, whole, twoHumps, halved) - answered(t, advised, twoHumps, halved)
			t.Logf("one replica of three hangs: %+.1f points; half of the capacity is gone: %+.1f points", 100*help, -100*harm)
			text := fmt.Sprintf("version: 1\ndependencies:\n  db: {safe: true, timeout: {call: 3s, attempt: 3s, strict: %v}}\n", strict)
			f, found := config.Read("gabion.yaml", bytes.NewBufferString(text).Bytes())
			if len(found) > 0 {
				t.Fatal(found)
			}
			if helps := help > 0.05 && harm < 0.005; helps != warns(f, "G008", lint.Note) {
				t.Errorf("the advice helps: %v, and the linter gives it: %v", helps, !helps)
			}
		})
	}
}

// Half of the call's time is the least that is proposed for an attempt: twice p99.9 costs answers
// where the dependency is slow, and half of the call does not. Beside a replica that hangs it brings
// some. docs/doctor.md has more worlds.
func TestNothingBelowHalfOfTheCallIsProposed(t *testing.T) {
	const service, behind = "workers: 20, queue: 400, time: lognormal 20ms/100ms", "replicas: 3, workers: 10, queue: 400, time: lognormal 20ms/100ms"
	most, short := policy.Timeout{Attempt: 14 * time.Second}, policy.Timeout{Attempt: 500 * time.Millisecond}
	half := policy.Timeout{Attempt: formulas.AttemptFor(policy.Policy{Timeout: most}, 250*time.Millisecond)}
	mean := func(timeout policy.Timeout, service, fault string) (sum float64) {
		for seed := range uint64(3) {
			sum += 100 * answeredBy(t, timeout, service, fault, 92+seed) / 3
		}
		return sum
	}
	for _, fault := range []string{"kind: brown_out, factor: 0.33", "kind: slow, factor: 10"} {
		a, b, c := mean(most, service, fault), mean(half, service, fault), mean(short, service, fault)
		if b < a-0.5 || c > a-2 {
			t.Errorf("%s: %.1f %% are answered, %.1f with what is proposed, and %.1f with twice p99.9", fault, a, b, c)
		}
	}
	if a, b := mean(most, behind, swallows), mean(half, behind, swallows); b < a+1 {
		t.Errorf("beside a replica that hangs %.1f %% are answered, and %.1f with what is proposed", a, b)
	}
}
