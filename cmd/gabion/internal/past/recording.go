package past

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/recorded"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// reel reads the recording of one dependency.
type reel struct {
	tape
	open   map[recording.ID]*under
	events int
	runs   map[int]bool
	policy string // the hash of the policy in force
	moved  bool   // it changed while the recording went on
}

// under is what is known of a call that has not ended.
type under struct {
	first  observed
	effect bool // an attempt failed that may have had an effect
}

// readRecording reads a recording. A part that can't be read ends it with a note if there are
// calls before it.
func readRecording(in io.Reader, o Options) (*Past, error) {
	all := map[string]bool{}
	r := &reel{open: map[recording.ID]*under{}, runs: map[int]bool{}}
	r.Kind, r.Clients = "a recording", 1
	var ended error
	for e, err := range recording.Entries(in) {
		if err != nil {
			ended = err
			break
		}
		r.events++
		if e.Event.Dependency != "" {
			all[e.Event.Dependency] = true
		}
		switch {
		case o.Dependency != "" && e.Event.Dependency != o.Dependency:
			continue
		case len(all) > 1 && o.Dependency == "":
			continue // what is wrong is said at the end, with all names
		}
		if err := r.take(&e, o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	if problem := recorded.Problem(o.Name, ended, r.events); problem != nil {
		if len(r.calls) == 0 {
			return nil, problem
		}
		r.Notes = append(r.Notes, problem.Error())
	}
	name, err := o.choose(slices.Sorted(maps.Keys(all)))
	if err != nil {
		return nil, err
	}
	if r.Dependency = name; len(r.calls) == 0 {
		return nil, o.none(name)
	}
	if len(r.runs) > 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("the recording has %d runs of a program; the replay is of one that knows all", len(r.runs)))
	}
	if r.moved {
		r.Notes = append(r.Notes, "the policy changed while the recording went on; the replay has the first one")
	}
	return r.develop(), nil
}

func (r *reel) take(e *recording.Entry, o Options) error {
	v := &e.Event
	shift := int64(0)
	if e.Origin != nil {
		shift = e.Origin.Zero.UnixNano()
		r.settings(e.Origin)
	}
	if len(r.runs) == 0 {
		r.Begin = e.Time(v.At)
		if err := r.window(o, int64(v.At)+shift); err != nil {
			return err
		}
	}
	r.runs[e.Run] = true
	id := e.ID()
	switch v.Kind {
	case policy.KindAttemptSent:
		if u := r.open[id]; u != nil && v.Attempt > 1 && !v.Hedge && u.effect {
			r.Repeated = true
		}
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		seen := observe(v.Class.String(), v.Code, v.Effect == policy.NoEffect, int64(v.Took))
		r.settled(attempt{int64(v.At) - int64(v.Took) + shift, seen})
		if v.Kind == policy.KindLoserSettled {
			return nil
		}
		u := r.open[id]
		if u == nil {
			u = new(under)
			r.open[id] = u
		}
		if v.Attempt == 1 {
			u.first = seen
		}
		u.effect = u.effect || v.Class != policy.ClassSuccess && v.Class != policy.ClassThrottled && v.Effect != policy.NoEffect
	case policy.KindReturned:
		c := call{at: int64(v.At) - int64(v.Took) + shift, took: int64(v.Took), how: failed}
		if u := r.open[id]; u != nil {
			c.own = u.first
			delete(r.open, id)
		}
		switch {
		case v.Reason == policy.None, v.Class == policy.ClassClient, v.Class == policy.ClassBusiness:
			c.how = answered
		case v.Class == policy.ClassIgnored, v.Reason == policy.Canceled:
			c.how = left
		}
		return r.ended(c)
	}
	return nil
}

// settings reads what is said before the first event of the dependency.
func (r *reel) settings(from *recording.Origin) {
	if r.policy == "" {
		r.policy = from.Policy
	}
	r.moved = r.moved || from.Policy != r.policy
	if r.HasPolicy || len(from.Settings) == 0 {
		return
	}
	r.HasPolicy = true
	for _, s := range from.Settings {
		if s.Source != "default" {
			r.Policy = append(r.Policy, Change(s))
		}
	}
}

// Change is a setting as a file says it.
func Change(s policy.Setting) policyfile.Change {
	path, value := s.Path, s.Value
	if section, off := strings.CutSuffix(path, ".off"); off {
		path, value = section, "off"
	}
	return policyfile.Change{Path: path, Value: value}
}
