// Package recording is the form of gabion's recordings, and reads them for tools: package record writes them, and has
// their events for users.
package recording

import (
	"fmt"
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// line is one event as it is written. Times are nanoseconds since the origin of
// the dependency's clock; fields that mean nothing for a kind are left out.
type line struct {
	At         int64           `json:"at"`
	Kind       string          `json:"kind"`
	Dependency string          `json:"dependency,omitempty"`
	Operation  string          `json:"operation,omitempty"`
	Partition  string          `json:"partition,omitempty"`
	Call       uint64          `json:"call,omitempty"`
	Seq        uint64          `json:"seq,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Hedge      bool            `json:"hedge,omitempty"`
	Class      string          `json:"class,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Effect     string          `json:"effect,omitempty"`
	Slow       bool            `json:"slow,omitempty"`
	Measured   bool            `json:"measured,omitempty"`
	Last       bool            `json:"last,omitempty"`
	Stretched  bool            `json:"stretched,omitempty"`
	Took       time.Duration   `json:"took,omitempty"`
	Left       time.Duration   `json:"left,omitempty"`
	Hedges     int             `json:"hedges,omitempty"`
	Code       string          `json:"code,omitempty"`
	Wait       string          `json:"wait,omitempty"`
	Until      int64           `json:"until,omitempty"`
	Due        int64           `json:"due,omitempty"`
	From       string          `json:"from,omitempty"`
	To         string          `json:"to,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	Numbers    *policy.Numbers `json:"numbers,omitempty"`
	Count      int64           `json:"count,omitempty"`
}

// EventLine is e as it is written.
func EventLine(e policy.Event) any {
	l := line{
		At: int64(e.At), Kind: e.Kind.String(), Dependency: e.Dependency, Operation: e.Operation,
		Partition: e.Partition, Call: e.Call, Seq: e.Seq, Attempt: int(e.Attempt), Hedge: e.Hedge,
		Slow: e.Slow, Measured: e.Measured, Last: e.Last, Stretched: e.Stretched, Took: e.Took, Wait: e.Wait, Until: int64(e.Until), Due: int64(e.Due),
		Left: e.Left, Hedges: int(e.Hedges), Code: e.Code, Numbers: e.Numbers, Count: e.Count,
	}
	if e.Reason != policy.None {
		l.Reason = e.Reason.String()
	}
	switch e.Kind {
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		l.Class, l.Effect = e.Class.String(), e.Effect.String()
	case policy.KindAttemptSent:
		l.Class = decided(e.Class)
	case policy.KindReturned:
		l.Class, l.Effect = decided(e.Class), e.Effect.String()
	case policy.KindBreakerMoved, policy.KindBreakerExceeded:
		l.From, l.To, l.Cause = e.From.String(), e.To.String(), e.Cause.String()
	}
	return l
}

// LostLine is what is written once events can be written again.
func LostLine(at policy.Instant, lost int64) any {
	return line{At: int64(at), Kind: policy.KindEventsLost.String(), Count: lost}
}

// decided is how an earlier attempt had ended; empty where there was none.
func decided(c policy.Class) string {
	if c == policy.ClassUndecided {
		return ""
	}
	return c.String()
}

// event is the event that the line was written of, without what means nothing for its
// kind.
func (l *line) event() (e policy.Event, err error) {
	e = policy.Event{
		At: policy.Instant(l.At), Dependency: l.Dependency, Operation: l.Operation, Partition: l.Partition, Call: l.Call, Seq: l.Seq,
		Attempt: uint8(l.Attempt), Hedge: l.Hedge, Slow: l.Slow, Measured: l.Measured, Last: l.Last, Stretched: l.Stretched, Took: l.Took, Wait: l.Wait, Until: policy.Instant(l.Until),
		Due: policy.Instant(l.Due), Left: l.Left, Hedges: uint8(l.Hedges), Code: l.Code, Numbers: l.Numbers, Count: l.Count,
	}
	switch {
	case l.Kind == "":
		return policy.Event{}, fmt.Errorf("no kind: not an event")
	case l.Hedges < 0 || l.Hedges > terms.MaxSends:
		return policy.Event{}, fmt.Errorf("hedges %d: there are none above %d", l.Hedges, terms.MaxSends)
	case l.Attempt < 0 || l.Attempt > mostAttempts(l.Kind):
		return policy.Event{}, fmt.Errorf("attempt %d: there are none above %d", l.Attempt, mostAttempts(l.Kind))
	}
	for _, err := range []error{
		find("kind", l.Kind, &e.Kind), find("class", l.Class, &e.Class), find("reason", l.Reason, &e.Reason), find("effect", l.Effect, &e.Effect),
		find("from", l.From, &e.From), find("to", l.To, &e.To), find("cause", l.Cause, &e.Cause),
	} {
		if err != nil {
			return policy.Event{}, err
		}
	}
	return e, nil
}

// mostAttempts is the most that events of that kind tell: those of keys and messages
// count runs of any number of calls.
func mostAttempts(kind string) int {
	switch kind {
	case policy.KindKeyDecided.String(), policy.KindMessageDisposed.String():
		return math.MaxUint8
	}
	return terms.MaxSends
}

// find sets v to the value whose text that is. No text leaves it zero.
func find[T interface {
	~uint8
	fmt.Stringer
}](field, text string, v *T) error {
	if text == "" {
		return nil
	}
	for n := range 256 {
		if T(n).String() == text {
			*v = T(n)
			return nil
		}
	}
	return fmt.Errorf("%s %q is not known: %w", field, text, ErrLater)
}
