package scenario

import (
	"math"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// study runs a scenario's text.
func study(t *testing.T, text string, o Options) *Study {
	t.Helper()
	f, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const callOnly = "{safe: true, timeout: {call: off, attempt: off}, retry: off, breaker: off, bulkhead: off}"

// Runs in which something is wrong that is easily overlooked, and in which nothing is.
func TestRecoveryIsOfWhatBeginsAndNotOfWhatEnds(t *testing.T) {
	for _, c := range []struct {
		fact, text string
		recovers   bool // at once, in the median run
	}{
		{"half of the load piles up in a queue", `version: 1
title: x
duration: 90s
drain: 1s
during: 20s..30s
clients:
  shop: {count: 4, rate: 60/s, calls: [{to: db}], load: [{at: 30s, times: 3}]}
services:
  db: {workers: 2, queue: 1000000, time: exp 20ms}
policies:
  db: ` + callOnly, false},
		{"half of all hang for ever", `version: 1
title: x
duration: 120s
during: 20s..30s
clients:
  shop: {count: 4, rate: 60/s, calls: [{to: db}]}
services:
  db: {time: exp 20ms}
faults:
  - {kind: black_hole, service: db, at: 20s, for: 100s, share: 50%}
policies:
  db: ` + callOnly, false},
		{"a tenth fails before, during and after", `version: 1
title: x
duration: 120s
during: 20s..30s
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}]}
services:
  db: {time: exp 20ms}
faults:
  - {kind: errors, service: db, at: 0s, for: 120s, share: 10%}
policies:
  db: ` + callOnly, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			got := metric(t, study(t, c.text, Options{Replications: 5}), 0, "recovery", "", "").Mean.Value
			if c.recovers && got != 0 || !c.recovers && !math.IsInf(got, 1) {
				t.Errorf("it recovers after %g s", got)
			}
		})
	}
}

// What is said of the time after the trouble, where it is known: the trouble is said
// to end at 30 s, and what is wrong does so when it does.
func TestAfterTheTrouble(t *testing.T) {
	never := math.Inf(1)
	for _, c := range []struct {
		fact, fault               string
		recovery, retryTail, peak float64
		stuck                     bool
	}{
		{"all is well when it ends", "{kind: errors, service: db, at: 20s, for: 10s}", 0, 0, 1, false},
		{"all fails for seven seconds more", "{kind: errors, service: db, at: 20s, for: 17s}", 7, 7, 2, false},
		{"all fails until the last quarter, and then a third of it", "{kind: errors, service: db, at: 20s, for: 97s500ms}", 88, 88, 2, true},
		{"and then less than half of it", "{kind: errors, service: db, at: 20s, for: 87s}", 77, 77, 2, false},
		{"a quarter of the tries fails for ever", "{kind: errors, service: db, at: 20s, for: 100s, share: 25%}", never, never, 1.3, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := study(t, `version: 1
title: x
duration: 120s
during: 20s..30s
clients:
  shop: {count: 1, rate: 200/s, even: true, calls: [{to: db}]}
services:
  db: {time: 1ms}
faults:
  - `+c.fault+`
policies:
  db: {safe: true, breaker: off, retry: {attempts: 2, budget: off, backoff: {kind: constant, base: 1ms}}}
`, Options{Replications: 1})
			for key, want := range map[string]float64{"recovery": c.recovery, "retry_tail": c.retryTail, "peak": c.peak, "stuck": b2f(c.stuck)} {
				if got := metric(t, s, 0, key, "", "").Mean.Value; got != want && !(math.Abs(got-want) < 0.1) {
					t.Errorf("%s is %g, want %g", key, got, want)
				}
			}
		})
	}
}

// Callers without a policy wait as long as a call may take.
func TestCallersThatOnlyCall(t *testing.T) {
	text := strings.NewReplacer("exp 20ms", "2s", "db: {safe: true}", "db: {safe: true, timeout: {call: 5s, attempt: 1s, strict: true}, breaker: off}", "policies:", "against: none\npolicies:", "workers: 4, queue: 10, ", "").Replace(small)
	s := study(t, text, Options{Replications: 2})
	ours, none := metric(t, s, 0, "goodput", "", "before").Mean.Value, metric(t, s, 1, "goodput", "", "before").Mean.Value
	if ours != 0 || none != 1 {
		t.Errorf("an attempt of one second of work of two succeeds in %g, one without end in %g", ours, none)
	}
}

func TestWhatIsNeverAnsweredHasFailed(t *testing.T) {
	s := study(t, `version: 1
title: x
duration: 60s
drain: 1s
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}]}
services:
  db: {time: 20ms}
faults:
  - {kind: black_hole, service: db, at: 20s, for: 20s, share: 50%}
policies:
  db: `+callOnly, Options{Replications: 3})
	for key, want := range map[string]float64{"failed": 0.5, "unfinished": 0.5, "goodput": 0.5, "failed_time": 15.5} {
		if got := metric(t, s, 0, key, "", "during").Mean.Value; math.Abs(got-want) > 0.1*want {
			t.Errorf("%s is %.3f, want %.3g", key, got, want)
		}
	}
	if w := s.Sides[0].Worst; len(w) == 0 || w[0].Text != "not answered when the run ended" {
		t.Errorf("what hurt most is %+v", w)
	}
}

