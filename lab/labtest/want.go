package labtest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab"
)

// Phase is a part of a run.
type Phase string

// The phases. Before, During and After are about the time in which something is
// wrong; scenarios in which nothing is have none of them.
const (
	Whole  Phase = ""
	Before Phase = "before"
	During Phase = "during"
	After  Phase = "after"
)

// Metric is what is measured of each run: amplification, goodput, p99, …, as in the
// assertions of scenarios. What is a time is in seconds, what is a share is a part of
// one. The mean of the runs counts; of recovery and retry_tail their median.
type Metric struct {
	Key   string
	Of    string // the service or fleet; empty means all, and of amplification the worst
	Phase Phase  // empty means the whole run
}

// String reads "p99 of db after the trouble".
func (m Metric) String() string {
	text := m.Key
	if m.Of != "" {
		text += " of " + m.Of
	}
	if m.Phase != Whole {
		text += " " + string(m.Phase) + " the trouble"
	}
	return text
}

// Amplification checks that while something is wrong no service gets more than most requests for
// each that is needed.
func (r *Result) Amplification(t testing.TB, most float64) {
	t.Helper()
	r.AtMost(t, Metric{Key: "amplification", Phase: During}, most)
}

// Recovery wants that the median run is back at its usual goodput, and stays there,
// so soon after the trouble is over. It takes six runs to say anything of a median.
func (r *Result) Recovery(t testing.TB, within time.Duration) {
	t.Helper()
	r.AtMost(t, Metric{Key: "recovery"}, within.Seconds())
}

// Goodput wants that after the trouble at least such a share of the work that clients
// began is answered well and in time.
func (r *Result) Goodput(t testing.TB, least float64) {
	t.Helper()
	r.AtLeast(t, Metric{Key: "goodput", Phase: After}, least)
}

// Stuck wants that the probability of staying down when the trouble is over is at
// most so much. To show a small one takes many runs: 20 of which none stays down show
// no less than 17 %.
func (r *Result) Stuck(t testing.TB, most float64) {
	t.Helper()
	r.judge(t, "the probability of staying down", r.report.Stuck(0), "at most", most)
}

// AtMost wants that a metric is not above most.
func (r *Result) AtMost(t testing.TB, m Metric, most float64) {
	t.Helper()
	r.judge(t, m.String(), r.Measured(t, m), "at most", most)
}

// AtLeast wants that a metric is not below least.
func (r *Result) AtLeast(t testing.TB, m Metric, least float64) {
	t.Helper()
	r.judge(t, m.String(), r.Measured(t, m), "at least", least)
}

// Measured returns a metric, and ends the test if the scenario has no such.
func (r *Result) Measured(t testing.TB, m Metric) lab.Interval {
	t.Helper()
	i, _, err := r.report.Metric(0, m.Key, m.Of, string(m.Phase))
	if err != nil {
		t.Fatalf("labtest: %s: %v", r.name, err)
	}
	return i
}

// Asserts wants what the scenario's own file asserts.
func (r *Result) Asserts(t testing.TB) {
	t.Helper()
	for _, a := range r.report.Assertions() {
		if a.Verdict != "yes" {
			t.Errorf("%s: %q: %s, measured %s in %d runs\n%s", r.name, a.Text, a.Verdict, text(a.Measured), r.report.Replications(), r.how())
		}
	}
}

// Report returns the whole report.
func (r *Result) Report() *lab.Report { return r.report }

// judge fails the test unless the whole interval is on the right side.
func (r *Result) judge(t testing.TB, what string, i lab.Interval, want string, bound float64) {
	t.Helper()
	good, bad := i.High <= bound, i.Low > bound
	if want == "at least" {
		good, bad = i.Low >= bound, i.High < bound
	}
	if good {
		return
	}
	verdict := "is"
	if !bad {
		verdict = "is not settled: more Replications would tell. It is"
	}
	t.Errorf("%s: %s %s %s in %d runs, want %s %.4g\n%s", r.name, what, verdict, text(i), r.report.Replications(), want, bound, r.how())
}

// how says how to see it again. The policies are long, and are shown once.
func (r *Result) how() string {
	text := fmt.Sprintf("seed %d; to see it: %s", r.report.Seed(), r.again)
	if r.file != "" && !r.shown.Swap(true) {
		text += ", with this gabion.yaml:\n" + r.file
	}
	return text
}

// text writes an interval; what never came is infinite, and so
// are the bounds of what too few runs tell.
func text(i lab.Interval) string {
	number := func(x float64) string {
		switch {
		case math.IsInf(x, 1):
			return "never"
		case math.IsInf(x, -1):
			return "anything"
		}
		return fmt.Sprintf("%.4g", x)
	}
	return fmt.Sprintf("%s (%s to %s)", number(i.Value), number(i.Low), number(i.High))
}
