package outcome

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// Repeats are the failures that another system sends again. It goes by a list of its own,
// and not by what a policy takes for worth it.
type Repeats struct {
	Statuses []int // of HTTP
	Refused  bool  // requests that were never sent
	Reset    bool  // connections that broke after the request was sent
	Timeout  bool  // attempts without an answer in time
}

// The words for failures without a status.
const (
	Refused = "refused"
	Reset   = "reset"
	Timeout = "timeout"
)

// ReadRepeats reads a list of words: statuses as 503, 5xx or 500-504, and refused, reset and timeout.
func ReadRepeats(words []string) (*Repeats, error) {
	r := &Repeats{}
	for _, word := range words {
		switch word {
		case Refused:
			r.Refused = true
		case Reset:
			r.Reset = true
		case Timeout:
			r.Timeout = true
		default:
			from, to, err := statuses(word)
			if err != nil {
				return nil, err
			}
			for status := from; status <= to; status++ {
				r.Statuses = append(r.Statuses, status)
			}
		}
	}
	return r, nil
}

func statuses(word string) (from, to int, err error) {
	a, b, ranges := strings.Cut(word, "-")
	if h, ok := strings.CutSuffix(word, "xx"); ok {
		a, b, ranges = h+"00", h+"99", true
	}
	if !ranges {
		b = a
	}
	from, wrong := strconv.Atoi(a)
	to, wrongTo := strconv.Atoi(b)
	if wrong != nil || wrongTo != nil || from < 100 || to > 599 || from > to {
		return 0, 0, fmt.Errorf("%.40q is no failure: write a status such as 503, 5xx or 500-504, or refused, reset or timeout", word)
	}
	return from, to, nil
}

// Of is what a failure means to such a system. What failed, and what may have happened, stays;
// whether it is sent again is as the list says. Status is 0 where there was no answer.
func (r *Repeats) Of(status int, o policy.Outcome) policy.Outcome {
	var again bool
	switch {
	case o.Class == policy.ClassSuccess:
		return o
	case status > 0:
		again = slices.Contains(r.Statuses, status)
	case o.NeverSent:
		again = r.Refused
	case o.Class == policy.ClassTimeout:
		again = r.Timeout
	default:
		again = r.Reset
	}
	if again {
		o = Retryable(o)
	}
	o.Stop = !again
	return o
}
