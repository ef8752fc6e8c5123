package past

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
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
	status int
	knows  int8
}

// observe is what an attempt met, in gabion's words. None says that it had no effect.
func observe(class, code string, none bool, took int64) observed {
	o := observed{took: took, knows: met, status: 500}
	n, err := strconv.Atoi(code)
	known := err == nil && n >= 100 && n <= 599
	switch class {
	case "success", "client", "business":
		o.status = 200
	case "network":
		if o.status = 0; none {
			o.status = Refused
		}
	case "timeout":
		if o.status = 504; !known {
			o.knows = cut
		}
	case "throttled":
		o.status = 429
	case "server":
		if o.status = 502; known && n >= 500 {
			o.status = n
		}
	case "contention":
		o.status = 502
	case "unclassified":
	case "ignored":
		o.knows = lost
	default:
		o.knows = nothing
	}
	return o
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

// tooManyError says that a source has more calls than a scenario takes.
type tooManyError struct{ Long time.Duration }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("there are more than %d calls, as many as a scenario takes; the first ones last %s: choose a part with --from and --for", maxCalls, e.Long.Round(time.Second))
}

// ended adds a call. The error is a *tooManyError.
func (t *tape) ended(c call) error {
	if c.at < t.from || t.to > 0 && c.at >= t.to {
		return nil
	}
	if len(t.calls) == maxCalls {
		return &tooManyError{time.Duration(c.at - t.calls[0].at)}
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

// near is how many attempts before and after are asked what an attempt that was cut off would
// have met.
const near = 200

// about is how long before and after an attempt others are looked at: it was made under load if
// at least half of the calls then sent one, and not as a breaker's probe.
const about = int64(time.Second / 2)

// develop makes the Past.
func (t *tape) develop() *Past {
	slices.SortStableFunc(t.calls, func(a, b call) int { return cmp.Compare(a.at, b.at) })
	slices.SortStableFunc(t.attempts, func(a, b attempt) int { return cmp.Compare(a.at, b.at) })
	begin := t.calls[0].at
	last := t.calls[len(t.calls)-1].at
	t.Width = widthFor(time.Duration(last-begin), len(t.calls))
	t.Bins = make([]Bin, (last-begin)/int64(t.Width)+1)
	told, loaded := t.told(), t.loaded()
	for i := range t.calls {
		c := &t.calls[i]
		seen := c.own
		if seen.knows == nothing {
			t.Guessed++
			if k := nearest(loaded, c.at); k >= 0 {
				seen = loaded[k].observed
			}
		}
		row := Row{At: time.Duration(c.at - begin)}
		row.Took, row.Status = t.resolve(seen, c.at, told)
		t.Rows = append(t.Rows, row)
	}
	t.count(begin)
	t.limit(begin, told)
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

// loaded are the attempts that say what calls would have met that sent none: those that were
// sent under load, and those that failed. That a breaker's probe succeeds does not say what a
// hundred calls would have met. Without any, all count.
func (t *tape) loaded() (all []attempt) {
	first := func(at int64) int {
		return sort.Search(len(t.attempts), func(k int) bool { return t.attempts[k].at >= at })
	}
	calls := func(at int64) int { return sort.Search(len(t.calls), func(k int) bool { return t.calls[k].at >= at }) }
	for _, a := range t.attempts {
		if a.knows != met && a.knows != cut {
			continue
		}
		if a.knows == cut || a.status != 200 || 2*(first(a.at+about)-first(a.at-about)) >= calls(a.at+about)-calls(a.at-about) {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return t.told()
	}
	return all
}

// nearest is the attempt that was sent nearest to a time; -1 without any.
func nearest(all []attempt, at int64) int {
	k := sort.Search(len(all), func(k int) bool { return all[k].at >= at })
	if k == len(all) || k > 0 && at-all[k-1].at < all[k].at-at {
		k--
	}
	return k
}

// resolve is what an attempt met. If it was cut off, it is what the nearest one met that took
// longer, or else that no answer came.
func (t *tape) resolve(o observed, at int64, told []attempt) (took time.Duration, status int) {
	switch o.knows {
	case met:
		return time.Duration(o.took), o.status
	case nothing: // there is no attempt at all
		return hang, 200
	}
	k := sort.Search(len(told), func(k int) bool { return told[k].at >= at })
	for d := range near {
		for _, i := range [2]int{k + d, k - 1 - d} {
			if i >= 0 && i < len(told) && told[i].took > o.took {
				return time.Duration(told[i].took), told[i].status
			}
		}
	}
	if o.knows == lost {
		return 2 * time.Duration(o.took), 200
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
		b.latencies(func(p float64) time.Duration { return quantile(took[k], p) })
		t.Whole.Ended, t.Whole.Answered, t.Whole.Attempts = t.Whole.Ended+b.Ended, t.Whole.Answered+b.Answered, t.Whole.Attempts+b.Attempts
	}
	slices.Sort(all)
	t.Whole.latencies(func(p float64) time.Duration { return quantile(all, p) })
}
