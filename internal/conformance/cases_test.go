package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// How attempts of the scripts end.
var (
	errDown  = classify.Transient(errors.New("down"))
	errWrong = classify.Permanent(errors.New("wrong"))
	errNo    = classify.Business(errors.New("declined"))
	errPlain = errors.New("unclassified")
	errDial  = classify.NotSent(errors.New("refused"))
	errStop  = classify.DoNotRetry(classify.Transient(errors.New("overloaded")))
)

func throttled(after time.Duration) error { return classify.Throttled(errors.New("later"), after) }

// told is an error that means exactly o.
type told struct{ o policy.Outcome }

func (e *told) Error() string           { return "told" }
func (e *told) Outcome() policy.Outcome { return e.o }

func ok(d time.Duration) Work              { return Work{Takes: d} }
func down(d time.Duration) Work            { return Work{Takes: d, Err: errDown} }
func ends(d time.Duration, err error) Work { return Work{Takes: d, Err: err} }
func hangs() Work                          { return Work{Takes: time.Hour} }
func panics(d time.Duration) Work          { return Work{Takes: d, Panics: true} }
func exits(d time.Duration) Work           { return Work{Takes: d, Exits: true} }
func deaf(w Work) Work                     { w.Deaf = true; return w }

func script(w ...Work) []Work { return w }

func call(at time.Duration, w ...Work) Call { return Call{At: at, Script: w} }

func unsafe(c Call) Call                     { c.Unsafe = true; return c }
func canceled(at time.Duration, c Call) Call { c.Cancel = at; return c }
func within(d time.Duration, c Call) Call    { c.Timeout = d; return c }
func until(at time.Duration, c Call) Call    { c.Deadline = at; return c }
func in(partition string, c Call) Call       { c.Partition = partition; return c }
func held(d time.Duration, breaks bool, c Call) Call {
	c.Open, c.Hold, c.Breaks = true, d, breaks
	return c
}

// each makes a call of one attempt for every letter: S success, F failure, I what
// says nothing, one after the other.
func each(at, apart time.Duration, letters string) (calls []Call) {
	for i, l := range letters {
		var w Work
		switch l {
		case 'F':
			w = ends(0, errDown)
		case 'I':
			w = ends(0, throttled(0))
		}
		calls = append(calls, call(at+time.Duration(i)*apart, w))
	}
	return calls
}

// Layers by themselves.
var (
	noBreaker  = policy.Breaker{Off: true}
	noBulkhead = policy.Bulkhead{Off: true}
	noBudget   = policy.Budget{Off: true}
	noPace     = policy.Pace{Off: true}
)

// retrying is a policy of nothing but a retry.
func retrying(attempts int, b backoff.Backoff) policy.Policy {
	return policy.Policy{
		Retry:   policy.Retry{Attempts: attempts, Backoff: b, Budget: noBudget},
		Breaker: noBreaker, Bulkhead: noBulkhead,
	}
}

// every waits the same, so that logs show round times.
func every(d time.Duration) backoff.Backoff {
	return backoff.Backoff{Kind: backoff.Constant, Base: d, Cap: max(d, time.Minute)}
}

// guarded is a policy of one attempt and a breaker. What it does not say is what the
// cases assume: half of the calls failing trips, and time alone lets a probe go.
func guarded(b policy.Breaker) policy.Policy {
	if b.FailureRate == 0 {
		b.FailureRate = 0.5
	}
	if b.Open == 0 {
		b.Open = 15 * s
	}
	if b.OpenJitter == 0 {
		b.OpenJitter = policy.Off
	}
	p := retrying(1, every(s))
	p.Breaker, p.Pace = b, noPace
	return p
}

// slots is a policy of one attempt and a bulkhead.
func slots(b policy.Bulkhead) policy.Policy {
	p := retrying(1, every(s))
	p.Bulkhead = b
	return p
}

// hedged is a policy of one try and hedges, all at once without a delay.
func hedged(n int, delay time.Duration) policy.Policy {
	p := retrying(1, every(s))
	p.Hedge = policy.Hedge{Max: n, Delay: delay}
	if delay == 0 {
		p.Hedge.Percentile = policy.Off
	}
	return p
}

func with(p policy.Policy, f func(*policy.Policy)) policy.Policy { f(&p); return p }

func reload(at time.Duration, p policy.Policy) Hand {
	return Hand{at, func(h Handle) {
		if err := h.Reload(p); err != nil {
			panic(err)
		}
	}}
}

func move(at time.Duration, f func(*breaker.Breaker, clock.Instant)) Hand {
	return Hand{at, func(h Handle) { h.Move("", f) }}
}

func look(at time.Duration) Hand { return Hand{at, func(Handle) {}} }

// counts asks for how many events of a kind there are.
func counts(k policy.Kind, want int) func(Log) error {
	return between(k, want, want)
}

func between(k policy.Kind, least, most int) func(Log) error {
	return func(l Log) error {
		if n := len(l.Of(k)); n < least || n > most {
			return fmt.Errorf("%d × %s, want %d to %d", n, k, least, most)
		}
		return nil
	}
}

// returned counts the calls that ended for each reason.
func returned(want map[policy.Reason]int) func(Log) error {
	return func(l Log) error {
		got := map[policy.Reason]int{}
		for _, line := range l.Of(policy.KindReturned) {
			got[line.Event.Reason]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("ends: %v, want %v", got, want)
		}
		return nil
	}
}

// endedAt asks for the moment at which the last call ended.
func endedAt(want time.Duration) func(Log) error {
	return func(l Log) error {
		ends := l.Of(policy.KindReturned)
		if len(ends) == 0 || ends[len(ends)-1].At != want {
			return fmt.Errorf("ended at other times than %s: %v", want, ends)
		}
		return nil
	}
}

func all(checks ...func(Log) error) func(Log) error {
	return func(l Log) error {
		var wrong []error
		for _, c := range checks {
			wrong = append(wrong, c(l))
		}
		return errors.Join(wrong...)
	}
}

// Cases is the whole table.
func Cases() []Case {
	return slices.Concat(retryCases(), timeCases(), budgetCases(), breakerCases(), halfOpenCases(), handCases(), bulkheadCases(), hedgeCases(), paceCases(), defaultCases(), contentionCases())
}
