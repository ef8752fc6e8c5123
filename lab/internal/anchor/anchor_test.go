package anchor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testrace"
)

// cheap are checks of every anchor at a size that the race detector can bear, with
// the tolerances of that size.
func cheap() []check {
	list := append(append([]check{}, limitChecks...), jitterChecks()[:11]...)
	return append(list,
		check{"aws-occ", "clients=1 deviation=0s runs=1", []want{near("calls", 1, 0), near("time_ms", 40, 0)}}, // four messages
		check{"aws-occ", "clients=20 strategy=none runs=100", []want{near("calls", 154, 8.4), near("time_ms", 616, 32)}},
		check{"aws-occ", "clients=20 strategy=exponential runs=100", []want{near("calls", 149, 8.9), near("time_ms", 14266, 1600)}},
		check{"aws-occ", "clients=20 strategy=equal runs=100", []want{near("calls", 108, 3.3), near("time_ms", 1633, 270)}},
		check{"aws-occ", "clients=20 strategy=full runs=100", []want{near("calls", 99, 3), near("time_ms", 969, 141)}},
		check{"aws-occ", "clients=20 strategy=decorrelated runs=100", []want{near("calls", 100, 3.8), near("time_ms", 800, 96)}},
		check{"brooker-retry", "x=0.5 policy=none runs=2", []want{near("success", 0.5, 0.015), near("load", 1, 0)}},
		check{"brooker-retry", "x=0.5 policy=retries runs=2", []want{near("success", 0.9375, 0.01), near("load", 1.875, 0.03)}},
		check{"brooker-retry", "x=0.5 policy=bucket runs=2", []want{near("success", 0.57, 0.015), near("load", 1.143, 0.003)}},
		check{"brooker-retry", "x=0.05 policy=breaker runs=2", []want{near("success", 0.9865, 0.005), near("load", 1.037, 0.004)}},
		check{"brooker-retry", "x=1 policy=bucket seconds=100 clients=10 rate=100", []want{near("load", 1.1, 0.005)}},
		check{"backoff-loop", "loop=open policy=bucket runs=2", []want{near("load_change", 0, 0.02)}},
		check{"backoff-loop", "loop=serial policy=retries runs=2", []want{near("attempts_saved", 0.52, 0.04)}},
		check{"collapse", "rate=40 policy=immediate runs=8", []want{near("stuck", 0.78, 0.53)}},
		check{"collapse", "rate=60 policy=immediate runs=1", []want{near("stuck", 1, 0), near("load_after", 3, 0.1)}},
		check{"collapse", "rate=40 policy=backoff runs=2", []want{near("stuck", 0, 0)}},
		check{"collapse", "rate=40 policy=budget runs=2", []want{near("stuck", 0, 0)}},
		check{"collapse", "shape=ramp policy=backoff runs=2", []want{near("dead_from_s", 29, 4)}},
		check{"throttle", "accept=10 seconds=300 runs=1", []want{near("sent_per_s", 19.98, 1.5)}},
		check{"throttle", "accept=1 k=100 demand=10 seconds=600 runs=1", []want{near("sent_per_s", 10, 0.5)}},
		check{"throttle", "accept=10 demand=20 outage=5m seconds=1500 runs=1", []want{atLeast("recovery_s", 120, 0)}},
		check{"layers", "tries=4 layers=3 seconds=1", []want{near("amplification", 64, 0)}},
		check{"layers", "tries=3 layers=5 seconds=1 rate=10", []want{near("amplification", 243, 0)}},
		check{"layers", "tries=4 layers=3 where=bottom seconds=1", []want{near("amplification", 4, 0)}},
		check{"layers", "tries=3 layers=2 budget=10% seconds=60", []want{near("amplification", 1.21, 0.025)}},
		check{"metastable", "runs=1 rate=65 capacity=175 length=30s", []want{near("stuck", 1, 0)}},
		check{"metastable", "runs=1 rate=65 capacity=175 length=30s drop=true", []want{near("stuck", 0, 0)}},
		check{"metastable", "runs=1 rate=65 capacity=175 length=30s sleep=300us", []want{near("stuck", 0, 0)}},
		check{"metastable", "runs=1 rate=65 capacity=175 length=2s", []want{near("stuck", 0, 0)}},
		check{"tail", "hedge=10ms operations=3000", []want{near("p50_ms", 15.4, 0.7), near("extra", 0.02, 0.001)}},
		check{"tail", "hedge=10ms operations=3000 correlated=true", []want{near("p50_ms", 30.9, 2), near("extra", 0.02, 0.001)}},
		check{"tail", "hedge=10ms operations=3000 budget=1%", []want{atMost("extra", 0.01, 0.0001), atLeast("extra", 0.009, 0)}},
		check{"fanout", "operations=10000", []want{near("slow", 0.634, 0.02)}},
		check{"fanout", "p=1 fanout=1 operations=10", []want{near("slow", 1, 0)}},
		check{"hedge-load", "seconds=20 runs=1", []want{atLeast("p99_ratio", 2, 0)}},
		check{"hedge-load", "seconds=20 runs=1 budget=5%", []want{atMost("extra", 0.05, 0.001)}},
		check{"mm1", "seconds=10000 runs=1", []want{near("mean_ms", 500, 70), near("p99_ms", 2303, 500)}},
		check{"md1", "seconds=10000 runs=1", []want{near("wait_services", 2, 0.25)}},
		check{"mmc", "seconds=500 runs=1", []want{near("wait_share", 0.409, 0.06)}},
		check{"mm1k", "seconds=5000 runs=1", []want{near("loss", 0.0888, 0.008)}},
	)
}

