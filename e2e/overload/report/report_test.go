package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/overload"
)

// sample is what some runs might come to.
func sample() figures {
	f := figures{Command: "make overload", System: "linux/amd64", CPU: "Some CPU", Go: "go1.26", Processors: 2, AtOnce: 1}
	for _, p := range plan() {
		r := overload.Result{Name: p.name, Case: p.c, World: p.world, Ping: overload.Ping{P99: 50 * time.Millisecond}, CPU: time.Second, Took: 10 * time.Second, Load: "0.00 0.00 0.00"}
		r.Real.Trigger = overload.Phase{Goodput: 0.95, PerCall: 1.5, P99: 90, Admitted: 80}
		r.Real.After.Goodput, r.Real.Recovery, r.Real.Wasted = 0.8, 3, 0.01
		if p.c.Server == overload.Bare {
			r.Real.Trigger = overload.Phase{Goodput: 0.01, PerCall: 1.5}
			r.Real.After.Goodput, r.Real.Recovery, r.Real.Wasted = 0, overload.Never, 0.99
		}
		r.Real.Recoveries = [2]float64{r.Real.Recovery, r.Real.Recovery}
		r.Lab = r.Real
		r.Lab.Trigger.Goodput += 0.02
		r.Lab.Trigger.PerCall *= 1.1
		f.Results = append(f.Results, r)
	}
	return f
}

func TestAReportCanBeReadBack(t *testing.T) {
	text := render(sample())
	if err := parse(text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| no protection | one try | 1.0 % | – | – | 1.50 | 99.0 % | 0.0 % | never |",
		"| no protection, one try: goodput, for comparison | 1 % | ≤ 5 % | met |",
		"| no protection | one try | 10 minutes | 1.0 %, 3.0 % | 0.0 %, 0.0 % | 1.50, 1.65 | – | – | never, never | **attempts per call** |",
		"answers 1.0 % of its capacity", "works at 95.0 % of its capacity or more", "at most 1.60 times that of an idle server", "recovers within 3 s",
		"Some CPU, 2 processors, linux/amd64, go1.26", "`make overload`. Each run",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestAReportThatWasChangedIsFound(t *testing.T) {
	text := render(sample())
	for _, c := range []struct{ fact, old, new string }{
		{"a figure is made worse than its verdict", "| 1 % | ≤ 5 % | met |", "| 9 % | ≤ 5 % | met |"},
		{"what the lab said is gone", "## What the lab said", "## What was said"},
		{"it does not say who wrote it", "never by hand", "now and then by hand"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("nothing to change: %q", c.old)
			}
			if parse(changed) == nil {
				t.Error("it was not found")
			}
		})
	}
}

func TestTheDocumentIsAReport(t *testing.T) {
	text, err := os.ReadFile("../../../docs/overload.md")
	if err == nil {
		err = parse(string(text))
	}
	if err != nil {
		t.Error(err)
	}
}
