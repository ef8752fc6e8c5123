package labtest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

const storm = "testdata/storm.yaml"

// fake is a test that keeps what is reported to it.
type fake struct {
	testing.TB
	said  []string
	fatal bool
}

func (f *fake) Helper()                  {}
func (f *fake) Context() context.Context { return context.Background() }
func (f *fake) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *fake) Fatalf(format string, args ...any) {
	f.fatal = true
	f.Errorf(format, args...)
	runtime.Goexit()
}

// try runs what a test does, and returns what became of the test.
func try(do func(t testing.TB)) *fake {
	f := new(fake)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(f)
	}()
	<-done
	return f
}

// hasty tries six times with nothing that bounds it.
var hasty = Case{Scenario: storm, Config: "testdata/gabion.yaml", As: map[string]string{"db": "payments"}}

// strict refuses all calls for fifteen seconds once half of them fail.
var strict = Case{Scenario: storm, Policies: map[string]policy.Policy{"db": {
	Safe: true, Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: time.Second},
	Breaker: policy.Breaker{FailureRate: 0.5, Open: 15 * time.Second},
}}}

func TestASoundPolicyHoldsAndAHastyOneDoesNot(t *testing.T) {
	sound, bad := Run(t, strict), Run(t, hasty)
	for _, c := range []struct {
		fact string
		want func(t testing.TB, r *Result)
		says string // of the hasty one; empty when it does well too
	}{
		{"amplification", func(t testing.TB, r *Result) { r.Amplification(t, 1.2) }, "amplification during the trouble is 3."},
		{"recovery", func(t testing.TB, r *Result) { r.Recovery(t, time.Minute) }, ""},
		{"goodput", func(t testing.TB, r *Result) { r.Goodput(t, 0.7) }, ""},
		{"any metric, at most", func(t testing.TB, r *Result) { r.AtMost(t, Metric{"tries", "db", During}, 2) }, "tries of db during the trouble is"},
		{"any metric, at least", func(t testing.TB, r *Result) { r.AtLeast(t, Metric{"refused", "", During}, 0.5) }, "refused during the trouble is 0 "},
	} {
		if f := try(func(t testing.TB) { c.want(t, sound) }); len(f.said) > 0 {
			t.Errorf("%s, sound: %s", c.fact, f.said)
		}
		f := try(func(t testing.TB) { c.want(t, bad) })
		if said := strings.Join(f.said, ""); (said == "") != (c.says == "") || !strings.Contains(said, c.says) || f.fatal {
			t.Errorf("%s, hasty: %q, want %q", c.fact, said, c.says)
		}
	}
}

func TestAFailureSaysHowToSeeItAgain(t *testing.T) {
	payments := policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 5, Budget: policy.Budget{Off: true}}, Breaker: policy.Breaker{Off: true}}
	for _, c := range []struct {
		fact string
		c    Case
		want []string
	}{
		{"a file", hasty, []string{"in 6 runs, want at least 1\nseed 1; to see it: gabion lab run " + storm + " --against off --config testdata/gabion.yaml --as db=payments --seed 1 --replications 6"}},
		{"the scenario's own, a seed", Case{Scenario: storm, Seed: 7, Replications: 3}, []string{"in 3 runs", "seed 7; to see it: gabion lab run " + storm + " --against off --seed 7 --replications 3"}},
		{"policies of the program", Case{Scenario: storm, Policies: map[string]policy.Policy{"db": payments}}, []string{"--config gabion.yaml --seed 1", "with this gabion.yaml:\n", "dependencies:\n  db:\n", "attempts: 5"}},
	} {
		f := try(func(t testing.TB) { Run(t, c.c).AtLeast(t, Metric{Key: "goodput", Phase: During}, 1) })
		said := strings.Join(f.said, "")
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %s\nhas no %q", c.fact, said, want)
			}
		}
	}
}

func TestWhatIsNotSettledFails(t *testing.T) {
	r := Run(t, Case{Scenario: storm})
	f := try(func(t testing.TB) { r.Stuck(t, 0.01) })
	if len(f.said) != 1 || !strings.Contains(f.said[0], "more Replications would tell. It is 0 (0 to 0.3903) in 6 runs, want at most 0.01") {
		t.Errorf("six runs that don't stay down are said to show that none in a hundred does: %q", f.said)
	}
	r.Stuck(t, 0.5)
}

func TestRecoveryIsMeasuredFromTheEndOfTheTrouble(t *testing.T) {
	f := try(func(t testing.TB) { Run(t, strict).Recovery(t, time.Second) }) // breakers are open for longer
	if len(f.said) != 1 || !strings.Contains(f.said[0], "recovery is ") || !strings.Contains(f.said[0], "want at most 1\n") {
		t.Errorf("%q", f.said)
	}
}

func TestTheScenariosOwnAssertions(t *testing.T) {
	f := try(func(t testing.TB) { Run(t, Case{Scenario: storm}).Asserts(t) })
	if len(f.said) != 1 || !strings.Contains(f.said[0], `"goodput >= 99.9% during faults": no`) {
		t.Errorf("one of two does not hold: %q", f.said)
	}
}

func TestCasesThatCannotBeRun(t *testing.T) {
	for _, c := range []struct {
		c    Case
		want string
	}{
		{Case{Scenario: "no-such-storm"}, "no-such-storm"},
		{Case{Scenario: "testdata/missing.yaml"}, "missing.yaml"},
		{Case{Scenario: storm, Config: "testdata/missing.yaml"}, "missing.yaml"},
		{Case{Scenario: storm, Config: "testdata/storm.yaml"}, "testdata/storm.yaml"},
		{Case{Scenario: storm, Config: "testdata/gabion.yaml"}, "testdata/gabion.yaml has none of the dependencies that testdata/storm.yaml calls (db)"},
		{Case{Scenario: storm, Policies: map[string]policy.Policy{"bd": {}}}, "Case.Policies has none of the dependencies that testdata/storm.yaml calls (db)"},
		{Case{Scenario: storm, Policies: map[string]policy.Policy{"db": {Retry: policy.Retry{Attempts: -7}}}}, "attempts"},
		{Case{Scenario: storm, Policies: map[string]policy.Policy{"db": {}}, Config: "testdata/gabion.yaml"}, "only one of them can be meant"},
	} {
		f := try(func(t testing.TB) { Run(t, c.c) })
		if !f.fatal || !strings.Contains(f.said[0], c.want) {
			t.Errorf("%+v: %q, want %q", c.c, f.said, c.want)
		}
	}
	f := try(func(t testing.TB) { Run(t, Case{Scenario: storm}).AtMost(t, Metric{Key: "no_such"}, 1) })
	if !f.fatal || !strings.Contains(f.said[0], "no_such") {
		t.Errorf("an unknown metric: %q", f.said)
	}
}

func TestTheSameCaseTheSameNumbers(t *testing.T) {
	few := hasty
	few.Replications = 2
	a, b := Run(t, few), Run(t, few)
	m := Metric{Key: "p99"}
	if a.Measured(t, m) != b.Measured(t, m) {
		t.Errorf("%v and %v", a.Measured(t, m), b.Measured(t, m))
	}
}
