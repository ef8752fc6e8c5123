package mesh

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// said is a setting and where the file says it; at is nil for a default of the mesh.
type said[T any] struct {
	is T
	at *foreign.Value
}

// by is a default of the mesh.
func by[T any](is T) said[T] { return said[T]{is: is} }

// span takes a time that the file says.
func (s *said[T]) take(v *foreign.Value, is T) {
	if v != nil {
		s.is, s.at = is, v
	}
}

// span takes a time that the file says and that is not zero.
func span(s *said[time.Duration], v *foreign.Value) {
	if v.SpanOr(0) > 0 {
		s.take(v, v.Span)
	}
}

// whole takes a number that the file says, and more.
func whole(s *said[int], v *foreign.Value, more int) {
	s.take(v, int(min(v.NumberOr(0), maxCount))+more)
}

// share takes a part that the file says as a percentage.
func share(s *said[float64], v *foreign.Value) { s.take(v, v.NumberOr(0)/100) }

// none is no bound, of times and counts.
const none = policy.Off

// plan is what a file comes to for one route, in the words that meshes share.
type plan struct {
	title string
	line  int
	at    *foreign.Value // what says it, for remarks on what it does not say
	mesh  string

	call, attempt, idle, body said[time.Duration] // none: no bound
	tries                     said[int]           // with the first
	endless                   bool                // there they go on for as long as the budget and the timeout allow
	base, longest             said[time.Duration] // of the wait before a retry, full jitter; base none: no wait
	after                     said[time.Duration] // the longest Retry-After that is waited for; 0: any
	hedge                     said[time.Duration] // after it the next attempt goes beside the last one, which is not ended; 0: never

	limit, queue said[int] // requests at once, and waiting
	budget       budget
	breaker      ejection
	statuses     said[[]int]
	codes        said[[]policy.GRPCCode]
	repeats      []string // what is sent again, for the lab; nil: what a policy sends again
}

// planned is a plan of a mesh that does nothing where a file says nothing.
func planned(mesh, title string, at *foreign.Value) *plan {
	off := by[time.Duration](none)
	return &plan{title: title, line: at.Line(1), at: at, mesh: mesh, call: off, attempt: off, idle: off, base: off, longest: off, tries: by(1), limit: by(none), queue: by(none)}
}

// route makes a route of a plan.
func (p *plan) route(w *foreign.Walker, name string) {
	p.fit(w)
	p.defaults(w)
	r := foreign.Route{Dependency: w.Names.Make(name), Title: p.title, Line: p.line, From: map[string]int{}}
	r.Plays, r.Repeats = p.plays(), p.repeats
	p.written(&r)
	w.Import.Routes = append(w.Import.Routes, r)
}

// The most that a policy takes.
const (
	maxSends = terms.MaxSends
	maxTime  = 12 * time.Hour // a breaker's window holds two attempts, and is a day at most
	maxSlots = 1<<21 - 1
	maxQueue = 1<<20 - 1
	maxCount = 1 << 20
)

