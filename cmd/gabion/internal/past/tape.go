package past

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// maxCalls is how many calls are kept: a scenario reads no more.
const maxCalls = 1_000_000

// How a call ended.
const (
	answered = iota
	failed
	left // its caller gave up, which says nothing of the dependency
)

// call is one that has ended. Times are nanoseconds since any beginning.
type call struct {
	at, took int64
	how      int8
	own      observed // its first attempt
}

// observed is what an attempt met. The zero observed is that nothing is known.
type observed struct {
	took   int64
	status int16
	knows  int8
}

// What is known of an attempt.
const (
	nothing = iota
	met
	cut  // at the end of its time
	lost // because it was not needed any more
)

type attempt struct {
	at int64
	observed
}

// tape collects calls and attempts while a source is read.
type tape struct {
	Past

	from, to int64 // of times; to of 0 means no end
	calls    []call
	attempts []attempt
}

// TooManyError says that a source has more calls than a scenario takes.
type TooManyError struct{ Long time.Duration }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("there are more than %d calls, as many as a scenario takes; the first ones last %s: choose a part with --from and --for", maxCalls, e.Long.Round(time.Second))
}

// ended adds a call. The error is a *TooManyError.
func (t *tape) ended(c call) error {
	if c.at < t.from || t.to > 0 && c.at >= t.to {
		return nil
	}
	if len(t.calls) == maxCalls {
		return &TooManyError{time.Duration(c.at - t.calls[0].at)}
	}
	t.calls = append(t.calls, c)
	return nil
}

// settled adds an attempt.
func (t *tape) settled(a attempt) {
	if a.at >= t.from && (t.to == 0 || a.at < t.to) {
		t.attempts = append(t.attempts, a)
	}
}

// near is how many attempts before and after are asked what an attempt would have met.
const near = 200

// develop makes the Past.
func (t *tape) develop() *Past {
	slices.SortStableFunc(t.calls, func(a, b call) int { return int(min(max(a.at-b.at, -1), 1)) })
	slices.SortStableFunc(t.attempts, func(a, b attempt) int { return int(min(max(a.at-b.at, -1), 1)) })
	begin := t.calls[0].at
	last := t.calls[len(t.calls)-1].at
	t.Width = widthFor(time.Duration(last-begin), len(t.calls))
	t.Bins = make([]Bin, (last-begin)/int64(t.Width)+1)
	told := t.told()
	for i := range t.calls {
		c := &t.calls[i]
		row := Row{At: time.Duration(c.at - begin)}
		row.Took, row.Status = t.guess(c, told)
		t.Rows = append(t.Rows, row)
	}
	t.count(begin)
	return &t.Past
}

// told are the attempts of which is known what they met.
func (t *tape) told() (all []attempt) {
	for _, a := range t.attempts {
		if a.knows == met {
			all = append(all, a)
		}
	}
	return all
}

// guess is what the first attempt of a call met. If that is not known, it is what the nearest
// attempt met of which it is, and which took longer than what is known of this one.
func (t *tape) guess(c *call, told []attempt) (took time.Duration, status int) {
	if c.own.knows == met {
		return time.Duration(c.own.took), int(c.own.status)
	}
	k := sort.Search(len(told), func(k int) bool { return told[k].at >= c.at })
	for d := range near {
		for _, i := range [2]int{k + d, k - 1 - d} {
			if i >= 0 && i < len(told) && (c.own.knows == nothing || told[i].took > c.own.took) {
				t.Guessed++
				return time.Duration(told[i].took), int(told[i].status)
			}
		}
	}
	if c.own.knows == lost {
		t.Guessed++
		return 2 * time.Duration(c.own.took), 200
	}
	t.Hung++
	return hang, 200
}

// count counts in bins.
func (t *tape) count(begin int64) {
	took := make([][]time.Duration, len(t.Bins))
	var all []time.Duration
	place := func(at int64) int { return int((at - begin) / int64(t.Width)) }
	for i := range t.calls {
		c := &t.calls[i]
		k := place(c.at + c.took)
		switch {
		case c.how == left:
			t.Left++
			continue
		case k >= len(t.Bins): // it ended after the last call began
			continue
		}
		t.Bins[k].Ended++
		if c.how == answered {
			t.Bins[k].Answered++
			took[k] = append(took[k], time.Duration(c.took))
			all = append(all, time.Duration(c.took))
		}
	}
	for _, a := range t.attempts {
		if k := place(a.at); k >= 0 && k < len(t.Bins) {
			t.Bins[k].Attempts++
		}
	}
	for k := range t.Bins {
		b := &t.Bins[k]
		slices.Sort(took[k])
		b.P50, b.P99 = quantile(took[k], 0.5), quantile(took[k], 0.99)
		t.Whole.Ended, t.Whole.Answered, t.Whole.Attempts = t.Whole.Ended+b.Ended, t.Whole.Answered+b.Answered, t.Whole.Attempts+b.Attempts
	}
	slices.Sort(all)
	t.Whole.P50, t.Whole.P99 = quantile(all, 0.5), quantile(all, 0.99)
}
