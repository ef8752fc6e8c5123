// Package past reads what happened to a dependency, from a recording, from spans or from
// metrics over time, in the form that a scenario of the lab needs.
package past

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/policyfile"
)

// Refused is the status of an attempt that found no connection: nothing was sent. A
// connection that broke has the status 0.
const Refused = -1

// hang is how long an attempt takes of which only is known that it did not answer in its time.
const hang = time.Hour

// A Row is a call as it was made, and what an attempt met that was sent then.
type Row struct {
	At     time.Duration // since the beginning
	Took   time.Duration
	Status int // of HTTP, 0 or Refused
}

// A Bin is what happened in a part of the time. Calls count where they ended. Calls whose
// caller left are left out.
type Bin struct {
	Ended    int
	Answered int // of these; a permanent no is an answer
	P50, P99 time.Duration
	Attempts int

	// Between is where the percentiles may lie by chance: 95 of 100 times in samples as large
	// as this one.
	P50Between, P99Between [2]time.Duration
}

// latencies reads the percentiles of a bin of which all else is known.
func (b *Bin) latencies(quantile func(p float64) time.Duration) {
	between := func(p float64) [2]time.Duration {
		by := 1.96 * math.Sqrt(p*(1-p)/float64(max(b.Answered, 1)))
		return [2]time.Duration{quantile(max(p-by, 0)), quantile(min(p+by, 1))}
	}
	b.P50, b.P99 = quantile(0.5), quantile(0.99)
	b.P50Between, b.P99Between = between(0.5), between(0.99)
}

// Good is the share of calls that were answered; 1 if none ended.
func (b Bin) Good() float64 {
	if b.Ended == 0 {
		return 1
	}
	return float64(b.Answered) / float64(b.Ended)
}

// Past is what happened to one dependency. The zero Past is nothing.
type Past struct {
	Source     string // the file
	Kind       string // what the file is, in words
	Dependency string
	Policed    string    // its name in policy files; empty means the same
	Begin      time.Time // of the first call; zero where that is not known
	Clients    int       // processes that made the calls; 1 at least
	Policy     []policyfile.Change
	HasPolicy  bool // Policy is what was in force; without changes that is the default

	Rows  []Row // in the order of their times
	Width time.Duration
	Bins  []Bin
	Whole Bin

	Limit *Limit // what answered 429, as far as that was a rate; nil if nothing did

	Repeated bool // attempts were repeated after they may have had an effect
	Hung     int  // rows of which only is known that no answer came in time
	Guessed  int  // rows whose attempt says nothing, or was not sent: they have what others met then
	Left     int  // calls whose caller left
	Notes    []string
}

// Span is how long it lasted, in whole bins.
func (p *Past) Span() time.Duration { return time.Duration(len(p.Bins)) * p.Width }

// Trouble is from the first bin to the end of the last in which clearly fewer calls were
// answered than usual, or answers took clearly longer; ok is false where nothing was wrong.
func (p *Past) Trouble() (from, to time.Duration, ok bool) {
	var good, slow []float64
	for _, b := range p.Bins {
		if b.Ended > 0 {
			good = append(good, b.Good())
		}
		if b.Answered > 0 {
			slow = append(slow, b.P50.Seconds())
		}
	}
	if len(good) < 3 {
		return 0, 0, false
	}
	slices.Sort(good)
	slices.Sort(slow)
	usualGood := good[len(good)*3/4]
	usualSlow := 0.0
	if len(slow) > 0 {
		usualSlow = slow[len(slow)/4]
	}
	for i, b := range p.Bins {
		if b.Ended == 0 || b.Good() >= usualGood-0.05 && b.P50.Seconds() <= 2*usualSlow {
			continue
		}
		if !ok {
			from, ok = time.Duration(i)*p.Width, true
		}
		to = time.Duration(i+1) * p.Width
	}
	return from, to, ok
}

// widths are those that bins have.
var widths = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 12 * time.Hour,
}

// enough is how many calls a bin should have: of fewer a p99 says little.
const enough = 100

// widthFor is the width of bins, of which there are at most sixty.
func widthFor(span time.Duration, calls int) time.Duration {
	want := max(span/60, time.Duration(float64(span)*enough/float64(max(calls, 1))))
	for _, w := range widths {
		if w >= want {
			return w
		}
	}
	return 24 * time.Hour
}

// quantile is the one of the lab: of durations in their order.
func quantile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
