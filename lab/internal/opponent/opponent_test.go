package opponent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// of are policies in whose place opponents stand.
var of = map[string]policy.Policy{
	"the zero policy": {},
	"timeouts of its own": {
		Safe: true, Key: policy.KeyMade, Trust: policy.Internal, Timeout: policy.Timeout{Call: 10 * time.Second, Attempt: 3 * time.Second},
	},
	"no attempt timeout": {Timeout: policy.Timeout{Call: 4 * time.Second, Attempt: policy.Off}},
	"a short call":       {Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: 500 * time.Millisecond}},
	"a long attempt":     {Timeout: policy.Timeout{Call: time.Minute, Attempt: 5 * time.Second}},
}

// undividedNames are the opponents that have no timeout for one attempt.
var undividedNames = []string{"none", "grpc-service-config"}

func TestEveryOpponentIsAPolicyWithTheSameTimeoutsAndSafety(t *testing.T) {
	for _, o := range All() {
		for fact, p := range of {
			made := o.Change(p)
			if _, err := machine.Compile(made); err != nil {
				t.Errorf("%s in place of %s: %v", o.Name, fact, err)
			}
			unasked := o.Name == "naive" || o.Name == "go-retryablehttp" // they repeat whatever it is
			if made.Safe != (p.Safe || unasked) || made.Key != policy.KeyDeclared || made.Trust != p.Trust || made.Timeout.Call != p.Timeout.Call {
				t.Errorf("%s in place of %s makes keys, or has another safety, trust or call timeout", o.Name, fact)
			}
			if !made.Timeout.Strict {
				t.Errorf("%s in place of %s lets attempts go on as gabion does", o.Name, fact)
			}
			if made.Timeout.Attempt != p.Timeout.Attempt && !slices.Contains(undividedNames, o.Name) {
				t.Errorf("%s in place of %s has an attempt timeout of %v", o.Name, fact, made.Timeout.Attempt)
			}
		}
		if o.Title == "" || o.Source == "" || o.Lacks == "" {
			t.Errorf("%s does not say what it is, where it is from, or what is lacking", o.Name)
		}
	}
}

// numbers are an opponent's, as its source has them.
type numbers struct {
	attempts int
	wait     backoff.Backoff
	budget   string
	opens    string // the breaker's rule
	open     time.Duration
	slots    int
	throttle string
	hedge    string
}