// The longest of ten calls is no p99, and an assertion of it neither holds nor fails.
func TestAQuantileOfFewCallsIsUnknown(t *testing.T) {
	s := study(t, strings.NewReplacer("rate: 50/s", "rate: 2/s", "amplification(db) <= 1.2 during faults", "p999 <= 10s").Replace(small), Options{Replications: 4})
	for key, known := range map[string]bool{"p50": true, "p90": true, "p99": true, "p999": false} {
		if got := metric(t, s, 0, key, "", "all").Mean.Value; math.IsNaN(got) == known {
			t.Errorf("%s of 120 calls is %g", key, got)
		}
	}
	if got := metric(t, s, 0, "p99", "", "during").Mean.Value; !math.IsNaN(got) {
		t.Errorf("p99 of 20 calls is %g", got)
	}
	if v := s.Sides[0].Asserts[0]; v.Holds != Unsure {
		t.Errorf("the assertion: %+v", v)
	}
}

// Hedges are no retries, and go on for as long as work is slow.
func TestHedgesAreNoTailOfRetries(t *testing.T) {
	s := study(t, `version: 1
title: x
duration: 120s
clients:
  shop: {count: 4, rate: 100/s, calls: [{to: db}]}
services:
  db: {time: exp 20ms}
during: 20s..30s
faults:
  - {kind: slow, service: db, at: 20s, for: 100s, factor: 2}
policies:
  db: {safe: true, breaker: off, retry: {budget: off}, hedge: {max: 1, delay: 40ms}}
`, Options{Replications: 3})
	if hedges := metric(t, s, 0, "hedges", "", "after").Mean.Value; hedges < 0.3 {
		t.Fatalf("%.3f hedges a call: the scenario shows nothing", hedges)
	}
	if tail := metric(t, s, 0, "retry_tail", "", "").Mean.Value; tail > 1 {
		t.Errorf("retries go on for %g s", tail)
	}
}

// A side that mostly never recovers is not the better for those of its runs that do.
func TestNeverIsWorseThanLate(t *testing.T) {
	f, err := Open("metastable-collapse")
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Options{Replications: 12})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range s.Diffs {
		if d.Key == "recovery" && (d.Verdict != "worse" || !math.IsInf(d.Delta.Value, 1)) {
			t.Errorf("naive callers recover after %+v, gabion's after %+v: %s, by %+v", d.B, d.A, d.Verdict, d.Delta)
		}
	}
}

// A word for a rival is about the policies of the file that is tried.
func TestARivalHasTheTimeoutsOfTheFile(t *testing.T) {
	file, err := config.Parse("prod.yaml", []byte("version: 1\ndependencies:\n  db: {safe: true, timeout: {call: 7s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(small, "policies:", "against: naive\npolicies:", 1)
	s := study(t, text, Options{Replications: 2, Policies: Policies{File: file}})
	for _, v := range s.Sides[1].Policies[0].Settings {
		if v.Path == "timeout.call" && v.Value != "7s" {
			t.Errorf("naive callers wait for %s", v.Value)
		}
	}
}

func TestNamesThatNameNothingAreRefused(t *testing.T) {
	file, err := config.Parse("prod.yaml", []byte("version: 1\ndependencies:\n  db: {safe: true}\n  payments: {safe: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("x", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	others, err := config.Parse("prod.yaml", []byte("version: 1\ndependencies: {bank: {}, stock: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fact string
		o    Options
		says string
	}{
		{"another name without a file", Options{Policies: Policies{As: map[string]string{"db": "payments"}}}, "no file is given"},
		{"a file without the name", Options{Policies: Policies{File: others}}, "such as --as db=bank"},
		{"a file without any", Options{Policies: Policies{File: &config.File{Name: "empty.yaml"}}}, "empty.yaml has no dependencies"},
		{"another name for nothing", Options{Policies: Policies{File: file, As: map[string]string{"bd": "payments"}}}, `nothing in x goes by the policy "bd": did you mean db?`},
		{"the same of the other side", Options{Against: &Policies{File: file, As: map[string]string{"bd": "payments"}}}, "did you mean db?"},
	} {
		if _, err := f.Run(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s", c.fact, err, c.says)
		}
	}
	traced, err := Parse("x", []byte(strings.Replace(small, "rate: 50/s", "loop: trace, trace: [21s]", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := traced.Run(t.Context(), Options{Map: true, Replications: 1}); err == nil || !strings.Contains(err.Error(), "no load to map") {
		t.Errorf("a map of traces: %v", err)
	}
}

// However much happens before, the trouble is in the timeline, and what was left out
// is said to be.
func TestATimelineReachesTheTrouble(t *testing.T) {
	text := strings.NewReplacer("count: 10, rate: 50/s", "count: 1, rate: 1000/s", "workers: 4, queue: 10, ", "").Replace(small)
	s := study(t, text, Options{Replications: 1, Alone: true, Watch: "shop"})
	last := s.Timeline[len(s.Timeline)-1]
	if n := len(s.Timeline); n != 2*maxLines || last.At < 15 || last.Text != "and more than can be kept" || s.Timeline[maxLines].At < 10 || s.Timeline[maxLines].At > 10.1 {
		t.Errorf("%d lines, the last at %g: %s; the trouble's from %g", n, last.At, last.Text, s.Timeline[min(maxLines, n-1)].At)
	}
}
