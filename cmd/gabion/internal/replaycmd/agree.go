package replaycmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/lab"
)

// What counts as agreement (ADR 124).
const (
	pointsApart  = 0.05 // of the share of calls that were answered
	latencyApart = 0.15
	always       = time.Millisecond // latencies that are no further apart agree
	binsToAgree  = 0.9              // of the calls are in bins that agree
	leastP50     = 20               // answers that a bin needs for its p50 to be judged
	leastP99     = 100
)

// agreement is what happened beside what the replay made of it.
type agreement struct {
	width time.Duration
	bins  []pair
	whole pair
	share float64 // of the calls, those in bins that agree
}

// pair is a bin, or the whole.
type pair struct {
	then, now        past.Bin
	good             float64 // of the replay
	calls, p50, p99  bool
	knowsP50, knows9 bool
}

func (p *pair) agrees() bool { return p.calls && p.p50 && p.p99 }

func (a *agreement) holds() bool { return a.whole.agrees() && a.share >= binsToAgree }

// series is what is read of a report.
type series struct {
	Sides []struct {
		Series struct {
			Goodput, Late, Bad, Attempts, P50, P99 struct{ Mid []float64 }
		}
	}
}

// replayed reads the bins of a report's first side.
func replayed(r *lab.Report) (*series, error) {
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		return nil, err
	}
	s := new(series)
	return s, json.Unmarshal(text.Bytes(), s)
}

// compare judges a report of the replay under the policy that was in force.
func compare(p *past.Past, r *lab.Report) (*agreement, error) {
	read, err := replayed(r)
	if err != nil {
		return nil, err
	}
	a := &agreement{width: p.Width}
	of := &read.Sides[0].Series
	same, calls := 0, 0
	for i, then := range p.Bins {
		good := (of.Goodput.Mid[i] + of.Late.Mid[i]) * p.Width.Seconds()
		ended := good + of.Bad.Mid[i]*p.Width.Seconds()
		now := past.Bin{
			Ended: round(ended), Answered: round(good), Attempts: round(of.Attempts.Mid[i] * p.Width.Seconds()),
			P50: seconds(of.P50.Mid[i]), P99: seconds(of.P99.Mid[i]),
		}
		b := judge(then, now, true)
		if calls += then.Ended; b.agrees() {
			same += then.Ended
		}
		a.bins = append(a.bins, b)
		a.whole.now.Ended, a.whole.now.Answered = a.whole.now.Ended+now.Ended, a.whole.now.Answered+now.Answered
		a.whole.now.Attempts += now.Attempts
	}
	for _, q := range []struct {
		key string
		to  *time.Duration
	}{{"p50", &a.whole.now.P50}, {"p99", &a.whole.now.P99}} {
		mean, _, err := r.Metric(0, q.key, "", "")
		if err != nil {
			return nil, err
		}
		*q.to = seconds(mean.Value)
	}
	a.whole = judge(p.Whole, a.whole.now, false)
	a.share = float64(same) / float64(max(calls, 1))
	return a, nil
}

func round(x float64) int { return int(math.Round(x)) }

func seconds(s float64) time.Duration {
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// judge compares a bin with its replay. By chance a bin may differ as far as another sample of the
// same calls would, 95 times of 100; the whole may not.
func judge(then, now past.Bin, chance bool) pair {
	p := pair{then: then, now: now, good: now.Good()}
	p.knowsP50, p.knows9 = then.Answered >= leastP50, then.Answered >= leastP99
	apart := pointsApart
	p.p50 = !p.knowsP50 || near(then.P50, now.P50)
	p.p99 = !p.knows9 || near(then.P99, now.P99)
	if chance {
		g := then.Good()
		apart = max(apart, 1.96*math.Sqrt(g*(1-g)/float64(max(then.Ended, 1))))
		p.p50 = p.p50 || within(then.P50Between, now.P50)
		p.p99 = p.p99 || within(then.P99Between, now.P99)
	}
	p.calls = math.Abs(then.Good()-now.Good()) <= apart
	return p
}

func within(between [2]time.Duration, d time.Duration) bool {
	return between[0] <= d && d <= between[1]
}

func near(then, now time.Duration) bool {
	apart := (now - then).Abs()
	return apart <= always || float64(apart) <= latencyApart*float64(then)
}

// write writes the verdict, and then bin by bin what it is made of.
func (a *agreement) write(w io.Writer) error {
	said := "The replay agrees with what happened"
	if !a.holds() {
		said = "THE REPLAY DOES NOT AGREE with what happened"
	}
	fmt.Fprintf(w, "%s.\n%.0f%% of the calls are in bins of %s that agree, and 90%% must be; the whole %s.\nTo agree, answers are within 5 points, p50 and p99 within 15%%; bins also by chance.\n\n",
		said, 100*a.share, a.width, map[bool]string{true: "agrees", false: "differs"}[a.whole.agrees()])
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "from\tcalls\tanswered\treplay\tp50\treplay\tp99\treplay\t\t")
	for i := range a.bins {
		if a.bins[i].then.Ended > 0 {
			a.bins[i].row(table, (time.Duration(i) * a.width).String())
		}
	}
	a.whole.row(table, "whole")
	return table.Flush()
}

func (p *pair) row(w io.Writer, name string) {
	verdict := ""
	if !p.agrees() {
		verdict = "differs"
	}
	fmt.Fprintf(w, "%s\t%d\t%.1f%%\t%.1f%%\t%s\t%s\t%s\t%s\t%s\t\n", name, p.then.Ended, 100*p.then.Good(), 100*p.good,
		latency(p.then.P50, p.knowsP50), latency(p.now.P50, p.knowsP50), latency(p.then.P99, p.knows9), latency(p.now.P99, p.knows9), verdict)
}

// latency is three digits of a duration, or a dash where too little is known.
func latency(d time.Duration, known bool) string {
	if !known {
		return "-"
	}
	unit := time.Nanosecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}