// Those of layers with budgets are checked here as gabion lab verify checks them.
func TestLayersWithBudgetsMultiplyAsPublished(t *testing.T) {
	testrace.Serial(t)
	var list []check
	for _, c := range sreChecks {
		if strings.HasPrefix(c.settings, "tries=") && strings.Contains(c.settings, "budget") {
			list = append(list, c)
		}
	}
	cases, err := verify(t.Context(), list, nil)
	if err != nil || len(cases) != 3 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		if !c.Pass {
			t.Errorf("%s is %v, want %v ± %v", c.Name, c.Measured, c.Expected, c.Tolerance)
		}
	}
}

func TestPublishedResultsAtASmallSize(t *testing.T) {
	testrace.Serial(t)
	cases, err := verify(t.Context(), cheap(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if !c.Pass {
			t.Errorf("%s is %v, want %s %v ± %v", c.Name, c.Measured, c.Bound, c.Expected, c.Tolerance)
		}
	}
}

func TestTheDocumentsSayHowManyResultsAreCompared(t *testing.T) {
	n := 0
	for _, c := range checks() {
		n += len(c.wants)
	}
	text, err := os.ReadFile("../../../docs/lab.md")
	if want := fmt.Sprintf("compares %d of them", n); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("docs/lab.md does not say that it %s: %v", want, err)
	}
}

// A hedge that is never sent does no harm, and must not pass for one that is bounded.
func TestChecksOfHedgesNeedHedges(t *testing.T) {
	var list []check
	for _, c := range tailChecks {
		if c.anchor == "hedge-load" {
			c.settings = strings.Replace(c.settings, "seconds=100", "seconds=2 hedge=1h", 1)
			list = append(list, c)
		}
	}
	cases, err := verify(t.Context(), list, nil)
	if err != nil || len(list) != 2 {
		t.Fatal(len(list), err)
	}
	if cases[0].Pass || cases[1].Pass && cases[2].Pass {
		t.Errorf("without hedges they hold: %+v", cases)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		fact     string
		measured float64
		want     want
		pass     bool
	}{
		{"in the middle", 5, near("", 5, 0), true},
		{"at the edge", 6, near("", 5, 1), true},
		{"above", 6.1, near("", 5, 1), false},
		{"below", 3.9, near("", 5, 1), false},
		{"enough", 5, atLeast("", 5, 0), true},
		{"more than enough", 50, atLeast("", 5, 0), true},
		{"too little", 4.9, atLeast("", 5, 0), false},
		{"little enough", 4, atMost("", 5, 0), true},
		{"too much", 5.2, atMost("", 5, 0.1), false},
		{"nothing known is no pass", math.NaN(), near("", 5, 1), false},
		{"nor under a bound", math.NaN(), atMost("", 5, 1), false},
	} {
		k := Case{Figure{"", c.measured}, c.want.expected, c.want.tolerance, c.want.bound, false}
		if k.judge(); k.Pass != c.pass {
			t.Errorf("%s: %v", c.fact, k.Pass)
		}
	}
}

