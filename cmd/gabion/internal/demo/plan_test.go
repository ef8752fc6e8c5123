package demo

import (
	"testing"
	"time"
)

func TestPlanScales(t *testing.T) {
	for _, total := range []time.Duration{5 * time.Second, 7 * time.Second, 40 * time.Second, 600 * time.Second} {
		plan := NewPlan(total)
		at := time.Duration(0)
		for _, p := range plan.Phases {
			if p.Start != at || p.End <= p.Start {
				t.Errorf("%s: phase %s is [%s, %s), the one before ended at %s", total, p.Name, p.Start, p.End, at)
			}
			at = p.End
		}
		rest := plan.Total - plan.Busy()
		if plan.Total != total || rest <= 0 || rest > inTime || rest > total/20+time.Nanosecond {
			t.Errorf("%s: the rest is %s of %s", total, rest, plan.Total)
		}
	}
}

func TestDefaultPlanIsTheOneThatStagesSay(t *testing.T) {
	plan := NewPlan(defaultSeconds * time.Second)
	for i, s := range stages {
		p := plan.Phases[i]
		if got := (p.End - p.Start).Seconds(); got < s.seconds-0.001 || got > s.seconds+0.001 {
			t.Errorf("%s lasts %.3f s, want %v", p.Name, got, s.seconds)
		}
	}
}

func TestPlanBeginsAndEndsHealthyAndKnowsEveryFault(t *testing.T) {
	phases := NewPlan(40 * time.Second).Phases
	kinds := []Kind{Healthy, Unavailable, Slow, Reset, Lost, RateLimited, Healthy}
	if len(phases) != len(kinds) {
		t.Fatalf("%d phases, want %d", len(phases), len(kinds))
	}
	for i, k := range kinds {
		if phases[i].Kind != k {
			t.Errorf("phase %d is %s", i, phases[i].Name)
		}
	}
}

func TestPlanAt(t *testing.T) {
	plan := NewPlan(40 * time.Second)
	for _, c := range []struct {
		fact string
		at   time.Duration
		want int
	}{
		{"before the start it is the first", -time.Second, 0},
		{"at the start it is the first", 0, 0},
		{"a phase ends before its end", plan.Phases[0].End, 1},
		{"just before, it is still that phase", plan.Phases[0].End - 1, 0},
		{"after the last it is the last", time.Hour, len(plan.Phases) - 1},
	} {
		if _, i := plan.At(c.at); i != c.want {
			t.Errorf("%s: got phase %d, want %d", c.fact, i, c.want)
		}
	}
}

func TestFaultIsEverythingBetweenTheHealthyEnds(t *testing.T) {
	plan := NewPlan(40 * time.Second)
	start, end := plan.Fault()
	if start != plan.Phases[1].Start || end != plan.Phases[len(plan.Phases)-2].End {
		t.Errorf("the fault lasts from %s to %s", start, end)
	}
}