func TestOpponentsHaveTheNumbersOfTheirSources(t *testing.T) {
	const none = "none"
	for name, want := range map[string]numbers{
		"plain":               {1, backoff.Const(time.Millisecond), none, none, 0, 0, none, none},
		"none":                {1, backoff.Const(time.Millisecond), none, none, 0, 0, none, none},
		"naive":               {3, backoff.Const(time.Millisecond), none, none, 0, 0, none, none},
		"resilience4j":        {3, backoff.Const(500 * time.Millisecond), none, "50% of the last 100, at least 100", time.Minute, 0, none, none},
		"polly":               {4, backoff.Full(4*time.Second, time.Hour), none, "10% in 30s, at least 100", 5 * time.Second, 1000, none, none},
		"polly-hedging":       {1, backoff.Const(time.Millisecond), none, "10% in 30s, at least 100", 5 * time.Second, 1000, none, "1 after 2s"},
		"failsafe-go-budget":  {3, backoff.Const(0), "20% of what is in flight, or 3", none, 0, 0, none, none},
		"aws-2026":            {3, backoff.Full(50*time.Millisecond, 20*time.Second), "500 tokens, 14 each, 5 throttled, 14 late, 1 a first success", none, 0, 0, none, none},
		"grpc-service-config": {4, backoff.Exp(100*time.Millisecond, time.Second), "10 tokens, half of them, 0.1 a success", none, 0, 0, none, none},
		"failsafe-go":         {4, backoff.Const(time.Second), none, "5 in a row", time.Minute, 0, none, none},
		"go-retryablehttp":    {5, backoff.Exp(time.Second, 30*time.Second), none, none, 0, 0, none, none},
		"sre":                 {3, backoff.Full(100*time.Millisecond, 10*time.Second), "10% and off over 1m", none, 0, 0, "2 over 2m", none},
		"envoy-admission":     {1, backoff.Const(time.Millisecond), none, none, 0, 0, "1.05 over 30s", none},
		"hystrix":             {1, backoff.Const(time.Millisecond), none, "50% in 10s, at least 20", 5 * time.Second, 10, none, none},
		"aws-standard":        {3, backoff.Full(2*time.Second, 20*time.Second), "500 tokens, 5 each, 5 throttled, 10 late, 1 a first success", none, 0, 0, none, none},
		"aws-adaptive":        {3, backoff.Full(2*time.Second, 20*time.Second), "500 tokens, 5 each, 5 throttled, 10 late, 1 a first success", none, 0, 0, none, none},
		"grpc":                {4, backoff.Exp(100*time.Millisecond, time.Second), "10 tokens, half of them, 0.1 a success", none, 0, 0, none, none},
		"envoy":               {2, backoff.Full(25*time.Millisecond, 250*time.Millisecond), "3 in flight", none, 0, 1024, none, none},
		"istio":               {3, backoff.Full(25*time.Millisecond, 250*time.Millisecond), none, "5 in a row", 30 * time.Second, 0, none, none},
		"linkerd":             {10, backoff.Const(time.Millisecond), "20% and 10/s over 10s", none, 0, 0, none, none},
	} {
		o, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		p := o.Change(of["timeouts of its own"])
		got := numbers{attempts: p.Retry.Attempts, wait: p.Retry.Backoff, budget: budget(p.Retry.Budget), opens: rule(p.Breaker), open: p.Breaker.Open, slots: p.Bulkhead.Limit, throttle: throttle(p.Throttle), hedge: hedge(p.Hedge)}
		if got != want {
			t.Errorf("%s:\n got  %+v\n want %+v", name, got, want)
		}
	}
	if names := Names(); len(names) != 20 {
		t.Errorf("%d opponents, and 20 have numbers here: %v", len(names), names)
	}
}

func budget(b policy.Budget) string {
	switch {
	case b.Off:
		return "none"
	case b.Shape == policy.BudgetQuota:
		return fmt.Sprintf("%d tokens, %d each, %d throttled, %d late, %v a first success", b.Capacity, b.Cost, b.ThrottledCost, b.TimeoutCost, float64(b.Ratio))
	case b.Shape == policy.BudgetGRPC:
		return fmt.Sprintf("%d tokens, half of them, %v a success", b.Capacity, float64(b.Ratio))
	case b.Shape == policy.BudgetShare && b.Ratio == policy.Off:
		return fmt.Sprintf("%d in flight", b.MinInFlight)
	case b.Shape == policy.BudgetShare:
		return fmt.Sprintf("%v of what is in flight, or %d", b.Ratio, b.MinInFlight)
	}
	return fmt.Sprintf("%v and %v over %s", b.Ratio, b.Floor, policy.FormatDuration(b.Window))
}

func throttle(t policy.Throttle) string {
	if t.K <= 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g over %s", t.K, policy.FormatDuration(t.Window))
}

func hedge(h policy.Hedge) string {
	if h.Max == 0 {
		return "none"
	}
	return fmt.Sprintf("%d after %s", h.Max, policy.FormatDuration(h.Delay))
}

func rule(b policy.Breaker) string {
	switch {
	case b.Off:
		return "none"
	case b.Consecutive > 0:
		return fmt.Sprintf("%d in a row", b.Consecutive)
	case b.WindowCalls > 0:
		return fmt.Sprintf("%v of the last %d, at least %d", b.FailureRate, b.WindowCalls, b.MinCalls)
	}
	return fmt.Sprintf("%v in %s, at least %d", b.FailureRate, policy.FormatDuration(b.Window), b.MinCalls)
}