// fit brings what a mesh takes within what a policy takes.
func (p *plan) fit(w *foreign.Walker) {
	for _, s := range []*said[time.Duration]{&p.call, &p.attempt, &p.idle, &p.body} {
		switch {
		case s.is > maxTime:
			w.Remark(s.at, foreign.Nearly, "{} is more than 12h, and off here")
			s.is = none
		case s.is > 0 && s.is < time.Millisecond:
			w.Remark(s.at, foreign.Nearly, "{} is raised to 1ms")
			s.is = time.Millisecond
		}
	}
	if p.call.is > 0 && p.attempt.is > p.call.is {
		w.Remark(p.attempt.at, foreign.Nearly, "{} is longer than the whole call may take, "+policy.FormatDuration(p.call.is)+", which counts")
		p.attempt.is = p.call.is
	}
	if p.body.is > 0 && p.idle.is > p.body.is {
		w.Remark(p.idle.at, foreign.Nearly, "{} is longer than the body may take, "+policy.FormatDuration(p.body.is)+", which counts")
		p.idle.is = p.body.is
	}
	if p.tries.is > maxSends {
		w.Remark(p.tries.at, foreign.Nearly, fmt.Sprintf("{} retries are %d here, the most that a policy has", maxSends-1))
		p.tries.is = maxSends
	}
	if p.base.is > 0 {
		p.base.is = within(p.base.is, time.Millisecond, maxTime)
		p.longest.is = within(p.longest.is, p.base.is, maxTime)
	}
	if p.after.is > 0 {
		p.after.is = within(p.after.is, time.Millisecond, maxTime)
	}
	p.limit.is, p.queue.is = min(p.limit.is, maxSlots), min(p.queue.is, maxQueue)
	p.budget.fit(w)
	p.breaker.failures.is = min(p.breaker.failures.is, 1<<10)
	p.breaker.open.is = within(p.breaker.open.is, time.Millisecond, maxTime)
	p.breaker.most.is = within(p.breaker.most.is, p.breaker.open.is, maxTime)
}

// defaults says what the mesh does that the file does not say, where gabion's defaults do something else.
func (p *plan) defaults(w *foreign.Walker) {
	retries := ""
	if p.tries.is > 1 {
		wait := "at once"
		if p.base.is > 0 {
			wait = "after up to " + policy.FormatDuration(p.base.is)
		}
		if p.base.at == nil {
			retries = fmt.Sprintf("the first retry goes %s there; here gabion's default counts, up to 1s", wait)
		}
		if !p.budget.bounded {
			retries = joined(retries, fmt.Sprintf("nothing bounds retries there, so an outage meets %d.0× the load; here gabion's own budget does", p.tries.is))
		}
	}
	if p.tries.at != nil && retries != "" {
		sent := fmt.Sprintf("%d attempts in all; ", p.tries.is)
		if p.endless {
			sent = "as often as the budget and the timeout allow there; here " + sent
		}
		w.Remark(p.tries.at, foreign.Nearly, sent+retries)
		retries = ""
	} else if p.tries.at == nil && p.tries.is > 1 {
		retries = joined(fmt.Sprintf("%s makes %d retries if nothing is said, and gabion 2", p.mesh, p.tries.is-1), retries)
	} else if p.tries.at == nil {
		retries = p.mesh + " makes no retries if nothing is said, and gabion 2"
	}
	if b := &p.budget; b.written() && b.shape == policy.BudgetShare && p.tries.at != nil && p.tries.is <= 1 {
		w.Remark(p.tries.at, foreign.Lost, "no retry is made, so the budget bounds nothing here")
	}
	times := ""
	if p.call.at == nil {
		there := "no timeout"
		if p.call.is > 0 {
			there = "a timeout of " + policy.FormatDuration(p.call.is)
		}
		times = p.mesh + " has " + there + " if nothing is said, and gabion 15s for a call and 4s for an attempt"
	}
	if text := joined(retries, times); text != "" {
		w.Remark(p.at, foreign.Nearly, text)
	}
}

