package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// Dimension is a key of the policy and the values that are tried for it.
type Dimension struct {
	Path   string   `json:"path"`
	Values []string `json:"values"` // as a file spells them, in their order
	Home   int      `json:"home"`   // of these, what the file says today
	Source string   `json:"source"` // where the file says it: "default", "gabion.yaml:12", …
}

// usual are the ranges of those keys that are tuned, or easily could be. The first five are
// tuned if nothing is asked for.
var usual = []struct{ path, values string }{
	{"retry.attempts", "1,2,3,4,5,6"},
	{"retry.backoff.base", "50ms..4s"},
	{"retry.budget.ratio", "5%..100%"},
	{"timeout.attempt", ""}, // around what it is
	{"breaker.open", "500ms..30s"},

	{"retry.backoff.cap", "1s..1m"},
	{"retry.budget.start", "1..10"},
	{"retry.budget.reserve", "1..10"},
	{"retry.hold", "1,2,3,5,8"},
	{"breaker.failure_rate", "30%..100%"},
	{"breaker.consecutive", "5..50"},
	{"breaker.consecutive_for", "1s..20s"},
	{"breaker.open_calls", "3..50"},
	{"breaker.min_calls", "10..100"},
	{"breaker.window", "5s..1m"},
	{"bulkhead.limit", ""},
	{"hedge.percentile", "80%,90%,95%,98%,99%"},
	{"throttle.k", "1.1,1.5,2,3"},
	{"pace.max", "1s..20s"},
}

// usualCount is how many of them are tuned if nothing is asked for.
const usualCount = 5

// facts are keys that say what the dependency and its callers are: no run in a lab can find
// out better ones.
var facts = []string{"trust", "key", "safe", "http", "grpc", "partitions"}

const (
	rangeSteps    = 8  // values of a range
	maxValues     = 50 // of one key
	maxDimensions = 12
)

// Space returns the keys to be varied of a dependency of the file. Each of vary is PATH,
// PATH=FROM..TO or PATH=VALUE,VALUE; without any they are the usual ones. Notes say which of
// the usual ones are left out, and why. The error is a *[policyfile.SetError].
func Space(f *config.File, dependency string, vary []string) (all []Dimension, notes []string, err error) {
	if len(vary) > maxDimensions {
		return nil, nil, &policyfile.SetError{Path: vary[maxDimensions], Problem: fmt.Sprintf("%d keys are too many to search", len(vary)), Proposal: fmt.Sprintf("vary at most %d", maxDimensions)}
	}
	now := settings(policyfile.Of(f).Reveal(dependency))
	p := f.Policies[dependency]
	if len(vary) == 0 {
		for _, u := range usual[:usualCount] {
			if strings.HasPrefix(u.path, "retry.") && p.Resolved().Retry.Attempts == 1 {
				notes = append(notes, "not varied: "+u.path+": the file makes one attempt; --vary "+u.path+" varies it all the same")
				continue
			}
			d, err := now.dimension(p, u.path, u.values)
			if err != nil {
				notes = append(notes, "not varied: "+err.Error())
				continue
			}
			all = append(all, d)
		}
		return all, notes, nil
	}
	for _, v := range vary {
		path, values, given := strings.Cut(v, "=")
		path = strings.TrimSpace(path)
		if given && strings.TrimSpace(values) == "" {
			return nil, nil, &policyfile.SetError{Path: path, Problem: "has no values", Proposal: "write PATH=FROM..TO or PATH=VALUE,VALUE"}
		}
		d, err := now.dimension(p, path, strings.TrimSpace(values))
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(all, func(o Dimension) bool { return o.Path == path }) {
			return nil, nil, &policyfile.SetError{Path: path, Problem: "is there twice", Proposal: "remove one"}
		}
		all = append(all, d)
	}
	return all, nil, nil
}

// settings are what a dependency's policy says today.
type settings []policy.Setting