func TestACheckOfNothingIsAnError(t *testing.T) {
	for _, c := range []struct {
		list check
		want string
	}{
		{check{"vegas", "", []want{atLeast("limits", 0, 0)}}, "anchor vegas measures no limits"},
		{check{"vegas", "capacty=3", nil}, "capacity"},
		{check{"vega", "", nil}, "vegas"},
	} {
		if _, err := verify(t.Context(), []check{c.list}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// small are settings at which each anchor is quick.
var small = map[string]string{
	"aws-occ": "clients=10 runs=3", "brooker-retry": "seconds=1 runs=3", "backoff-loop": "seconds=1 runs=3", "collapse": "runs=3 rate=20",
	"throttle": "seconds=60 demand=20 runs=3", "layers": "seconds=1 runs=3", "metastable": "rate=20 capacity=54 runs=3 length=4s boundary=true", "tail": "operations=2500 fanout=7 percentile=95",
	"fanout": "operations=2500 fanout=10", "hedge-load": "seconds=2 runs=3", "vegas": "probe=30", "gradient": "duration=1s", "mm1": "seconds=50 runs=3",
	"mmc": "seconds=20 runs=3", "md1": "seconds=50 runs=3", "mm1k": "seconds=50 runs=3", "jitter": "draws=100",
}

func TestSameFiguresWhateverRunsBeside(t *testing.T) {
	testrace.Serial(t)
	for _, m := range models() {
		var before []Figure
		for _, workers := range []int{1, 2, 7} {
			old := runtime.GOMAXPROCS(workers)
			figures, err := Run(t.Context(), m.name, pairs(small[m.name]))
			runtime.GOMAXPROCS(old)
			if err != nil {
				t.Fatal(err)
			}
			if before != nil && !reflect.DeepEqual(figures, before) {
				t.Errorf("%s with %d workers: %v, with fewer %v", m.name, workers, figures, before)
			}
			before = figures
		}
	}
}

func TestSeedsMatter(t *testing.T) {
	testrace.Serial(t)
	for _, m := range models() {
		if slices.Contains([]string{"layers", "gradient", "metastable", "collapse"}, m.name) {
			continue // what they count is the same for every seed, or nearly
		}
		a, errA := Run(t.Context(), m.name, pairs(small[m.name]))
		b, errB := Run(t.Context(), m.name, pairs(small[m.name]+" seed=99"))
		if errA != nil || errB != nil || reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v and %v (%v, %v)", m.name, a, b, errA, errB)
		}
	}
}

func TestFiguresAreNumbersWithNames(t *testing.T) {
	testrace.Serial(t)
	for _, m := range models() {
		figures, err := Run(t.Context(), m.name, pairs(small[m.name]))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, f := range figures {
			if f.Name == "" || seen[f.Name] {
				t.Errorf("%s: two figures or none are called %q", m.name, f.Name)
			}
			seen[f.Name] = true
		}
		if _, err := json.Marshal(figures); err != nil || len(figures) == 0 {
			t.Errorf("%s: %v (%v)", m.name, figures, err)
		}
	}
}

func TestAnchorsTellTheirSettings(t *testing.T) {
	all := Anchors()
	if len(all) != len(models()) {
		t.Fatalf("%d descriptions of %d anchors", len(all), len(models()))
	}
	for i, d := range all {
		if d.Says == "" || len(d.Settings) != len(models()[i].settings) {
			t.Errorf("%s: %+v", d.Name, d)
		}
		given := map[string]string{}
		for _, s := range d.Settings {
			if given[s.Key] != "" || s.Says == "" {
				t.Errorf("%s: %s is there twice, or says nothing", d.Name, s.Key)
			}
			given[s.Key] = s.Default
		}
		if _, err := models()[i].read(given); err != nil {
			t.Errorf("%s does not take its own defaults: %v", d.Name, err)
		}
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ fact, anchor, settings, want string }{
		{"an anchor's slip", "colapse", "", `did you mean "collapse"?`},
		{"nothing like an anchor", "x", "", "there are aws-occ"},
		{"a key's slip", "collapse", "rat=3", `did you mean "rate"?`},
		{"no such key", "collapse", "zzzzzz=3", "there are rate, policy"},
		{"a word's slip", "aws-occ", "strategy=fulll", `strategy=fulll: did you mean "full"?`},
		{"not a number", "aws-occ", "clients=many", "clients=many: want a whole number from 1 to 10000"},
		{"too many", "aws-occ", "clients=10001", "from 1 to 10000"},
		{"too few", "aws-occ", "clients=0", "from 1 to 10000"},
		{"a part of one", "aws-occ", "clients=1.5", "whole"},
		{"no unit", "tail", "hedge=15", "such as 15ms"},
		{"a negative time", "tail", "hedge=-15ms", "such as 15ms"},
		{"no share", "brooker-retry", "x=1.1", "from 0 to 1"},
		{"not a number at all", "brooker-retry", "x=NaN", "from 0 to 1"},
		{"a percentile of all", "tail", "percentile=100", "such as 99.9"},
		{"a percentile of none", "tail", "percentile=0", "such as 99.9"},
		{"neither true nor false", "tail", "correlated=perhaps", "true or false"},
	} {
		_, err := Run(t.Context(), c.anchor, pairs(c.settings))
		var wrong *SettingError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.fact, err, c.want)
		}
	}
}

