package dashboard

import (
	"sync"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// What a tile keeps is bounded, whatever a program does: so a page of 1,000 dependencies with
// 1,000 partitions each takes some tens of MB.
const (
	keptNews       = 16 // of what happened to the dependency
	keptErrors     = 12 // kinds of failures, by class and code
	keptPartitions = 16 // whose breaker is not closed
	keptStories    = 8  // calls with all their decisions
	alikeStories   = 2  // of these, how many may have ended alike
	keptCodes      = 12 // decisions about keys and messages
	shownTroubles  = 8  // partitions that a page lists

	forgetErrors = 2 * time.Minute // after the last of a kind, it counts from zero
	storyPause   = time.Second     // calls that ended alike are kept so far apart
)

// A tile is what is known of one dependency.
type tile struct {
	name string

	mu   sync.Mutex // guards all below
	flow flow
	last time.Duration  // of the newest event
	seen bool           // there was one
	read time.Duration  // what the clock said …
	said policy.Instant // … at this time of the dependency's own

	news     ring[headline]
	errors   []failure
	refusals map[policy.Reason]refusal
	breakers map[string]breaker // of partitions that are not closed, and the main one
	hidden   int                // moves of partitions for which there was no room
	codes    map[string]uint64
	stories  []story       // the oldest first
	paced    time.Duration // until then
	retries  bool          // switched off, as far as events say
	lost     int64         // events that are missing
	allowed  time.Duration // for an attempt, as events say
	out      int64         // attempts that were sent and have not settled
	evidence evidence

	vitals vitals
	calm   bool // when it was last looked at
}

// A headline is something that happened to the dependency.
type headline struct {
	at    time.Duration
	until time.Duration // 0 means no time is known, forever means no end
	event policy.Event
	fold  *fold // of moves that are one line
}

const forever = time.Duration(1<<63 - 1)

// A failure is a kind of attempts that failed.
type failure struct {
	class       policy.Class
	reason      policy.Reason // the timeout that it ran into, if one
	code        string
	count       uint64
	first, last time.Duration
	operation   string
	partition   string
}

// A refusal is the last one of its reason.
type refusal struct {
	at      time.Duration
	numbers *policy.Numbers
	left    time.Duration
}

// A ring keeps the newest of what is put in.
type ring[T any] struct {
	all  []T
	next int
}

func (r *ring[T]) put(v T, limit int) {
	if len(r.all) < limit {
		r.all = append(r.all, v)
		return
	}
	r.all[r.next] = v
	r.next = (r.next + 1) % limit
}

// newest calls do for each, the newest first, until it returns false.
func (r *ring[T]) newest(do func(*T) bool) {
	for i := range r.all {
		n := (r.next - 1 - i + 2*len(r.all)) % len(r.all)
		if !do(&r.all[n]) {
			return
		}
	}
}

// observe takes an event in. planned says that a call ended because a retry was not even tried,
// for which there is no other event. It returns when the event was.
func (t *tile) observe(clock func() time.Duration, e *policy.Event, planned bool) (now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.time(clock, e)
	t.flow.turn(now)
	t.last, t.seen = now, true
	switch e.Kind {
	case policy.KindAttemptSent:
		t.out++
		t.flow.slot().attempts++
		t.flow.second().attempts++
		if e.Attempt > 1 || e.Hedge {
			t.flow.second().resends++
		}
		if e.Hedge {
			t.flow.slot().hedges++
		}
		if e.Measured {
			t.allowed = e.Until.Sub(e.At)
		} else if e.Until != policy.Never {
			t.allowed = max(t.allowed, e.Until.Sub(e.At)) // less where the call's deadline is near
		}
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		t.out = max(t.out-1, 0) // some were sent before the page began to watch
		t.evidence.settled(e)
		t.settled(now, e)
	case policy.KindReturned:
		t.returned(e)
		if planned {
			t.refused(now, e)
		}
	case policy.KindAttemptRefused, policy.KindHedgeSkipped:
		t.refused(now, e)
	case policy.KindKeyDecided, policy.KindMessageDisposed:
		t.decided(e)
	default:
		if e.Kind >= policy.KindBreakerMoved {
			t.evidence.happened(e)
			t.happened(now, e)
		}
	}
	return now
}

// time is when an event was. To read the clock for each would be a third of what a page costs, so
// for a second the event's own is trusted. Two dependencies of one name have two of those.
func (t *tile) time(clock func() time.Duration, e *policy.Event) time.Duration {
	if since := e.At.Sub(t.said); t.seen && since >= 0 && since < time.Second && e.At != 0 {
		return t.read + since
	}
	t.read, t.said = clock(), e.At
	return t.read
}

func (t *tile) settled(now time.Duration, e *policy.Event) {
	s := t.flow.slot()
	s.classes[min(int(e.Class), maxClasses-1)]++
	if e.Kind == policy.KindAttemptSettled && e.Class != policy.ClassIgnored {
		s.latency.count(e.Took)
	}
	if !failed(e.Class) {
		return
	}
	if probes := t.breakers[e.Partition].probes; probes != nil {
		probes.last = bounded(or(e.Code, e.Class.String()))
	}
	f := t.failure(now, e)
	if now-f.last > forgetErrors {
		f.count, f.first = 0, now
	}
	f.count++
	f.last, f.operation, f.partition = now, e.Operation, e.Partition
}

// failed reports whether the class is worth a line among the errors.
func failed(c policy.Class) bool {
	return c != policy.ClassSuccess && c != policy.ClassIgnored && c != policy.ClassUndecided
}

// failure finds the kind of a failed attempt, or makes it in place of the one that is
// longest ago.
func (t *tile) failure(now time.Duration, e *policy.Event) *failure {
	oldest := 0
	for i := range t.errors {
		f := &t.errors[i]
		if f.class == e.Class && f.code == e.Code && f.reason == e.Reason {
			return f
		}
		if f.last < t.errors[oldest].last {
			oldest = i
		}
	}
	fresh := failure{class: e.Class, code: bounded(e.Code), reason: e.Reason, first: now, last: now}
	if len(t.errors) < keptErrors {
		t.errors = append(t.errors, fresh)
		return &t.errors[len(t.errors)-1]
	}
	t.errors[oldest] = fresh
	return &t.errors[oldest]
}

func (t *tile) returned(e *policy.Event) {
	how := endingOf(e)
	s := t.flow.second()
	s.calls++
	switch how {
	case endedFailed:
		s.failed++
	case endedRefused:
		s.refused++
	}
	t.flow.slot().endings[how]++
}

// notSent reports whether a call that ended so had one more attempt to make, and did not.
func notSent(r policy.Reason) bool {
	switch r {
	case policy.BudgetExhausted, policy.AllFailing, policy.DeadlineShort, policy.RetryAfterTooLong, policy.DoNotRetry, policy.RetriesOff,
		policy.BodyNotRewindable, policy.NotSafe:
		return true
	}
	return r.Local()
}

func (t *tile) refused(now time.Duration, e *policy.Event) {
	t.flow.slot().refused[min(int(e.Reason), maxReasons-1)]++
	if t.refusals == nil {
		t.refusals = map[policy.Reason]refusal{}
	}
	t.refusals[e.Reason] = refusal{now, e.Numbers, e.Left}
}

// decided counts what became of requests with a key, and of messages.
func (t *tile) decided(e *policy.Event) {
	if t.codes == nil {
		t.codes = map[string]uint64{}
	}
	what := "key "
	if e.Kind == policy.KindMessageDisposed {
		what = "message "
	}
	what += bounded(e.Code)
	if _, known := t.codes[what]; !known && len(t.codes) >= keptCodes {
		what = "others"
	}
	t.codes[what]++
}

// happened takes in what happened to the dependency itself.
func (t *tile) happened(now time.Duration, e *policy.Event) {
	h := headline{at: now, event: *e}
	h.event.Partition = bounded(e.Partition)
	switch {
	case e.Until == policy.Never:
		h.until = forever
	case e.Until > e.At:
		h.until = now + e.Until.Sub(e.At)
	}
	switch e.Kind {
	case policy.KindBreakerMoved:
		t.moved(h)
		return
	case policy.KindPaceSet:
		t.paced = h.until
	case policy.KindRetriesSwitched:
		t.retries = e.Reason == policy.RetriesOff
	case policy.KindEventsLost:
		t.lost += e.Count
	}
	t.tell(h)
}

// bounded is a text from traffic, cut to what a page needs of it.
func bounded(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
