package scenario

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

func TestATrialIsWhatARunMeasures(t *testing.T) {
	f, err := Parse("x", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Options{Alone: true, Replications: 3, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	trial, err := f.Trial(Policies{}, Variation{})
	if err != nil {
		t.Fatal(err)
	}
	side := &s.Sides[0]
	same := func(x float64, want Number) bool {
		return x == float64(want) || math.IsNaN(x) && math.IsNaN(float64(want)) || math.IsInf(float64(want), 1) && x > 0
	}
	for i := range 3 {
		sample := trial.Run(7, i)
		if len(sample.Broken()) > 0 {
			t.Error(sample.Broken())
		}
		for _, m := range side.Metrics {
			if x := sample.Metric(m.Key, ""); m.Of == "" && !same(x, m.Values[i]) {
				t.Errorf("run %d: %s is %v, and %v in a run", i, m.Key, x, m.Values[i])
			}
		}
		for _, p := range side.Phases {
			for _, m := range p.Metrics {
				if x := sample.Metric(m.Key, p.Name); m.Of == "" && !same(x, m.Values[i]) {
					t.Errorf("run %d: %s %s is %v, and %v in a run", i, m.Key, p.Name, x, m.Values[i])
				}
			}
		}
		if sample.Metric("load", Trouble) != sample.Metric("load", "during") || !math.IsNaN(sample.Metric("goodputt", "")) || !math.IsNaN(sample.Metric("goodput", "later")) {
			t.Error("a name is taken for another")
		}
	}
}

func TestAVariationChangesHowLongAndHowBadFaultsAre(t *testing.T) {
	for _, c := range []struct {
		fact, fault string
		v           Variation
		want        func(f *sim.Fault) bool
	}{
		{"nothing changes of itself", "kind: errors, share: 40%", Variation{}, func(f *sim.Fault) bool { return f.Share == 0.4 && f.For == 10*time.Second }},
		{"a fault is longer", "kind: errors, share: 40%", Variation{Length: 1.5}, func(f *sim.Fault) bool { return f.Share == 0.4 && f.For == 15*time.Second }},
		{"fewer requests meet it", "kind: errors, share: 40%", Variation{Severity: 0.5}, func(f *sim.Fault) bool { return f.Share == 0.2 }},
		{"no more than all meet it", "kind: errors, share: 80%", Variation{Severity: 1.5}, func(f *sim.Fault) bool { return f.Share == 1 }},
		{"what meets all can be milder", "kind: down", Variation{Severity: 0.75}, func(f *sim.Fault) bool { return f.Share == 0.75 }},
		{"and not worse", "kind: down", Variation{Severity: 1.25}, func(f *sim.Fault) bool { return f.Share == 1 }},
		{"less capacity is left", "kind: brown_out, factor: 0.5", Variation{Severity: 1.5}, func(f *sim.Fault) bool { return f.Factor == 0.25 }},
		{"some capacity is left", "kind: brown_out, factor: 0.2", Variation{Severity: 2}, func(f *sim.Fault) bool { return f.Factor == 0.01 }},
		{"slow work is slower", "kind: slow, factor: 3", Variation{Severity: 1.5}, func(f *sim.Fault) bool { return f.Factor == 4 }},
		{"by a time too", "kind: slow, add: 100ms", Variation{Severity: 1.5}, func(f *sim.Fault) bool { return f.Add == 150*time.Millisecond && f.Factor == 1 }},
		{"a limit lets fewer through", "kind: rate_limit, limit: {rate: 30/s}", Variation{Severity: 1.5}, func(f *sim.Fault) bool { return f.Limit.Rate == 20 }},
	} {
		f, err := Parse("x", []byte(with(t, "kind: errors, ", c.fault+", ")))
		if err != nil {
			t.Fatalf("%s: %v", c.fact, err)
		}
		trial, err := f.Trial(Policies{}, c.v)
		if err != nil {
			t.Fatal(err)
		}
		if got := &trial.world.Faults[0]; !c.want(got) {
			t.Errorf("%s: %+v", c.fact, got)
		}
	}
}

func TestATrialOfAScenarioWhoseTroubleReachesTheEndHasNoAfter(t *testing.T) {
	f, err := Parse("x", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	trial, err := f.Trial(Policies{}, Variation{Length: 100})
	if err != nil {
		t.Fatal(err)
	}
	if s := trial.Run(1, 0); !math.IsNaN(s.Metric("goodput", "after")) || math.IsNaN(s.Metric("goodput", "during")) || !math.IsNaN(s.Metric("recovery", "")) {
		t.Error("a phase that does not exist is measured")
	}
}
