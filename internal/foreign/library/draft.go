package library

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// draft is a route while it is read: what the other system does, and the nearest of gabion.
type draft struct {
	w     *foreign.Walker
	route foreign.Route
	at    map[string]*foreign.Value // where a written key comes from
}

// begin makes a route that does one try, bounded by nothing.
func begin(w *foreign.Walker, name, title string, line int) *draft {
	bare := foreign.Bare(foreign.Undivided(policy.Policy{Timeout: policy.Timeout{Call: policy.Off}}), 1, backoff.Const(0))
	bare.Timeout.Idle = policy.Off
	bare.Retry.Hold, bare.Retry.Contention.Attempts = policy.Off, 1
	return &draft{w: w, at: map[string]*foreign.Value{}, route: foreign.Route{
		Dependency: w.Names.Make(name), Title: title, Line: line, Plays: bare, From: map[string]int{},
	}}
}

// plays is a default of the other system, which counts where the file says nothing.
func (d *draft) plays(set func(p *policy.Policy)) { set(&d.route.Plays) }

// says is what the file says: both policies say it, and the key has the line of the value.
func (d *draft) says(v *foreign.Value, set func(p *policy.Policy), paths ...string) {
	if v == nil {
		return
	}
	set(&d.route.Plays)
	set(&d.route.Policy)
	for _, path := range paths {
		d.at[path], d.route.From[path] = v, v.Line(d.route.Line)
	}
}

// follows is what the other system does because the file says something else, or nothing: it
// has the line of the route.
func (d *draft) follows(set func(p *policy.Policy)) {
	set(&d.route.Plays)
	set(&d.route.Policy)
}

// repeats says that the other system repeats what is sent, whatever it does.
func (d *draft) repeats(v *foreign.Value, who string) {
	if d.route.Plays.Retry.Attempts > 1 || d.route.Plays.Hedge.Max > 0 {
		d.route.Plays.Safe = true
		if v != nil && v.Key != nil {
			d.w.Import.Remarks = append(d.w.Import.Remarks, foreign.Remark{
				Line: v.Key.Line, Col: v.Key.Col, Key: v.Path, Fate: foreign.Nearly,
				Text: who + " repeats every call, here only work that is safe to repeat or carries a key is: write safe: true if all of it is",
			})
		}
	}
}

// noAnswer is what a library meets as an error of its own, and no status.
var noAnswer = []string{"refused", "reset", "timeout"}

// resends is what the other system sends again by a list of statuses: those, and what is no answer.
func (d *draft) resends(statuses ...string) { d.route.Repeats = slices.Concat(statuses, noAnswer) }

// longestAttempt is the most of an attempt's time: a breaker's window holds two, and is a day at most.
const longestAttempt = 12 * time.Hour

// endless takes a time of an attempt that is too long for a policy as none.
func (d *draft) endless() {
	v := d.at["timeout.attempt"]
	if v == nil || d.route.Policy.Timeout.Attempt <= longestAttempt {
		return
	}
	d.says(v, func(p *policy.Policy) { p.Timeout.Attempt = policy.Off })
	d.w.Remark(v, foreign.Nearly, "{} is more than 12h, and off here: an attempt has no time of its own")
}

// done adds the route. What a policy can't say is left out, and said.
func (d *draft) done() {
	d.endless()
	p := &d.route.Plays
	if call := p.Timeout.Call; call > 0 && p.Timeout.Attempt > call {
		p.Timeout.Attempt = call
	}
	p.Timeout.Last = p.Timeout.Attempt
	for _, path := range leave(&d.route.Policy) {
		d.left(path)
	}
	leave(&d.route.Plays)
	d.w.Import.Routes = append(d.w.Import.Routes, d.route)
}

// left says of a key that it could not be written.
func (d *draft) left(path string) {
	for at := path; ; at = at[:strings.LastIndexByte(at, '.')] {
		if v := d.at[at]; v != nil {
			d.w.Remark(v, foreign.Lost, "{} can't be written as "+path+" beside the rest: gabion's default counts")
			return
		}
		if !strings.Contains(at, ".") {
			return
		}
	}
}

// leave takes out of a policy what can't stand in one, and returns its paths.
func leave(p *policy.Policy) (paths []string) {
	for range 40 {
		found, _ := p.Validate().(policy.Mistakes)
		if len(found) == 0 {
			return paths
		}
		if !clear(reflect.ValueOf(p).Elem(), strings.Split(found[0].Path, ".")) {
			return paths
		}
		paths = append(paths, found[0].Path)
	}
	return paths
}

// clear makes a key say nothing, and reports whether it did not do so already.
func clear(v reflect.Value, path []string) bool {
	for i := range v.NumField() {
		if f := v.Field(i); yamlstrict.Snake(v.Type().Field(i).Name) != path[0] {
			continue
		} else if len(path) > 1 && f.Kind() == reflect.Struct {
			return clear(f, path[1:])
		} else {
			was := f.IsZero()
			f.SetZero()
			return !was
		}
	}
	return false
}

// orOff is a time, or off for zero.
func orOff(d time.Duration) time.Duration {
	if d <= 0 {
		return policy.Off
	}
	return foreign.Bounded(d)
}

// percent makes a share of a percentage.
func percent(n float64) policy.Ratio { return policy.Ratio(n / 100) }

// nested makes keys of several parts maps in maps, as the readers of such files do: a.b: 1 and
// a: {c: 2} are a: {b: 1, c: 2}. Below depth levels keys are names, and stay.
func nested(t *yamlstrict.Tree, sep string, depth int) *yamlstrict.Tree {
	if t == nil || t.Kind != yamlstrict.Map || depth == 0 {
		return t
	}
	made := *t
	made.Pairs = nil
	for _, pair := range t.Pairs {
		into := &made
		parts := strings.Split(pair.Key.Text, sep)
		for i, part := range parts {
			key := *pair.Key
			key.Text = part
			if i == len(parts)-1 {
				put(into, &key, pair.Value)
				continue
			}
			next := into.Get(part)
			if next == nil || next.Kind != yamlstrict.Map {
				next = &yamlstrict.Tree{Kind: yamlstrict.Map, Line: key.Line, Col: key.Col}
				into.Pairs = append(into.Pairs, yamlstrict.Pair{Key: &key, Value: next})
			}
			into = next
		}
	}
	for i := range made.Pairs {
		made.Pairs[i].Value = nested(made.Pairs[i].Value, sep, depth-1)
	}
	return &made
}

// put adds a key; of two maps of one key it makes one.
func put(into, key, value *yamlstrict.Tree) {
	for i := range into.Pairs {
		have := into.Pairs[i].Value
		if into.Pairs[i].Key.Text == key.Text && have.Kind == yamlstrict.Map && value.Kind == yamlstrict.Map {
			both := *have
			both.Pairs = append(append([]yamlstrict.Pair(nil), have.Pairs...), value.Pairs...)
			into.Pairs[i].Value = &both
			return
		}
	}
	into.Pairs = append(into.Pairs, yamlstrict.Pair{Key: key, Value: value})
}

// number spells a number in a remark.
func number(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.4g", n), ".") }