// An opponent that left a number to gabion's defaults would change when they do.
func TestNothingOfAnOpponentIsGabionsDefault(t *testing.T) {
	p := of["timeouts of its own"]
	silent := []string{ // what no source speaks of, or follows from the timeouts
		"Retry.Contention.", "Breaker.ProbeTimeout",
	}
	for _, o := range All() {
		made := o.Change(p)
		resolved := made.Resolved()
		sections := map[string][2]any{"Retry": {made.Retry, resolved.Retry}}
		if !made.Breaker.Off {
			sections["Breaker"] = [2]any{made.Breaker, resolved.Breaker}
		}
		if !made.Bulkhead.Off {
			sections["Bulkhead"] = [2]any{made.Bulkhead, resolved.Bulkhead}
		}
		if made.Hedge.Max > 0 {
			sections["Hedge"] = [2]any{made.Hedge, resolved.Hedge}
		}
		if !made.Pace.Off {
			sections["Pace"] = [2]any{made.Pace, resolved.Pace}
		}
		unused := slices.Clone(silent)
		switch b := made.Retry.Budget; {
		case b.Off:
			unused = append(unused, "Retry.Budget.")
		}
		if made.Retry.Backoff.Base == policy.Off {
			unused = append(unused, "Retry.Backoff.Cap")
		}
		if b := resolved.Breaker; b.FailureRate == policy.Off && b.SlowRate == policy.Off {
			unused = append(unused, "Breaker.MinCalls")
		}
		for name, s := range sections {
			for _, field := range defaulted(name, reflect.ValueOf(s[0]), reflect.ValueOf(s[1])) {
				if !slices.ContainsFunc(unused, func(u string) bool { return strings.HasPrefix(field, u) }) {
					t.Errorf("%s leaves %s to the default", o.Name, field)
				}
			}
		}
	}
}

// defaulted returns the fields that are zero in a, and neither zero nor off in b.
func defaulted(path string, a, b reflect.Value) (fields []string) {
	for i := range a.NumField() {
		x, y, name := a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name
		if x.Kind() == reflect.Struct {
			fields = append(fields, defaulted(name, x, y)...)
		} else if off := y.CanInt() && y.Int() == policy.Off || y.CanFloat() && y.Float() == policy.Off; x.IsZero() && !y.IsZero() && !off {
			fields = append(fields, name)
		}
	}
	return fields
}

func TestNonePlainAndNaiveAreThoseOfScenarios(t *testing.T) {
	file, err := scenario.Open("short-blip")
	if err != nil {
		t.Fatal(err)
	}
	run := func(p scenario.Policies) *scenario.Study {
		study, err := file.Run(context.Background(), scenario.Options{Policies: p, Alone: true, Replications: 1})
		if err != nil {
			t.Fatal(err)
		}
		return study
	}
	for _, name := range []string{"none", "plain", "naive"} {
		o, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		old, made := run(scenario.Policies{Rival: name}), run(scenario.Policies{Name: name, Change: o.Change})
		if old.Sides[0].Runs[0].Hash != made.Sides[0].Runs[0].Hash {
			t.Errorf("%s: another run", name)
		}
		if source := made.Sides[0].Policies[0].Source; source != name {
			t.Errorf("%s: its settings are said to be from %q", name, source)
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ name, want, problem string }{
		{"plain", "plain", ""},
		{"finagle", "linkerd", ""},
		{"dotnet", "polly", ""},
		{"aws", "aws-standard", ""},
		{"resilence4j", "", "did you mean resilience4j?"},
		{"go-retryablehtp", "", "did you mean go-retryablehttp?"},
		{"xyzzy", "", "gabion lab opponents"},
	} {
		o, err := Find(c.name)
		switch {
		case c.problem == "" && (err != nil || o.Name != c.want):
			t.Errorf("%s: %q, %v", c.name, o.Name, err)
		case c.problem != "" && (!errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var seen []string
	for _, o := range All() {
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			if slices.Contains(seen, name) {
				t.Errorf("two opponents are called %s", name)
			}
			seen = append(seen, name)
		}
	}
}

func TestLikeKeepsWhatIsTheScenarios(t *testing.T) {
	p := of["timeouts of its own"]
	candidate := policy.Policy{Timeout: policy.Timeout{Call: time.Hour}, Retry: policy.Retry{Attempts: 7}, Key: policy.KeyRequired}
	made := Like(candidate, p)
	if made.Timeout != p.Timeout || made.Key != p.Key || made.Safe != p.Safe || made.Trust != p.Trust || made.Retry.Attempts != 7 {
		t.Errorf("%+v", made)
	}
}
