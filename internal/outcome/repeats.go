package outcome

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// Repeats are the failures that another system sends again. It goes by a list of its own,
// and not by what a policy takes for worth it.
type Repeats struct {
	Statuses []int // of HTTP, and codes of gRPC as OfCode has them
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

// AnyCode is the word for all codes of gRPC that are failures.
const AnyCode = "grpc"

// codes is added to the number of a code of gRPC that stands in the place of a status.
const codes = 1000

// OfCode returns what stands for a code of gRPC in the place of a status of HTTP.
func OfCode(c policy.GRPCCode) int { return codes + int(c) }

// CodeOf returns the code of gRPC that stands in the place of a status, if one does.
func CodeOf(status int) (c policy.GRPCCode, ok bool) {
	return policy.GRPCCode(max(status-codes, 0)), status > codes
}

// Word spells a status of HTTP, or the code of gRPC in its place: 503, unavailable.
func Word(status int) string {
	if c, ok := CodeOf(status); ok {
		return strings.ToLower(c.String())
	}
	return strconv.Itoa(status)
}

// CodeWords are the words for the codes of gRPC that are failures, by their numbers.
func CodeWords() (all []string) {
	for c := grpccode.OK + 1; c <= grpccode.Unauthenticated; c++ {
		all = append(all, Word(OfCode(c)))
	}
	return all
}

// ReadCode reads the word for a code of gRPC that is a failure.
func ReadCode(word string) (status int, ok bool) {
	var c policy.GRPCCode
	if c.UnmarshalText([]byte(word)) != nil || c == grpccode.OK {
		return 0, false
	}
	return OfCode(c), true
}

// ReadRepeats reads a list of words: statuses as 503, 5xx or 500-504, codes as unavailable, grpc for all codes, and
// refused, reset and timeout.
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
		case AnyCode:
			for c := grpccode.OK + 1; c <= grpccode.Unauthenticated; c++ {
				r.Statuses = append(r.Statuses, OfCode(c))
			}
		default:
			if status, ok := ReadCode(word); ok {
				r.Statuses = append(r.Statuses, status)
				continue
			}
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
		return 0, 0, fmt.Errorf("%.40q is no failure: write a status such as 503, 5xx or 500-504, a code such as unavailable, or refused, reset or timeout", word)
	}
	return from, to, nil
}

// Of is what a failure means to such a system. What failed, and what may have happened, stays;
// whether it is sent again is as the list says: none of them knows conflicts. Status is 0 where there was no answer.
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
		if o.Class == policy.ClassContention {
			o.Class = policy.ClassServer
		}
		o = Retryable(o)
	}
	o.Stop = !again
	return o
}
