package explaincmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

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
	Version    int                `json:"version"`
	File       string             `json:"file"`
	Call       string             `json:"call"`
	Dependency string             `json:"dependency"`
	Operation  string             `json:"operation,omitempty"`
	Partition  string             `json:"partition,omitempty"`
	Program    *recording.Program `json:"program,omitempty"`
	Virtual    bool               `json:"virtual,omitempty"`
	Began      string             `json:"began,omitempty"`
	At         float64            `json:"at"`    // when it began, in seconds by the dependency's clock
	Ended      bool               `json:"ended"` // its end is in the recording
	Reason     string             `json:"reason,omitempty"`
	Steps      []step             `json:"steps"`
	Notes      []string           `json:"notes"`
}

func (r *request) explainCall(file string) error {
	id, err := recording.ParseID(r.call)
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
		err := s.missing(shown(file))
		if r.cut {
			err = fmt.Errorf("%w. The recording was cut off: the call may have been in what is lost", err)
		}
		return wrong{err, false}
	}
	rules, err := rulesOf(r.policy, &s.own[len(s.own)-1])
	if err != nil {
		return err
	}
	t := s.timeline(rules)
	t.File = shown(file)
	if r.cut && !t.Ended {
		t.Notes = append(t.Notes, "the recording was cut off")
	}
	if r.json {
		err = cli.WriteJSON(r.stdout, t)
	} else {
		err = r.print(t.text())
	}
	return cmp.Or(err, failed)
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
func (s *story) order(partition string, began, ended policy.Instant) []recording.Entry {
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
	slices.SortStableFunc(all, func(a, b recording.Entry) int {
		return cmp.Or(cmp.Compare(a.Event.At, b.Event.At), cmp.Compare(a.Line, b.Line))
	})
	return slices.CompactFunc(all, func(a, b recording.Entry) bool { return a.Line == b.Line })
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

// clock is the wall clock at an instant, or "" if it is unknown.
func clock(e *recording.Entry, at policy.Instant) string {
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
func programText(p *recording.Program) string {
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
