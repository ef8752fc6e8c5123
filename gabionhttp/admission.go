package gabionhttp

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// Admission is server middleware that lets as many requests in at once as the server can
// work on. The others wait for their turn in a short queue. What can't be done in time is
// refused at once, with 503 and before any work, so that what was begun gets finished.
//
// A refusal says when to come back (Retry-After), and in an overload of the whole server
// that it is no use to ask again ("X-Should-Retry: false"). docs/admission.md has all
// headers and bodies, and says how to choose the numbers.
//
// It passes the ResponseWriter on untouched, so streaming, flushing and hijacking work as
// without it. A request has its slot until Next returns, panics or leaves by
// runtime.Goexit; see [ReleaseSlot] for those that last.
//
// The zero Admission learns its limit and serves http.DefaultServeMux. The fields must not
// change once requests are served. All methods are safe for concurrent use. An Admission
// must not be copied.
type Admission struct {
	// Next does the work. Nil means http.DefaultServeMux, as in [http.Server].
	Next http.Handler

	// Limit is how many requests are worked on at once. Zero means policy.Learned: it
	// begins with 100 and moves between Min and Max, as the work gets slower or not.
	Limit int

	// Min and Max bound a learned limit. Zero means 1 and 1000.
	Min, Max int

	// Queue is how many requests may wait. Zero means twice the limit, and 128 at least.
	// policy.Off means that none waits.
	Queue int

	// Target is how long a request may wait in an overload. Zero means 20 ms.
	Target time.Duration

	// Interval is how long a request may wait otherwise. If for so long everybody had to
	// wait for longer than Target, it is an overload. Zero means 1 s.
	Interval time.Duration

	// NewestFirst serves the newest request first in an overload: its caller is the
	// likeliest one to be there still. Zero means that the first one is always first.
	NewestFirst bool

	// Tenant names the tenant for whom a request is made. Slots and queue are then shared fairly:
	// the tenant with the fewest slots is served next, and a full queue makes room for a tenant
	// that has fewer requests in it. Nil means that all requests are one tenant's. Names are kept
	// only while their requests are here, so strangers may invent as many as they like.
	Tenant func(*http.Request) string

	// TenantShare is the share of the slots and of the queue that a tenant may have, even if
	// all others are idle, above 0 and at most 1; it is at least one slot. Zero means that
	// there is no such bound. It needs Tenant.
	TenantShare float64

	// Priority says which class a request is in, such as by its route or its user. A higher
	// class is served first; within one the order is as above. Nil means what
	// [HeaderPriority] says, if that is low. See TrustPriority.
	Priority func(*http.Request) policy.Priority

	// TrustPriority believes callers who say in [HeaderPriority] that their request is of
	// high priority. Zero means that they may lower their priority, and not raise it: right
	// for everything that strangers can reach.
	TrustPriority bool

	// Exempt are requests that take no slot and are never refused. Nil means [HealthCheck].
	Exempt func(*http.Request) bool

	// Lasts are requests whose handler may give their slot back early, with [ReleaseSlot].
	// Nil means those that upgrade their connection or ask for a stream of events. It costs
	// such a request some allocations.
	Lasts func(*http.Request) bool

	// RetryAfter is the least time that a refusal names; the most is twice that. It is
	// rounded up to whole seconds. Zero means 1 s.
	RetryAfter time.Duration

	// Headers are the headers in which callers say how much time they have left. Nil means
	// [HeaderDeadline] alone. A deadline of the request's context counts as well.
	Headers []string

	once   sync.Once
	wrong  string // what can't be meant
	room   *serving.Room
	exempt atomic.Int64
}

