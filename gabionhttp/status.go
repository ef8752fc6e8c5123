package gabionhttp

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// outcomeOf says what a response means: by what it says of the request's key, by
// its status, unless the policy says otherwise, and by the hints that servers give
// about retrying.
func outcomeOf(resp *http.Response, said gabion.KeyProblem, p *policy.HTTP, now func() time.Time) policy.Outcome {
	if said != 0 && said != gabion.KeyInFlight {
		return said.Outcome() // whatever the status: the same key gets the same answer
	}
	if resp.StatusCode/100 == 2 && said == 0 && len(p.Permanent)+len(p.Transient) == 0 { // nearly all: nothing below says otherwise
		return succeeded(resp, now)
	}
	waits := said == gabion.KeyInFlight || inProgress(resp)
	o := outcome.ByStatus(resp.StatusCode)
	switch {
	case waits:
		// Come back later. Only this key has to wait.
		o = gabion.KeyInFlight.Outcome()
	default:
		o = hinted(resp, o, now)
	}
	o = outcome.Listed(resp.StatusCode, p, o)
	if o.Class == policy.ClassSuccess {
		return succeeded(resp, now)
	}
	if unbegun(resp) {
		o = outcome.Declined(resp.StatusCode, o, says(resp.Header, headerShouldRetry, "false"))
	}
	o.Stop = stops(resp) || waits && replayed(resp)
	switch {
	case waits:
		o.After, o.HasAfter = waitFor(resp.Header, now)
	case o.Class.Transient():
		o.After, o.HasAfter = comeBack(resp.Header, now)
	default:
		o.After, o.HasAfter = emptied(resp.Header, now)
		o.Empty = o.HasAfter
	}
	return o
}

// succeeded is what a success means. It may say that a quota has nothing left.
func succeeded(resp *http.Response, now func() time.Time) policy.Outcome {
	o := policy.Outcome{Class: policy.ClassSuccess}
	o.After, o.HasAfter = emptied(resp.Header, now)
	o.Empty = o.HasAfter
	return o
}

// comeBack is how long a failure asks to be left alone. Where it names no time, a quota that has nothing left
// does.
func comeBack(h http.Header, now func() time.Time) (time.Duration, bool) {
	if after, ok := waitFor(h, now); ok {
		return after, true
	}
	return emptied(h, now)
}

// hinted corrects o by what the server says of its own failure.
func hinted(resp *http.Response, o policy.Outcome, now func() time.Time) policy.Outcome {
	if conflicts(resp) {
		o.Effect = policy.UnknownEffect // some servers mean that the first request is still running
	}
	if usedUp(resp, now) {
		o = policy.Outcome{Class: policy.ClassThrottled, Undone: true}
	}
	if o.Class == policy.ClassThrottled {
		// Stripe's limits are of a rate, of how much is in flight, or of one object.
		why := resp.Header.Get("Stripe-Rate-Limited-Reason")
		o.Busy, o.Alone = o.Busy || strings.HasSuffix(why, "-concurrency"), why == "resource-specific"
	}
	if o.Class != policy.ClassSuccess && says(resp.Header, "Stripe-Should-Retry", "true") {
		return outcome.Retryable(o)
	}
	return o
}

// usedUp reports whether a 403 is what others answer 429 for, as GitHub has it: it says that nothing of a quota
// is left, or when to come back.
func usedUp(resp *http.Response, now func() time.Time) bool {
	if resp.StatusCode != http.StatusForbidden || !speaks(resp.Header) {
		return false
	}
	_, named := comeBack(resp.Header, now)
	return named
}

// stops reports whether the server, or a layer before it, said not to retry. A
// stored 5xx is replayed for ever: asking again only gets the same bytes.
func stops(resp *http.Response) bool {
	h := resp.Header
	return says(h, headerShouldRetry, "false") ||
		says(h, "Stripe-Should-Retry", "false") ||
		h.Get("X-Envoy-Overloaded") != "" ||
		resp.StatusCode >= 500 && replayed(resp)
}

// unbegun reports whether the server's [Admission] refused the request before it began.
// Where gabion sent a request again and passes on the last answer, that says nothing of the
// others.
func unbegun(resp *http.Response) bool {
	return resp.StatusCode >= 500 && resp.Header[HeaderRefused] != nil && resp.Header[HeaderGaveUp] == nil
}

func replayed(resp *http.Response) bool { return says(resp.Header, "Idempotent-Replayed", "true") }

// inProgress reports whether a 409 says that an idempotent request is still being
// worked on. Every other conflict stays one, so it takes both the key that we
// sent and the server's word that waiting helps.
func inProgress(resp *http.Response) bool {
	return conflicts(resp) && resp.Header.Get("Retry-After") != ""
}

// conflicts reports whether a keyed request met a 409.
func conflicts(resp *http.Response) bool {
	return resp.StatusCode == http.StatusConflict && resp.Request != nil && keyed(resp.Request.Header)
}

func says(h http.Header, name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get(name)), value)
}

// outcomeOfError says what a RoundTripper's error means. It knows three things
// that classify can't: by which text net/http tells that a connection ended, that it has
// a sentinel for a server without TLS, and, where it has only a text, whether the
// request could be sent at all.
func outcomeOfError(req *http.Request, err error) policy.Outcome {
	o := classify.Error(err)
	if o.Class != policy.ClassUnclassified {
		return o
	}
	switch {
	case strings.HasSuffix(err.Error(), closedIdle):
		return policy.Failed(policy.ClassNetwork)
	case mismatched(err), unsendable(req):
		return policy.Unsent(policy.ClassClient)
	}
	return o
}

// mismatched reports whether err is net/http's word that the server speaks no TLS, and
// nothing besides: an error that holds several may tell of other requests.
func mismatched(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err == http.ErrSchemeMismatch { //nolint:errorlint // alone, without what errors.Is would look into
			return true
		}
	}
	return false
}

// closedIdle is what net/http says when the server closed a connection before it saw
// that something was asked there, be it a new one (go.dev/issue/19943). No type and no
// sentinel tells it, and every server that goes away does it.
const closedIdle = "http: server closed idle connection"

// unsendable reports whether net/http refuses to send req, whatever the server.
func unsendable(req *http.Request) bool {
	u := req.URL
	return u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		req.Header == nil || !token(req.Method) && req.Method != "" || !wellFormed(req.Header) || !wellFormed(req.Trailer)
}

// wellFormed reports whether every name is a token and no value has a control
// character but the tab (RFC 9110, section 5).
func wellFormed(h http.Header) bool {
	for name, values := range h {
		if !token(name) || slices.ContainsFunc(values, controls) {
			return false
		}
	}
	return true
}

func controls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// token reports whether s is one by RFC 9110, section 5.6.2.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z' && r < 0x80
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
