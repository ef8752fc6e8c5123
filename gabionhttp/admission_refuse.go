package gabionhttp

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
)

// HeaderRefused says why an [Admission] refused a request, before any work was done. It is
// one of
//
//	queue-full  there was no room to wait
//	too-long    it waited for as long as it may
//	pushed-out  its place in the queue went to a tenant with fewer there, or to a higher priority
//	over-share  its tenant has all that one may have
//	deadline-short  less time is left than the work takes
//	expired     its deadline has passed
//	gone        its caller gave up
//
// A [Transport] knows by it that the server works and only has no room. From a dependency
// with trust: internal it also knows that nothing was done, so that the request may be sent
// again whatever it is. A gateway must not pass it on if it has done work of its own.
const HeaderRefused = "Gabion-Refused"

// refusals are what is written for each answer. The bodies are those of RFC 9457.
var refusals = func() (all [admission.NumAnswers]struct {
	status int
	reason []string
	body   []byte
}) {
	for a, x := range map[admission.Answer]struct {
		status        int
		reason, title string
	}{
		admission.QueueFull: {503, "queue-full", "The server has no room for more requests"},
		admission.TooLong:   {503, "too-long", "The server could not begin with the request in time"},
		admission.PushedOut: {503, "pushed-out", "The request's place in the queue went to another one"},
		admission.OverShare: {503, "over-share", "This tenant has as many requests here as it may have"},
		admission.Expired:   {504, "expired", "The request's deadline passed before it was begun"},
		admission.Short:     {503, "deadline-short", "Less time is left than the work takes"},
		admission.Gone:      {503, "gone", "The request was given up before it was begun"},
	} {
		all[a].status, all[a].reason = x.status, []string{x.reason}
		all[a].body = []byte(`{"type":"urn:gabion:admission:` + x.reason + `","title":"` + x.title + `","status":` + strconv.Itoa(x.status) + `}`)
	}
	return all
}()

var (
	problemJSON = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noRetry     = []string{"false"}
)

// refuse answers a request that was not let in. In an overload every refusal costs what
// this costs, so that it makes nothing that it can have ready.
func (a *Admission) refuse(w http.ResponseWriter, r serving.Result) {
	x := &refusals[r.Answer]
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h[HeaderRefused] = problemJSON, noStore, x.reason
	if r.Whole || r.Answer == admission.Expired {
		h[headerShouldRetry] = noRetry
	}
	if x.status == http.StatusServiceUnavailable {
		after := admission.RetryAfter(cmp.Or(a.RetryAfter, time.Second), luck())
		h["Retry-After"] = []string{strconv.FormatInt(after, 10)}
	}
	w.WriteHeader(x.status)
	w.Write(x.body)
}
