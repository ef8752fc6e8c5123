package explaincmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
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
	id    record.ID
	found tale              // of the last run before this one that has the call
	other []int             // the runs before found that have one too
	calls map[int][2]uint64 // the least and the greatest number of a call, by run
	run   int
}

// tale is what one run tells of a call.
type tale struct {
	own   []record.Entry         // the call's own events
	aside []record.Entry         // of its dependency, once the call is known; before, of all
	known map[place]record.Entry // what was so before, by what and where
	more  bool                   // some were left out
}

func newStory(id record.ID) *story {
	return &story{id: id, calls: map[int][2]uint64{}}
}

// place is where and what a state is of.
type place struct {
	dependency, partition string
	kind                  policy.Kind
}

// take keeps what an entry says of the call.
func (s *story) take(e *record.Entry) {
	if e.Run != s.run {
		s.turn()
		s.run, s.tale = e.Run, tale{known: map[place]record.Entry{}}
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
		ids = append(ids, record.ID{Run: run, Call: s.id.Call}.String())
	}
	text := strings.Join(ids, ", ")
	if left := len(s.other) - len(ids); left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return fmt.Sprintf("also %s: this is the one of run %d, the last that has a call %d", text, s.own[0].Run, s.id.Call)
}

// named is how a call is named to the reader: the run matters where there are several.
func named(id record.ID, runs int) string {
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
func (s *story) before(e *record.Entry) {
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

// step is one line of a timeline. Its keys are part of the JSON's version.
type step struct {
	Seconds   float64 `json:"seconds"` // after the call began
	Time      string  `json:"time,omitempty"`
	Kind      string  `json:"kind"`
	Text      string  `json:"text"`
	Setting   *ruled  `json:"setting,omitempty"`
	Before    bool    `json:"before,omitempty"`    // it was so when the call began
	Meanwhile bool    `json:"meanwhile,omitempty"` // it happened to the dependency
	Line      int     `json:"line"`                // of the recording
}

// timeline is what is shown of a call. Its keys are part of the JSON's version.
type timeline struct {
	Version    int             `json:"version"`
	File       string          `json:"file"`
	Call       string          `json:"call"`
	Dependency string          `json:"dependency"`
	Operation  string          `json:"operation,omitempty"`
	Partition  string          `json:"partition,omitempty"`
	Program    *record.Program `json:"program,omitempty"`
	Virtual    bool            `json:"virtual,omitempty"`
	Began      string          `json:"began,omitempty"`
	At         float64         `json:"at"`    // when it began, in seconds by the dependency's clock
	Ended      bool            `json:"ended"` // its end is in the recording
	Reason     string          `json:"reason,omitempty"`
	Steps      []step          `json:"steps"`
	Notes      []string        `json:"notes"`
}

func (r *request) explainCall(file string) error {
	id, err := record.ParseID(r.call)
	if err != nil {
		return wrong{fmt.Errorf("--call: %w", err), true}
	}
	s := newStory(id)
	failed := r.read(file, s.take)
	s.end()
	if len(s.own) == 0 {
		if failed != nil {
			return failed
		}
		return wrong{s.missing(shown(file)), false}
	}
	rules, err := rulesOf(r.policy, &s.own[len(s.own)-1])
	if err != nil {
		return err
	}
	t := s.timeline(rules)
	t.File = shown(file)
	if r.json {
		err = r.writeJSON(t)
	} else {
		err = r.print(t.text())
	}
	return cmp.Or(err, failed)
}

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
		return fmt.Errorf("%s has no run %d: it has %s; gabion explain %s lists calls", file, s.id.Run, plural(s.run, "run"), file)
	case !ok:
		return fmt.Errorf("%s has no call %s: run %d has none at all; gabion explain %s lists calls", file, s.id, run, file)
	}
	whose := "its calls"
	if s.run > 1 {
		whose = fmt.Sprintf("the calls of run %d", run)
	}
	first, last := record.ID{Run: run, Call: seen[0]}, record.ID{Run: run, Call: seen[1]}
	return fmt.Errorf("%s has no call %s: %s are %s to %s; gabion explain %s lists those worth a look",
		file, s.id, whose, named(first, s.run), named(last, s.run), file)
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// timeline puts the events of a call, and of its dependency meanwhile, in order.
func (s *story) timeline(rules *rules) *timeline {
	began, ended, over := s.span()
	first := &s.own[0]
	t := &timeline{
		Version: 1, Call: named(first.ID(), s.run), Dependency: first.Event.Dependency, Operation: first.Event.Operation, Partition: s.partition(),
		Ended: over != nil, Began: clock(first, began), At: began.Sub(0).Seconds(), Steps: []step{}, Notes: append([]string{}, rules.notes...),
	}
	if h := first.Header; h != nil {
		t.Program, t.Virtual = &h.Program, h.Virtual
	}
	if over != nil {
		t.Reason = over.Reason.String()
	} else {
		t.Notes = append(t.Notes, "the recording does not have the end of this call")
	}
	if text := s.others(); text != "" {
		t.Notes = append(t.Notes, text)
	}
	if s.more {
		t.Notes = append(t.Notes, "there is more than is shown")
	}
	last := policy.ClassUndecided
	for _, e := range s.order(t.Partition, began, ended) {
		p := step{
			Seconds: e.Event.At.Sub(began).Seconds(), Time: clock(&e, e.Event.At), Kind: e.Event.Kind.String(), Text: why.Why(e.Event),
			Before: e.Event.At < began, Meanwhile: e.Event.Call == 0 && e.Event.At >= began, Line: e.Line,
			Setting: rules.of(why.SettingAfter(e.Event, last)),
		}
		if e.Event.Call == 0 && e.Event.Partition != "" {
			p.Text = "partition " + e.Event.Partition + ": " + p.Text
		}
		if e.Event.Kind == policy.KindAttemptSettled {
			last = e.Event.Class
		}
		t.Steps = append(t.Steps, p)
	}
	return t
}

// span is when the call began and when its last event was, and its end, if that is known.
func (s *story) span() (began, ended policy.Instant, over *policy.Event) {
	began, ended = s.own[0].Event.At, s.own[0].Event.At
	for i := range s.own {
		e := &s.own[i].Event
		began, ended = min(began, e.At), max(ended, e.At)
		if e.Kind == policy.KindReturned {
			over, began = e, min(began, e.At.Add(-e.Took))
		}
	}
	return began, ended, over
}

// partition is the one that the call named.
func (s *story) partition() string {
	for i := range s.own {
		if p := s.own[i].Event.Partition; p != "" {
			return p
		}
	}
	return ""
}

// order is what to show, by time: the call's own events, what happened to its partition of
// the dependency meanwhile, and how that stood when the call began.
func (s *story) order(partition string, began, ended policy.Instant) []record.Entry {
	all := slices.Clone(s.own)
	for _, e := range s.aside {
		mine := e.Event.Dependency == s.own[0].Event.Dependency && (e.Event.Partition == "" || e.Event.Partition == partition)
		if e.Event.Kind == policy.KindEventsLost || mine && e.Event.At >= began && e.Event.At <= ended {
			all = append(all, e)
		}
	}
	for at, e := range s.known {
		if at.dependency == s.own[0].Event.Dependency && at.partition == partition && e.Event.At < began && !over(&e.Event, began) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b record.Entry) int {
		return cmp.Or(cmp.Compare(a.Event.At, b.Event.At), cmp.Compare(a.Line, b.Line))
	})
	return slices.CompactFunc(all, func(a, b record.Entry) bool { return a.Line == b.Line })
}

