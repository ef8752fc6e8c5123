package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// A detail is all that a page shows of one dependency when it is opened.
type detail struct {
	Version    int              `json:"version"`
	At         int64            `json:"at"`
	Row        row              `json:"row"`
	Rules      []policy.Setting `json:"rules,omitempty"`
	Levels     []string         `json:"levels,omitempty"` // what its parts have counted, a sentence each
	Errors     []lastErr        `json:"errors,omitempty"`
	Refusals   []refused        `json:"refusals,omitempty"`
	Partitions []partition      `json:"partitions,omitempty"`
	Hidden     int              `json:"partitions_hidden,omitempty"`
	News       []news           `json:"news,omitempty"`
	Calls      []told           `json:"calls,omitempty"`
	Codes      []counted        `json:"decisions,omitempty"` // about keys and messages
	Breakers   []string         `json:"breakers,omitempty"`  // partitions that an override may name; "" is calls without one
}

type refused struct {
	Reason string `json:"reason"`
	Count  uint32 `json:"count"` // in the last 30 s
	Last   int64  `json:"last"`
	Text   string `json:"text,omitempty"`
}

type partition struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text,omitempty"`
	Since int64  `json:"since,omitempty"`
	Until int64  `json:"until,omitempty"`
}

type news struct {
	At    int64  `json:"at"` // of the last time
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Since int64  `json:"since,omitempty"` // of the first time, if there were more
	Last  string `json:"last,omitempty"`  // code or class of the last probe that failed
}

type counted struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// A told is one call with its decisions.
type told struct {
	Call      uint64     `json:"call"`
	At        int64      `json:"at"`
	Operation string     `json:"operation,omitempty"`
	Partition string     `json:"partition,omitempty"`
	Outcome   string     `json:"outcome"`
	Took      float64    `json:"took"`
	Steps     []decision `json:"steps"`
}

// A decision is one step of a call.
type decision struct {
	After float64 `json:"after"` // milliseconds since the first
	Took  float64 `json:"took,omitempty"`
	Kind  string  `json:"kind"`
	Try   uint8   `json:"attempt,omitempty"`
	Hedge bool    `json:"hedge,omitempty"`
	Tone  string  `json:"tone"`
	Text  string  `json:"text"`

	Setting string `json:"setting,omitempty"` // of the policy that ruled
}

// detail describes one dependency. The caller holds t.mu.
func (t *tile) detail(v *view) *detail {
	d := &detail{Version: frameVersion, At: v.date(v.now), Row: t.row(v)}
	d.Row.History = t.history()
	d.Errors = t.lastErrors(v, keptErrors)
	for reason, last := range t.refusals {
		if v.sum.refused[min(int(reason), maxReasons-1)] == 0 {
			continue
		}
		d.Refusals = append(d.Refusals, refused{
			reason.String(), v.sum.refused[min(int(reason), maxReasons-1)], v.date(last.at), why.Numbers(reason, last.numbers),
		})
	}
	slices.SortFunc(d.Refusals, func(a, b refused) int { return int(b.Last - a.Last) })
	t.partitions(d, v)
	d.Levels = t.vitals.levels(&t.evidence)
	t.news.newest(func(h *headline) bool {
		one := news{At: v.date(h.at), Kind: h.event.Kind.String(), Text: h.text()}
		if f := h.fold; f != nil && f.count > 0 {
			one.Since, one.Last = v.date(f.since), f.last
		}
		d.News = append(d.News, one)
		return true
	})
	slices.SortStableFunc(d.News, func(a, b news) int { return cmp.Compare(b.At, a.At) })
	for i := range t.stories {
		d.Calls = append(d.Calls, t.stories[len(t.stories)-1-i].tell(v))
	}
	d.Codes = t.countedCodes()
	return d
}

func (t *tile) partitions(d *detail, v *view) {
	if !t.vitals.known {
		for name, b := range t.breakers {
			if h, known := b.opening(); name != "" {
				if !known {
					h = b.last
				}
				d.Partitions = append(d.Partitions, partition{
					name, b.last.event.To.String(), whyMoved(&h.event), v.date(h.at), v.date(b.last.until),
				})
			}
		}
		slices.SortFunc(d.Partitions, func(a, b partition) int { return strings.Compare(a.Name, b.Name) })
		d.Hidden = t.hidden
		return
	}
	for i := range t.vitals.stats.Partitions {
		p := &t.vitals.stats.Partitions[i]
		one := partition{Name: bounded(p.Name), State: p.Breaker.State.String()}
		b := t.breakers[one.Name]
		if h, known := b.opening(); known && p.Breaker.State != policy.StateClosed {
			one.Text, one.Since, one.Until = whyMoved(&h.event), v.date(h.at), t.vitals.until(v, p.Breaker.Until)
		} else if p.Breaker.FailureRate >= 0 {
			one.Text = fmt.Sprintf("failure %s of %s", percent(p.Breaker.FailureRate), plural(p.Breaker.Counts.Calls, "call", "calls"))
		}
		d.Partitions = append(d.Partitions, one)
	}
	d.Hidden = t.vitals.partitions - len(d.Partitions)
}

// tell writes a call down.
func (s *story) tell(v *view) told {
	first, last := &s.events[0], &s.events[len(s.events)-1]
	t := told{
		Call: s.call, At: v.date(s.at), Operation: last.Operation, Partition: last.Partition,
		Took: millis(last.At.Sub(first.At)), Outcome: s.outcome(),
	}
	class := policy.ClassUndecided
	for i := range s.events {
		e := &s.events[i]
		t.Steps = append(t.Steps, decision{
			After: millis(e.At.Sub(first.At)), Took: tookOf(e), Kind: e.Kind.String(), Try: e.Attempt, Hedge: e.Hedge,
			Tone: toneOf(e), Text: why.Why(*e), Setting: why.SettingAfter(*e, class),
		})
		if e.Kind == policy.KindAttemptSettled {
			class = e.Class
		}
	}
	return t
}

func (s *story) outcome() string {
	switch s.how {
	case endedFirst:
		return "answered, but slow"
	case endedRescued:
		if s.events[len(s.events)-1].Hedge {
			return "answered by a hedge"
		}
		return "answered after a retry"
	case endedAnswered:
		return or(s.code, "a permanent failure")
	case endedRefused:
		return "refused: " + spoken(s.reason.String())
	}
	text := spoken(s.reason.String())
	if s.code != "" {
		text += ", last answer " + s.code
	}
	return text
}

func tookOf(e *policy.Event) float64 {
	switch e.Kind {
	case policy.KindAttemptSettled, policy.KindLoserSettled, policy.KindReturned:
		return millis(e.Took)
	case policy.KindWaiting:
		return millis(max(e.Until.Sub(e.At), 0))
	}
	return 0
}

// toneOf is how a decision is coloured.
func toneOf(e *policy.Event) string {
	switch e.Kind {
	case policy.KindAttemptSettled:
		if e.Class == policy.ClassSuccess {
			return toneGood
		}
		if failed(e.Class) {
			return toneTrouble
		}
	case policy.KindAttemptRefused, policy.KindHedgeSkipped:
		return toneWarning
	case policy.KindReturned:
		if e.Reason == policy.None {
			return toneGood
		}
		return toneTrouble
	}
	return toneQuiet
}
