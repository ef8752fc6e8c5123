package doctorcmd

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
)

// keepTimes says why nothing may be shortened on the strength of what was measured, or "".
// What it reads, each source tells.
func (v *vitals) keepTimes() string {
	return formulas.KeepTimes(formulas.Sample{
		Successes: float64(v.latency.Samples),
		Calls:     v.calls, Failed: v.calls - v.succeeded - v.ended[policy.NotRetryable.String()],
		Attempts: v.attempts, Retries: v.retries, Cut: v.cut,
		Opened: v.opens > 0 || v.notClosed || v.ended[policy.BreakerOpen.String()]+v.refused[policy.BreakerOpen.String()] > 0,
	})
}

// keep takes back what would shorten something on too little evidence: all lines pass here,
// whatever they come from. What is taken back can't be written either.
func (d *diagnosis) keep(name string, all map[string]*vitals) {
	for i := range d.Dependencies {
		p := &d.Dependencies[i]
		if p.Kept = all[p.Name].keepTimes(); p.Kept == "" {
			continue
		}
		d.Lines = slices.DeleteFunc(d.Lines, func(l line) bool { return l.Dependency == p.Name && l.Rule == ruleFar })
		for j := range d.Lines {
			if l := &d.Lines[j]; l.Dependency == p.Name && d.shortens(name, l) {
				l.Proposal, l.Changes = "nothing is shortened: "+p.Kept, nil
			}
		}
	}
}

// shortens reports whether a line's changes make anything shorter, or a bulkhead smaller, in
// the policy that results.
func (d *diagnosis) shortens(name string, l *line) bool {
	after, err := config.Edit(name, d.text, l.Changes)
	if err != nil || len(l.Changes) == 0 {
		return false
	}
	was, _ := config.Read(name, d.text)
	is, _ := config.Read(name, after)
	p, q := was.Policies[l.Dependency].Resolved(), is.Policies[l.Dependency].Resolved()
	return q.Timeout.Percentile > p.Timeout.Percentile || shorter(q.Bulkhead.Limit, p.Bulkhead.Limit) ||
		anyShorter(reflect.ValueOf(q), reflect.ValueOf(p))
}

// anyShorter compares all durations below two values of one type.
func anyShorter(is, was reflect.Value) bool {
	for i := range is.NumField() {
		switch a, b := is.Field(i), was.Field(i); {
		case a.Kind() == reflect.Struct:
			if anyShorter(a, b) {
				return true
			}
		case a.Type() == reflect.TypeFor[time.Duration]():
			if shorter(time.Duration(a.Int()), time.Duration(b.Int())) {
				return true
			}
		}
	}
	return false
}

// shorter compares limits, where one that is not positive is no limit.
func shorter[T cmp.Ordered](is, was T) bool {
	var zero T
	return is > zero && (was <= zero || is < was)
}
