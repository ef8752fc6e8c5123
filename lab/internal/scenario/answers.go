package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// failing is one way to fail, and how much of what fails does so.
type failing sim.Way

const failingExample = "write one such as 502 60%, unavailable 30%, reset 5% or refused 5%"

// failingPattern is what a failing looks like, for the schema.
var failingPattern = `^([45][0-9][0-9]|reset|refused|` + strings.Join(outcome.CodeWords(), "|") + `) +[0-9]+(\.[0-9]+)?%$`

func parseFailing(s string) (any, string, string) {
	words := strings.Fields(s)
	if len(words) != 2 {
		return nil, "is no answer and its share", failingExample
	}
	part, problem, _ := parseShare(words[1])
	if problem != "" {
		return nil, "has a share that " + problem, failingExample
	}
	made := failing{Share: float64(part.(share))}
	code, known := outcome.ReadCode(words[0])
	switch status, err := strconv.Atoi(words[0]); {
	case known && words[0] == outcome.Word(code):
		made.Status = code
	case words[0] == outcome.Reset:
		made.Status = sim.Broke
	case words[0] == outcome.Refused:
		made.Status = sim.Unsent
	case err != nil || !sim.MayAnswer(status):
		return nil, "has no answer that fails", "write a status from 400 to 599, a code of gRPC such as unavailable, reset or refused"
	default:
		made.Status = status
	}
	return made, "", ""
}

// answers checks the several ways in which errors fail.
func (it item) answers(f *fault) {
	if len(f.Answers) == 0 {
		return
	}
	sum, named := 0.0, false
	for i, a := range f.Answers {
		sum += a.Share
		named = named || sim.NamesTime(a.Status)
		if slices.ContainsFunc(f.Answers[:i], func(other failing) bool { return other.Status == a.Status }) {
			it.fail("answers", "it says twice how many are "+wayName(a.Status), "remove one")
		}
	}
	if math.Abs(sum-1) > 1e-9 {
		it.fail("answers", fmt.Sprintf("its shares are %.6g%% together", 100*sum), "write parts of what fails that are 100% together; share says how much fails")
	}
	it.never("beside answers", "status")
	if f.RetryAfter > 0 && !named {
		it.fail("retry_after", "none of the answers names a time to come again", "add a 503, 529 or 429, or remove it")
	}
	if f.AfterWork && slices.ContainsFunc(f.Answers, func(a failing) bool { return a.Status == sim.Unsent }) {
		it.fail("answers", "what was refused was never sent, and no work was done", "remove after_work or refused")
	}
}

func (f *fault) ways() (all []sim.Way) {
	for _, a := range f.Answers {
		all = append(all, sim.Way(a))
	}
	return all
}

// wayName names a way to fail, as files do.
func wayName(way int) string {
	switch way {
	case sim.Broke:
		return outcome.Reset
	case sim.Unsent:
		return outcome.Refused
	case sim.TooLate:
		return outcome.Timeout
	}
	return outcome.Word(way)
}

// answersOf are the ways to fail that faults of a service name; the others are not told apart.
func answersOf(f *File, service int) (ways []int) {
	for i := range f.faults {
		for _, a := range f.faults[i].Answers {
			if f.faults[i].service == service && !slices.Contains(ways, a.Status) {
				ways = append(ways, a.Status)
			}
		}
	}
	return ways
}

// tellsWays reports whether some fault says in which ways it fails.
func tellsWays(faults []namedFault) bool {
	return slices.ContainsFunc(faults, func(x namedFault) bool { return len(x.Answers) > 0 })
}

// defsOfAnswers returns what is said of each way to fail that faults of a service name.
func defsOfAnswers(f *File, i int, name string) (all []def) {
	for _, way := range answersOf(f, i) {
		word := wayName(way)
		all = append(all, def{ResentKey + word, name, "sent again after " + word + " from " + name, Share, false, func(m *measured) float64 {
			met, resent := int64(0), int64(0)
			for k, e := range m.world.edges {
				if e.to == i {
					fate := m.Edges[k].Ways[way]
					met, resent = met+fate.Met, resent+fate.Resent
				}
			}
			return div(resent, met)
		}})
	}
	return all
}

// ResentKey is how the keys of metrics begin that say how much is sent again, by how it failed.
const ResentKey = "resent_"
