package measured

import (
	"iter"
	"strings"

	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// tape measures a recording while it is read.
type tape struct {
	all map[string]*vitals
	of  map[string]*reel
}

// reel is what one dependency needs besides while its events are read.
type reel struct {
	first, last policy.Instant
	run         int
}

// readRecording reads a recording to its end, or as far as it goes: the error says why not further.
func readRecording(entries iter.Seq2[recording.Entry, error]) (all map[string]*vitals, events int, err error) {
	t := tape{all: map[string]*vitals{}, of: map[string]*reel{}}
	for e, failed := range entries {
		if failed != nil {
			err = failed
			break
		}
		events++
		t.take(&e)
	}
	for name, v := range t.all {
		r := t.of[name]
		v.span += r.last.Sub(r.first)
	}
	return t.all, events, err
}

func (t *tape) take(e *recording.Entry) {
	name := e.Event.Dependency
	v, r := t.all[name], t.of[name]
	if v == nil {
		v, r = newVitals(name), &reel{run: e.Run, first: e.Event.At, last: e.Event.At}
		t.all[name], t.of[name] = v, r
	}
	if e.Run != r.run || e.Event.At < r.first { // another process, or another clock
		v.span += r.last.Sub(r.first)
		r.run, r.first, r.last = e.Run, e.Event.At, e.Event.At
	}
	r.last = max(r.last, e.Event.At)
	if e.Origin != nil && len(e.Origin.Settings) > 0 {
		v.settings, v.hasPolicy = inForce(name, e.Origin.Settings), true
	}
	v.event(&e.Event)
}

func (v *vitals) event(e *policy.Event) {
	switch e.Kind {
	case policy.KindAttemptSent:
		v.attempts++
		if e.Attempt > 1 && !e.Hedge {
			v.retries++
		}
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		if e.Reason == policy.AttemptTimeout {
			v.cut++
		}
		if e.Class == policy.ClassSuccess {
			v.took.Add(e.Took, 1)
		}
	case policy.KindAttemptRefused, policy.KindHedgeSkipped:
		v.refused[e.Reason.String()]++
	case policy.KindBreakerMoved:
		if e.To == policy.StateOpen && admits(e.From) {
			v.opens++
		}
	case policy.KindReturned:
		v.calls++
		if e.Reason == policy.None {
			v.succeeded++
		} else {
			v.ended[e.Reason.String()]++
		}
		if e.Attempt > 1 {
			v.longest = max(v.longest, e.Took)
		}
	}
}

// admits reports whether a breaker of that state lets all calls through.
func admits(s policy.BreakerState) bool {
	return s == policy.StateClosed || s == policy.StateDisabled || s == policy.StateObserveOnly
}

// inForce are the settings that are no defaults.
func inForce(name string, settings []policy.Setting) (set []policyfile.Change) {
	for _, s := range settings {
		if s.Source != "default" {
			set = append(set, setting(name, s.Path, s.Value))
		}
	}
	return set
}

// setting is one as a recording or a page spells it.
func setting(name, path, value string) policyfile.Change {
	if section, off := strings.CutSuffix(path, ".off"); off {
		path, value = section, "off"
	}
	return policyfile.Change{Dependency: name, Path: path, Value: value}
}

// perTenMinutes is how often something happened in ten minutes.
func (v *vitals) perTenMinutes(n float64) float64 {
	return n / max(v.span.Minutes()/10, 1)
}