func (s settings) find(path string) *policy.Setting {
	if i := slices.IndexFunc(s, func(x policy.Setting) bool { return x.Path == path }); i >= 0 {
		return &s[i]
	}
	return nil
}

// source says where a value comes from, or that of the section that is off.
func (s settings) source(path string) string {
	for at := path; ; at = at[:strings.LastIndexByte(at, '.')] {
		if found := s.find(at); found != nil {
			return found.Source
		}
		if !strings.Contains(at, ".") {
			return "default"
		}
	}
}

// dimension makes a key ready to be varied.
func (s settings) dimension(p policy.Policy, path, values string) (d Dimension, err error) {
	if section, _, _ := strings.Cut(path, "."); slices.Contains(facts, section) {
		return d, &policyfile.SetError{Path: path, Problem: "is a fact about the dependency and its callers", Proposal: "vary numbers such as retry.attempts or breaker.open"}
	}
	if _, err := policyfile.Set(p, path, "x"); !slices.Contains(policyfile.Keys(), path) {
		return d, err // which names the nearest
	}
	if slices.ContainsFunc(policyfile.Keys(), func(k string) bool { return strings.HasPrefix(k, path+".") }) {
		return d, &policyfile.SetError{Path: path, Problem: "is a section", Proposal: "vary one of its keys"}
	}
	d.Path, d.Source = path, "default"
	home := ""
	if at := s.find(path); at != nil {
		home, d.Source = at.Value, at.Source
	} else if off := s.switchedOff(path); off != nil {
		return d, &policyfile.SetError{Path: path, Problem: fmt.Sprintf("%s is off (%s)", off.Path, off.Source), Proposal: "switch it on in the file first"}
	}
	if d.Values, err = rangeOf(path, values, home); err != nil {
		return d, err
	}
	if path == "timeout.attempt" && values == "" { // more is no longer than the call
		d.Values = slices.DeleteFunc(d.Values, func(v string) bool { x, _ := size(v); return x >= p.Resolved().Timeout.Call.Seconds() })
	}
	d.Home = d.put(home)
	if d.Values, err = d.possible(p); err != nil {
		return d, err
	}
	d.Home = slices.Index(d.Values, home)
	return d, nil
}

// switchedOff returns the setting that switches off a section around a key. A section that is off
// by default has none.
func (s settings) switchedOff(path string) *policy.Setting {
	for i := range path {
		if path[i] != '.' {
			continue
		}
		if at := s.find(path[:i]); at != nil && at.Source != "default" {
			return at
		}
	}
	return nil
}

// rangeOf returns the values that were asked for, or the usual ones.
func rangeOf(path, text, home string) ([]string, error) {
	if i := slices.IndexFunc(usual, func(u struct{ path, values string }) bool { return u.path == path }); text == "" && i >= 0 {
		text = usual[i].values
	}
	if text == "" {
		return around(path, home)
	}
	var values []string
	if from, to, ranged := strings.Cut(text, ".."); ranged {
		steps, err := policyfile.Steps(path, strings.TrimSpace(from), strings.TrimSpace(to), rangeSteps, policyfile.SpacingOfRange)
		if err != nil {
			return nil, err
		}
		values = steps
	} else {
		for v := range strings.SplitSeq(text, ",") {
			values = append(values, strings.TrimSpace(v))
		}
	}
	if len(values) > maxValues {
		return nil, &policyfile.SetError{Path: path, Problem: fmt.Sprintf("%d values are too many", len(values)), Proposal: fmt.Sprintf("write at most %d", maxValues)}
	}
	for i, v := range values {
		if _, err := policyfile.Set(policy.Policy{}, path, v); err != nil {
			return nil, err
		}
		if slices.Contains(values[:i], v) {
			return nil, &policyfile.SetError{Path: path, Value: text, Problem: v + " is there twice", Proposal: "remove one"}
		}
	}
	return values, nil
}

