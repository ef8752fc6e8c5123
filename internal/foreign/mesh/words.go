package mesh

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

// word is one word of a list of failures that are retried.
type word struct {
	name  string
	fate  foreign.Fate
	text  string
	first int // the statuses that it retries
	last  int
	code  policy.GRPCCode
	plays string // what is sent again besides statuses and the code, for the lab
}

// What Envoy takes for no answer at all.
const (
	noAnswer = "refused reset timeout"
	unsent   = "refused"
)

// words are those of Envoy, which Istio passes on.
var words = []word{
	{name: "5xx", fate: foreign.Nearly, text: "5xx: 500 goes to http.transient; 501 and 505 are not repeated here, as the same request meets them again, and other 5xx at most once", first: 500, last: 599, plays: noAnswer},
	{name: "gateway-error", fate: foreign.Kept, first: 502, last: 504, plays: noAnswer},
	{name: "reset", fate: foreign.Kept, plays: noAnswer},
	{name: "reset-before-request", fate: foreign.Kept, plays: unsent},
	{name: "connect-failure", fate: foreign.Kept, plays: unsent},
	{name: "refused-stream", fate: foreign.Kept},
	{name: "http3-post-connect-failure", fate: foreign.Lost, text: "http3-post-connect-failure: 0 times here, as nothing is sent by HTTP/3"},
	{name: "retriable-4xx", fate: foreign.Nearly, text: "retriable-4xx: 409, which goes to http.transient and then counts as a failure of the dependency", first: 409, last: 409},
	{name: "retriable-status-codes", fate: foreign.Kept},
	{name: "retriable-headers", fate: foreign.Lost, text: "retriable-headers: an answer is not repeated here because of a header"},
	{name: "envoy-ratelimited", fate: foreign.Nearly, text: "envoy-ratelimited: here each 429 is repeated, after its Retry-After"},
	{name: "cancelled", fate: foreign.Lost, text: "cancelled: CANCELLED is never repeated here, as the caller gave up", plays: "cancelled"},
	{name: "deadline-exceeded", fate: foreign.Kept, code: grpccode.DeadlineExceeded},
	{name: "internal", fate: foreign.Kept, code: grpccode.Internal},
	{name: "resource-exhausted", fate: foreign.Kept, code: grpccode.ResourceExhausted},
	{name: "unavailable", fate: foreign.Kept, code: grpccode.Unavailable},
}

// usual are the statuses that a policy repeats without being told.
var usual = []int{408, 429, 502, 503, 504}

// reasons are what of a list is retried.
type reasons struct {
	fate     foreign.Fate
	texts    []string
	covered  []int // statuses
	statuses []int // those that a policy must be told
	codes    []policy.GRPCCode
	unknown  []string
	plays    []string // what is sent again besides statuses
}

// repeats is what of a list is sent again, for the lab.
func (r *reasons) repeats() []string {
	all := append([]string{}, r.plays...)
	for _, status := range r.covered {
		all = append(all, strconv.Itoa(status))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *reasons) say(fate foreign.Fate, text string) {
	r.fate = max(r.fate, fate)
	if text != "" {
		r.texts = append(r.texts, text)
	}
}

// add takes a word, and reports whether there is one.
func (r *reasons) add(name string) bool {
	i := slices.IndexFunc(words, func(w word) bool { return w.name == name })
	if i < 0 {
		r.unknown = append(r.unknown, name)
		return false
	}
	w := words[i]
	r.say(w.fate, w.text)
	if w.code != grpccode.OK {
		r.plays = append(r.plays, outcome.Word(outcome.OfCode(w.code)))
		if w.code != grpccode.Unavailable {
			r.codes = append(r.codes, w.code)
		}
	}
	switch w.name {
	case "5xx":
		r.statuses = append(r.statuses, 500)
	case "retriable-4xx":
		r.statuses = append(r.statuses, 409)
	}
	r.plays = append(r.plays, strings.Fields(w.plays)...)
	if w.first > 0 {
		r.cover(w.first, w.last)
	}
	return true
}

func (r *reasons) cover(first, last int) {
	for status := first; status <= last; status++ {
		r.covered = append(r.covered, status)
	}
}

// status takes a status that is listed.
func (r *reasons) status(n int) {
	r.cover(n, n)
	switch {
	case slices.Contains(usual, n):
	case n < 400 || n > 599:
		r.say(foreign.Lost, strconv.Itoa(n)+" is no failure here, and is not repeated")
	case n < 500:
		r.statuses = append(r.statuses, n)
		r.say(foreign.Nearly, strconv.Itoa(n)+" goes to http.transient, and then counts as a failure of the dependency")
	default:
		r.statuses = append(r.statuses, n)
	}
}

// done sorts, and says what a policy repeats beside the list.
func (r *reasons) done() {
	for _, list := range []*[]int{&r.statuses, &r.covered} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.Sort(r.codes)
	r.codes = slices.Compact(r.codes)
	var more []string
	for _, status := range usual {
		if !slices.Contains(r.covered, status) {
			more = append(more, strconv.Itoa(status))
		}
	}
	if more != nil {
		r.say(foreign.Nearly, "gabion also repeats "+strings.Join(more, ", ")+" and broken connections: http.permanent names those that it must not")
	}
	r.say(foreign.Nearly, "the mesh repeats POST as well; gabion repeats what is safe or carries a key, and all with safe: true")
}

func (r *reasons) text() string { return strings.Join(r.texts, "; ") }

// retryOn reads a list of words, as Istio and Envoy have it. Istio also takes statuses.
func retryOn(w *foreign.Walker, p *plan, v *foreign.Value, statuses []int, at *foreign.Value, istio bool) {
	var r reasons
	names := []string{}
	for i := range words {
		names = append(names, words[i].name)
	}
	if istio && strings.ContainsAny(v.Text, " \t") {
		w.Wrong(v, "has blanks between its reasons, which Istio refuses", "write "+short(strings.Join(v.Words, ",")))
	}
	for _, name := range v.Words {
		if n, err := strconv.Atoi(name); istio && err == nil && http.StatusText(n) != "" {
			r.status(n)
			continue
		}
		if r.add(name) {
			continue
		}
		if istio {
			w.Wrong(v, "there is no reason "+strconv.Quote(short(name))+" to retry", suggest.For(name, names, "write one of "+strings.Join(names, ", ")))
		} else {
			r.say(foreign.Unknown, "Envoy ignores "+strconv.Quote(short(name))+": "+suggest.For(name, names, "it has no such reason to retry"))
		}
	}
	for _, n := range statuses {
		r.status(n)
	}
	r.done()
	w.Remark(v, r.fate, r.text())
	p.statuses = said[[]int]{is: r.statuses, at: v}
	if at != nil {
		p.statuses.at = at
	}
	p.codes = said[[]policy.GRPCCode]{is: r.codes, at: v}
	p.repeats = r.repeats()
}

func short(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return s
}