// HealthCheck reports whether a request asks how the server is: GET or HEAD of /health,
// /healthz, /ready, /readyz, /live or /livez.
func HealthCheck(r *http.Request) bool {
	switch r.URL.Path {
	case "/health", "/healthz", "/ready", "/readyz", "/live", "/livez":
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// ServeHTTP implements [http.Handler].
func (a *Admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.once.Do(a.open)
	if a.wrong != "" {
		http.Error(w, a.wrong, http.StatusInternalServerError)
		return
	}
	if a.exempts(r) {
		a.exempt.Add(1)
		a.next().ServeHTTP(w, r)
		return
	}
	ask := serving.Request{Priority: a.priority(r)}
	if a.Tenant != nil {
		ask.Tenant = a.Tenant(r)
	}
	ask.Deadline = a.deadline(r.Header)
	lasts := a.lasts(r) // asked before there is a slot to lose
	pass, result := a.room.Enter(r.Context(), ask)
	if result.Answer != admission.Admitted {
		a.refuse(w, result)
		return
	}
	a.work(w, r, pass, &ask, result.Waited, lasts)
}

// work serves a request that was let in.
func (a *Admission) work(w http.ResponseWriter, r *http.Request, pass serving.Pass, ask *serving.Request, waited, lasts bool) {
	done := false
	late := waited && !ask.Deadline.IsZero() // the header tells of the time before the wait
	if ask.Priority == policy.PriorityNormal && !late && !lasts {
		defer a.room.End(r.Context(), pass, &done)
		a.next().ServeHTTP(w, r)
		done = true
		return
	}
	h, ctx, stop := a.room.Hold(pass), r.Context(), func() {}
	defer func() {
		defer stop()
		h.End(ctx, &done)
	}()
	ctx = gabion.ContextWithPriority(ctx, ask.Priority)
	if lasts {
		ctx = h.In(ctx)
	}
	if late {
		timed, cancel := context.WithDeadlineCause(ctx, ask.Deadline, errDeadline)
		ctx, stop = timed, cancel
	}
	a.next().ServeHTTP(w, r.WithContext(ctx))
	done = true
}

func (a *Admission) next() http.Handler {
	if a.Next == nil {
		return http.DefaultServeMux
	}
	return a.Next
}

func (a *Admission) exempts(r *http.Request) bool {
	if a.Exempt == nil {
		return HealthCheck(r)
	}
	return a.Exempt(r)
}

func (a *Admission) lasts(r *http.Request) bool {
	if a.Lasts != nil {
		return a.Lasts(r)
	}
	return r.Header["Upgrade"] != nil || r.Method == http.MethodConnect || first(r.Header, "Accept") == "text/event-stream"
}

// deadline is when a request has no time left, as its headers say.
func (a *Admission) deadline(h http.Header) (at time.Time) {
	if left, ok, _ := TimeLeft(h, a.Headers...); ok {
		at = time.Now().Add(left)
	}
	return at
}

// open makes the room from the fields.
func (a *Admission) open() {
	o := serving.Options{
		Limit: a.Limit, Min: a.Min, Max: a.Max, Queue: a.Queue, Target: a.Target, Interval: a.Interval, RetryAfter: a.RetryAfter,
		NewestFirst: a.NewestFirst, Fair: a.Tenant != nil, TenantShare: a.TenantShare,
	}
	if problem := o.Problem(); problem != "" {
		a.wrong = "gabionhttp: " + problem
		return
	}
	a.room = o.Open()
}

// AdmissionStats is an Admission at one moment, and what it has counted since the
// beginning.
type AdmissionStats struct {
	Limit      int  // the most requests at once
	InUse      int  // requests that are worked on
	Queued     int  // requests that wait
	Overloaded bool // everybody has to wait, for longer than Target

	Admitted int64 // let in
	Exempt   int64 // not asked

	// Requests that were refused with 503 for lack of room.
	QueueFull int64 // there was no room to wait
	TooLong   int64 // waited for as long as they may
	PushedOut int64 // the place in the queue went to a tenant with fewer there, or to a higher priority
	OverShare int64 // the tenant had all that one may have

	// Work that was not begun because the caller would not have waited for its end.
	DeadlineShort int64 // too little time was left for it: refused with 503
	Expired       int64 // the deadline had passed: refused with 504
	Gone          int64 // the caller had gone
}

// Refused is how many requests were refused with 503 for lack of room.
func (s AdmissionStats) Refused() int64 { return s.QueueFull + s.TooLong + s.PushedOut + s.OverShare }

// Saved is how many requests were not begun because the caller would not have waited for the
// answer.
func (s AdmissionStats) Saved() int64 { return s.DeadlineShort + s.Expired + s.Gone }

// Stats returns the numbers of one moment.
func (a *Admission) Stats() AdmissionStats {
	a.once.Do(a.open)
	if a.room == nil {
		return AdmissionStats{}
	}
	s := a.room.Stats()
	return AdmissionStats{
		Limit: s.Limit, InUse: s.InUse, Queued: s.Queued, Overloaded: s.Overloaded, Admitted: s.Admitted, Exempt: a.exempt.Load(),
		QueueFull: s.Answers[admission.QueueFull], TooLong: s.Answers[admission.TooLong],
		PushedOut: s.Answers[admission.PushedOut], OverShare: s.Answers[admission.OverShare],
		DeadlineShort: s.Answers[admission.Short], Expired: s.Answers[admission.Expired], Gone: s.Answers[admission.Gone],
	}
}

// luck is a random number from 0 to less than 1.
func luck() float64 { return rand.Float64() }