// around is from a quarter of what the file says to four times that.
func around(path, home string) ([]string, error) {
	x, ok := size(home)
	if !ok || x <= 0 {
		return nil, &policyfile.SetError{Path: path, Problem: "has no usual range", Proposal: "write " + path + "=FROM..TO, or values with commas between them"}
	}
	unit := home[len(strings.TrimRight(home, "abcdefghijklmnopqrstuvwxyz%/")):]
	var values []string
	for _, times := range []float64{0.25, 0.35, 0.5, 0.7, 1.4, 2, 2.8, 4} {
		text := spelled(x*times, home, unit)
		if _, err := policyfile.Set(policy.Policy{}, path, text); err == nil && !slices.Contains(values, text) && text != home {
			values = append(values, text)
		}
	}
	if len(values) == 0 {
		return nil, &policyfile.SetError{Path: path, Problem: "is no number that can be varied", Proposal: "write values with commas between them"}
	}
	return values, nil
}

// spelled writes a size as home is written, with two digits.
func spelled(x float64, home, unit string) string {
	if d, err := policy.ParseDuration(home); err == nil && d > 0 {
		return policy.FormatDuration(time.Duration(math.Round(two(x) * float64(time.Second))))
	}
	switch {
	case strings.HasSuffix(home, "%"):
		return strconv.FormatFloat(two(100*x), 'f', -1, 64) + "%"
	case strings.Contains(home, "."):
		return strconv.FormatFloat(two(x), 'f', -1, 64) + unit
	}
	return strconv.Itoa(max(int(math.Round(two(x))), 1)) + unit
}

func two(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 1, 64), 64) // it was a number before
	return y
}

// size returns how much a value is: seconds, a share, a rate or a number.
func size(text string) (float64, bool) {
	if d, err := policy.ParseDuration(text); err == nil && d > 0 {
		return d.Seconds(), true
	}
	number, _, _ := strings.Cut(text, "/")
	share, percent := strings.CutSuffix(number, "%")
	x, err := strconv.ParseFloat(share, 64)
	if percent {
		x /= 100
	}
	return x, err == nil
}

// put brings values in order, puts that of today among them, and drops those that are as
// much.
func (d *Dimension) put(home string) int {
	if !slices.ContainsFunc(d.Values, func(v string) bool { _, ok := size(v); return !ok }) {
		slices.SortStableFunc(d.Values, func(a, b string) int {
			x, _ := size(a)
			y, _ := size(b)
			return cmp.Compare(x, y)
		})
	}
	x, sized := size(home)
	if sized {
		d.Values = slices.DeleteFunc(d.Values, func(v string) bool { y, ok := size(v); return ok && y == x })
	} else {
		d.Values = slices.DeleteFunc(d.Values, func(v string) bool { return v == home })
	}
	at := 0
	for i, v := range d.Values {
		if y, ok := size(v); sized && ok && y < x {
			at = i + 1
		}
	}
	d.Values = slices.Insert(d.Values, at, home)
	return at
}

// possible drops values that do not fit what else the policy says today. One at least has to
// be left beside that of today.
func (d *Dimension) possible(p policy.Policy) ([]string, error) {
	var last error
	kept := slices.DeleteFunc(slices.Clone(d.Values), func(v string) bool {
		if v == d.Values[d.Home] {
			return false
		}
		changed, err := policyfile.Set(p, d.Path, v)
		if err == nil {
			err = changed.Validate()
		}
		if err != nil {
			last = err
		}
		return err != nil
	})
	if len(kept) < 2 {
		e := &policyfile.SetError{Path: d.Path, Problem: "no other value is possible", Proposal: "write values that are"}
		if wrong, is := errors.AsType[*policyfile.SetError](last); is {
			return nil, wrong
		}
		if last != nil {
			line, _, _ := strings.Cut(last.Error(), "\n")
			e.Problem = cmp.Or(line, e.Problem)
		}
		return nil, e
	}
	return kept, nil
}
