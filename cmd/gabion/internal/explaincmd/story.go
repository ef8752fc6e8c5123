package explaincmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// What is kept of a recording is bounded; a call has far fewer decisions, and dependencies
// far fewer events.
const (
	maxSteps = 10_000
	maxAside = 10_000
	maxKnown = 1 << 16 // dependencies and partitions of which the last state is kept
)

// story is what a recording tells of one call. Where the run is left open, each run that
// has such a call begins the tale anew.
type story struct {
	tale
	id    recording.ID
	found tale              // of the last run before this one that has the call
	other []int             // the runs before found that have one too
	calls map[int][2]uint64 // the least and the greatest number of a call, by run
	run   int
}

// tale is what one run tells of a call.
type tale struct {
	own   []recording.Entry         // the call's own events
	aside []recording.Entry         // of its dependency, once the call is known; before, of all
	known map[place]recording.Entry // what was so before, by what and where
	more  bool                      // some were left out
}

func newStory(id recording.ID) *story {
	return &story{id: id, calls: map[int][2]uint64{}}
}

// place is where and what a state is of.
type place struct {
	dependency, partition string
	kind                  policy.Kind
}

// take keeps what an entry says of the call.
func (s *story) take(e *recording.Entry) {
	if e.Run != s.run {
		s.turn()
		s.run, s.tale = e.Run, tale{known: map[place]recording.Entry{}}
	}
	if n := e.Event.Call; n != 0 {
		s.count(e.Run, n)
	}
	switch {
	case s.id.Run != 0 && s.id.Run != e.Run:
	case e.Event.Call == s.id.Call:
		if s.more = s.more || len(s.own) == maxSteps; len(s.own) < maxSteps {
			s.own = append(s.own, *e)
		}
	case e.Event.Call != 0:
	case len(s.own) == 0:
		s.before(e)
	case e.Event.Dependency == s.own[0].Event.Dependency || e.Event.Kind == policy.KindEventsLost:
		if s.more = s.more || len(s.aside) == maxAside; len(s.aside) < maxAside {
			s.aside = append(s.aside, *e)
		}
	}
}

// turn ends a run. What it told of the call is kept, if it told something.
func (s *story) turn() {
	if len(s.own) == 0 {
		return
	}
	if len(s.found.own) > 0 && len(s.other) < maxRuns {
		s.other = append(s.other, s.found.own[0].Run)
	}
	s.found = s.tale
}

// end ends the recording: the tale is that of the last run that has the call.
func (s *story) end() {
	s.turn()
	s.tale = s.found
}

// others says which other runs have a call of that number, where the reader did not name
// the run.
func (s *story) others() string {
	if len(s.other) == 0 {
		return ""
	}
	var ids []string
	for _, run := range s.other[max(0, len(s.other)-shownCalls):] {
		ids = append(ids, recording.ID{Run: run, Call: s.id.Call}.String())
	}
	text := strings.Join(ids, ", ")
	if left := len(s.other) - len(ids); left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return fmt.Sprintf("also %s: this is the one of run %d, the last that has a call %d", text, s.own[0].Run, s.id.Call)
}

// named is how a call is named to the reader: the run matters where there are several.
func named(id recording.ID, runs int) string {
	if runs <= 1 {
		id.Run = 0
	}
	return id.String()
}

func (s *story) count(run int, n uint64) {
	seen, ok := s.calls[run]
	if !ok {
		seen = [2]uint64{n, n}
	}
	s.calls[run] = [2]uint64{min(seen[0], n), max(seen[1], n)}
}

// before keeps an event of a time when the call was not seen yet: the last ones, which may
// have happened after it began, and the last of each state.
func (s *story) before(e *recording.Entry) {
	if s.aside = append(s.aside, *e); len(s.aside) > 2*recent {
		s.aside = slices.Clone(s.aside[recent:])
	}
	at := place{e.Event.Dependency, e.Event.Partition, e.Event.Kind}
	switch at.kind {
	case policy.KindBreakerMoved, policy.KindPaceSet, policy.KindRetriesSwitched, policy.KindReloaded:
		if _, ok := s.known[at]; ok || len(s.known) < maxKnown {
			s.known[at] = *e
		}
	}
}

// recent is how many events before the call's first may have happened after it began.
const recent = 256

// missing says which calls there are.
func (s *story) missing(file string) error {
	run := s.id.Run
	if run == 0 {
		run = s.run
	}
	seen, ok := s.calls[run]
	switch {
	case len(s.calls) == 0:
		return fmt.Errorf("%s has no call at all", file)
	case s.id.Run > s.run:
		return fmt.Errorf("%s has no run %d: it has %s; gabion explain %s lists calls", file, s.id.Run, cli.Count(s.run, "run"), file)
	case !ok:
		return fmt.Errorf("%s has no call %s: run %d has none at all; gabion explain %s lists calls", file, s.id, run, file)
	}
	whose := "its calls"
	if s.run > 1 {
		whose = fmt.Sprintf("the calls of run %d", run)
	}
	first, last := recording.ID{Run: run, Call: seen[0]}, recording.ID{Run: run, Call: seen[1]}
	return fmt.Errorf("%s has no call %s: %s are %s to %s; gabion explain %s lists those worth a look",
		file, s.id, whose, named(first, s.run), named(last, s.run), file)
}
