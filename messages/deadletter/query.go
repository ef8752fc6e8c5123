package deadletter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of one question to a store.
const (
	maxPage    = 1000
	page       = 100
	maxIDs     = 1000
	maxReasons = 100
)

// Errors of questions.
var (
	errPage   = errors.New("deadletter: this is no page: give Page.Next as it was, or nothing")
	errLimit  = fmt.Errorf("deadletter: a page has at most %d letters", maxPage)
	errIDs    = fmt.Errorf("deadletter: a query names at most %d letters", maxIDs)
	errPrefix = errors.New("deadletter: the beginning of an ID has up to 32 hexadecimal digits in lower case")
	errStates = errors.New("deadletter: there is no such state")
)

// Validate returns what is wrong with the query.
func (q *Query) Validate() error {
	if len(q.IDs) > maxIDs {
		return errIDs
	}
	if len(q.Prefix) > 32 || strings.Trim(q.Prefix, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: %.40q", errPrefix, q.Prefix)
	}
	for _, s := range q.States {
		if s > Dropped {
			return fmt.Errorf("%w: %d", errStates, s)
		}
	}
	return nil
}

// In returns the states that the query picks, each once.
func (q *Query) In() []State {
	if len(q.States) == 0 {
		return []State{Waiting}
	}
	states := slices.Clone(q.States)
	slices.Sort(states)
	return slices.Compact(states)
}

// Picks reports whether the query picks the letter.
func (q *Query) Picks(l *Letter) bool {
	return (q.Group == "" || q.Group == l.Group) && (q.Source == "" || q.Source == l.Source) &&
		(q.Reason == "" || q.Reason == l.Reason) && slices.Contains(q.In(), l.State) &&
		(len(q.IDs) == 0 || slices.Contains(q.IDs, l.ID)) && strings.HasPrefix(string(l.ID), q.Prefix) &&
		(q.Before.IsZero() || l.Kept.Before(q.Before)) && !l.Kept.Before(q.After)
}

// A Place is where a page ends: lists are in the order of when letters were put away, then of
// their IDs. The zero value is before the first. It is for those who write stores.
type Place struct {
	Kept int64 // in nanoseconds since 1970
	ID   ID
}

// PlaceOf returns the place of a letter.
func PlaceOf(l *Letter) Place { return Place{Nanos(l.Kept), l.ID} }

// String returns what ParsePlace reads.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return fmt.Sprintf("%016x%s", uint64(p.Kept), p.ID)
}

// ParsePlace reads a place. The empty text is before the first.
func ParsePlace(text string) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	if len(text) != 48 || text[0] == '+' {
		return Place{}, errPage
	}
	kept, err := strconv.ParseUint(text[:16], 16, 64)
	p := Place{int64(kept), ID(text[16:])}
	if err != nil || p.ID.Validate() != nil || p.String() != text {
		return Place{}, errPage
	}
	return p, nil
}

// Compare orders places.
func (p Place) Compare(other Place) int {
	if p.Kept != other.Kept {
		if p.Kept < other.Kept {
			return -1
		}
		return 1
	}
	return strings.Compare(string(p.ID), string(other.ID))
}

// Limit returns how many letters a page has that was asked for with that limit.
func Limit(limit int) (int, error) {
	switch {
	case limit < 0 || limit > maxPage:
		return 0, errLimit
	case limit == 0:
		return page, nil
	}
	return limit, nil
}

// Nanos returns a time in nanoseconds since 1970, as stores keep it. The zero time is 0.
func Nanos(t time.Time) int64 {
	if t = moment(t); t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time is the inverse of [Nanos].
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// AddTally adds letters to those of their kind, for stores that count one by one.
func AddTally(all []Tally, one Tally) []Tally {
	at, found := slices.BinarySearchFunc(all, one, Tally.compare)
	if found {
		all[at].Letters += one.Letters
		return all
	}
	return slices.Insert(all, at, one)
}

// compare orders tallies by their kinds.
func (t Tally) compare(other Tally) int {
	held := func(t Tally) int {
		if t.Unresolved {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(t.Group, other.Group), cmp.Compare(t.State, other.State), strings.Compare(t.Reason, other.Reason), cmp.Compare(held(t), held(other)))
}

// NotResolved is the error of an order that names a letter which wants a Resolution. It is for
// those who write stores.
func NotResolved(id ID) error { return fmt.Errorf("%w: %.40q", ErrUnresolved, string(id)) }

// Count adds letters of one kind, for stores that count by kind. Held is that of their
// records.
func (s *Stats) Count(state State, reason string, held bool, n int, bytes int64) {
	if s.ByState == nil {
		s.ByState, s.ByReason = map[State]int{}, map[string]int{}
	}
	if n == 0 && bytes == 0 {
		return
	}
	s.ByState[state] += n
	s.Bytes += bytes
	if state > Taken {
		return
	}
	s.Letters += n
	if held {
		s.Unresolved += n
	}
	if _, known := s.ByReason[reason]; !known && len(s.ByReason) >= maxReasons {
		reason = ""
	}
	s.ByReason[reason] += n
}