// hedged is how attempts go beside each other, and what replaces retries then. One that would go after the call's end
// does not.
func (p *plan) hedged(to *policy.Policy) {
	if p.hedge.at == nil {
		return
	}
	most, delay := p.tries.is-1, within(p.hedge.is, time.Millisecond, maxTime)
	if p.call.is > 0 {
		most = min(most, int(p.call.is/delay))
	}
	to.Hedge = policy.Hedge{Max: most, Delay: delay, Percentile: none}
	to.Retry.Attempts, to.Timeout.Attempt, to.Timeout.Last = 1, none, none
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func within(d, least, most time.Duration) time.Duration { return min(max(d, least), most) }

func (p *plan) backoff() backoff.Backoff {
	if p.base.is <= 0 {
		return backoff.Const(0)
	}
	return backoff.Full(p.base.is, p.longest.is)
}

// plays is what the mesh does: its defaults count for what the file does not say.
func (p *plan) plays() policy.Policy {
	made := policy.Policy{Safe: p.tries.is > 1, Timeout: policy.Timeout{Call: p.call.is, Attempt: p.attempt.is}}
	made = foreign.Bare(made, p.tries.is, p.backoff())
	made.Timeout.Idle, made.Timeout.Body = p.idle.is, p.body.is
	made.Retry.Hold = none
	made.Retry.Contention.Attempts = 1
	made.Retry.Budget = p.budget.policy()
	if p.after.is > 0 {
		made.Retry.MaxAfter = p.after.is
	}
	if p.limit.is > 0 {
		made.Bulkhead = policy.Bulkhead{Limit: p.limit.is, Queue: none, QueueTimeout: none}
		if p.queue.is > 0 {
			made.Bulkhead.Queue = p.queue.is
		}
	}
	if p.breaker.whole && p.breaker.failures.is > 0 {
		made.Breaker = p.breaker.policy(p.attempt.is)
	}
	made.HTTP.Transient = p.statuses.is
	made.GRPC.Transient = p.codes.is
	p.hedged(&made)
	return made
}

// written is the nearest policy of gabion, of what the file says.
func (p *plan) written(r *foreign.Route) {
	to := &r.Policy
	note := func(key string, at *foreign.Value) bool {
		if at != nil {
			r.From[key] = at.Line(r.Line)
		}
		return at != nil
	}
	if note("timeout.call", p.call.at) {
		to.Timeout.Call = p.call.is
	}
	if note("timeout.attempt", p.attempt.at) {
		to.Timeout.Attempt = p.attempt.is
	}
	if note("timeout.idle", p.idle.at) {
		to.Timeout.Idle = p.idle.is
	}
	if note("timeout.body", p.body.at) && p.body.is > 0 {
		to.Timeout.Body = p.body.is
	}
	if note("retry.attempts", p.tries.at) {
		to.Retry.Attempts = p.tries.is
	}
	p.writtenWaits(r, note)
	p.hedged(to)
	for _, key := range []string{"hedge", "retry.attempts", "timeout.attempt", "timeout.last"} {
		note(key, p.hedge.at)
	}
	if p.limit.at != nil && p.limit.is > 0 && note("bulkhead.limit", p.limit.at) {
		to.Bulkhead.Limit = p.limit.is
		if note("bulkhead.queue", p.queue.at) {
			to.Bulkhead.Queue = p.queue.is
		}
	}
	if len(p.statuses.is) > 0 && note("http.transient", p.statuses.at) {
		to.HTTP.Transient = p.statuses.is
	}
	if len(p.codes.is) > 0 && note("grpc.transient", p.codes.at) {
		to.GRPC.Transient = p.codes.is
	}
	if p.breaker.whole && p.breaker.failures.is > 0 {
		p.breaker.written(r, note)
	}
}

func (p *plan) writtenWaits(r *foreign.Route, note func(string, *foreign.Value) bool) {
	to := &r.Policy.Retry
	if p.base.at != nil && p.base.is > 0 && p.tries.is > 1 {
		to.Backoff = p.backoff()
		note("retry.backoff.base", p.base.at)
		if note("retry.backoff.cap", p.longest.at); p.longest.at == nil {
			note("retry.backoff.cap", p.base.at) // the mesh derives it
		}
	}
	if p.after.is > 0 && note("retry.max_after", p.after.at) {
		to.MaxAfter = p.after.is
	}
	if b := &p.budget; b.bounded && b.written() && (p.tries.is > 1 || p.tries.at == nil) { // without a word on retries gabion makes its own
		to.Budget = b.policy()
		for key, at := range map[string]*foreign.Value{"ratio": b.share.at, "min_in_flight": b.least.at, "floor": b.floor.at, "window": b.interval.at} {
			note("retry.budget."+key, at)
		}
		r.From["retry.budget.shape"] = r.Line
	}
}