// over reports whether what an event says no longer matters at a time.
func over(e *policy.Event, at policy.Instant) bool {
	switch e.Kind {
	case policy.KindBreakerMoved:
		return e.To == policy.StateClosed
	case policy.KindPaceSet:
		return e.Until <= at
	case policy.KindRetriesSwitched:
		return e.Reason == policy.None
	}
	return false
}

// clock is the wall clock at an instant, or "" where there is none.
func clock(e *record.Entry, at policy.Instant) string {
	t := e.Time(at)
	if t.IsZero() || e.Header != nil && e.Header.Virtual {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// text shows a timeline in a terminal.
func (t *timeline) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "call %s of %s", t.Call, t.Dependency)
	for _, more := range [][2]string{{"operation", t.Operation}, {"partition", t.Partition}} {
		if more[1] != "" {
			fmt.Fprintf(&b, ", %s %s", more[0], more[1])
		}
	}
	if t.Program != nil {
		b.WriteString(", by " + programText(t.Program))
	}
	if t.Began != "" {
		b.WriteString(", began " + t.Began)
	} else {
		fmt.Fprintf(&b, ", began at %.3fs", t.At)
	}
	text := fold.Lines(b.String()+"\n") + "\n"
	for _, s := range t.Steps {
		text += s.lines()
	}
	if slices.ContainsFunc(t.Steps, func(s step) bool { return s.Before || s.Meanwhile }) {
		text += "\n* happened to the dependency, not to this call alone\n"
	}
	if r, ok := reasonOf(t.Reason); ok && r != policy.None {
		text += "\n" + fmt.Sprintf("%s: %s\nmore: gabion explain %s\n", r, why.Reason(r), r)
	}
	for _, n := range t.Notes {
		text += fold.Lines("note: " + n + "\n")
	}
	return text
}

func (s *step) lines() string {
	mark := " "
	if s.Before || s.Meanwhile {
		mark = "*"
	}
	when := fmt.Sprintf("%+.3fs", s.Seconds)
	if _, day, ok := strings.Cut(s.Time, "T"); ok {
		when += "  " + strings.TrimSuffix(day, "Z")
	}
	head := fmt.Sprintf("%s %12s  ", mark, when)
	text := fold.Hang(head+s.Text, len(head)) + "\n"
	if s.Setting != nil {
		text += strings.Repeat(" ", len(head)+2) + s.Setting.String() + "\n"
	}
	return text
}

// programText names a program as people do.
func programText(p *record.Program) string {
	text := cmp.Or(p.Name, "a program without a name")
	if p.Version != "" && p.Version != "(devel)" {
		text += " " + p.Version
	} else if p.Revision != "" {
		text += " at " + p.Revision[:min(12, len(p.Revision))]
	}
	if p.PID != 0 {
		text += fmt.Sprintf(" (pid %d)", p.PID)
	}
	return text
}

// short rounds a time for a table.
func short(d time.Duration) string { return why.Short(d).String() }