func TestSettingsMayBeWrittenInOtherWays(t *testing.T) {
	for _, c := range []struct {
		fact string
		kind kind
		text string
		want any
	}{
		{"a percentage is a number", number(0, 1), "7.5%", 0.075},
		{"none is no time", span(0, aDay), "none", span0(t, "0s")},
		{"0 is no time", span(0, aDay), "0", span0(t, "0s")},
		{"none is no share", shareOrNone, "none", 0.0},
		{"a percentile as a share", percentile, "0.95", 0.95},
		{"as a percentage", percentile, "95", 0.95},
		{"with its sign", percentile, "0.5%", 0.005},
	} {
		if x, err := c.kind.read(c.text); err != nil || x != c.want {
			t.Errorf("%s: %v, %v", c.fact, x, err)
		}
	}
}

func span0(t *testing.T, text string) any {
	t.Helper()
	d, err := span(0, aDay).read(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestInterruptedRunsEndWithTheReason(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, m := range models() {
		if figures, err := Run(ctx, m.name, nil); !errors.Is(err, context.Canceled) || figures != nil {
			t.Errorf("%s: %v, %v", m.name, figures, err)
		}
	}
	if cases, err := Verify(ctx, nil); !errors.Is(err, context.Canceled) || cases != nil {
		t.Errorf("verify: %d cases, %v", len(cases), err)
	}
}

func FuzzSettings(f *testing.F) {
	for _, s := range []string{"aws-occ clients=80 strategy=full", "tail percentile=99.9% hedge=15ms", "collapse rate=1e9", "x =", "jitter base=99999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		name, rest, _ := strings.Cut(line, " ")
		m, err := find(name)
		if err != nil {
			return
		}
		v, err := m.read(pairs(rest))
		if (err == nil) != (len(v) == len(m.settings)) {
			t.Errorf("%q: %d of %d settings, %v", line, len(v), len(m.settings), err)
		}
	})
}
