package dashboard

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A row is a dependency as the page lists it. All counts are of the last 30 s. Times are in
// milliseconds since 1970, durations in milliseconds; a time of 0 is unknown, and -1 is never.
type row struct {
	Name  string `json:"name"`
	State string `json:"state"`           // a policy.BreakerState, "never_called", "no_breaker", "watched" or "keys"
	Tone  string `json:"tone"`            // "trouble", "warning", "hand", "quiet" or "good"
	Cause *cause `json:"cause,omitempty"` // what fails most, if the tone is "trouble" or "warning"
	Notes []note `json:"notes,omitempty"`
	Doing string `json:"doing,omitempty"` // what gabion does about it, if the tone is "trouble" or "warning"

	Rate     float64  `json:"calls_per_second"`
	Calls    uint32   `json:"calls"`
	Attempts uint32   `json:"attempts"`
	Amp      *float64 `json:"amplification"` // attempts ÷ calls; null without calls
	Good     *float64 `json:"answered"`      // the share of calls that got an answer; null without calls
	Well     *float64 `json:"succeeded"`     // the share of calls that succeeded; null without calls
	Hedges   uint32   `json:"hedges,omitempty"`

	Outcomes outcomes  `json:"outcomes"`
	Latency  *latency  `json:"latency,omitempty"` // of attempts
	Slots    *slots    `json:"slots,omitempty"`
	Breaker  string    `json:"breaker,omitempty"` // how far a closed one is from opening, where it is not as the policy says
	Budget   *gauge    `json:"budget,omitempty"`
	Errors   []lastErr `json:"errors,omitempty"`

	Partitions int `json:"partitions,omitempty"`
	Troubled   int `json:"partitions_not_closed,omitempty"`

	Second  *[3]uint32   `json:"second,omitempty"`  // the last whole one: calls, failed, refused
	History *[][3]uint32 `json:"history,omitempty"` // two minutes of them, the newest last
}

// A note is one sentence about the dependency.
type note struct {
	Tone  string `json:"tone"`
	Head  string `json:"head,omitempty"` // what is so since then: "open"
	Text  string `json:"text"`
	More  string `json:"more,omitempty"`    // for a second line
	About string `json:"numbers,omitempty"` // that the decision was made by
	Since int64  `json:"since,omitempty"`
	Until int64  `json:"until,omitempty"`
	Then  string `json:"then,omitempty"` // what is then: "next probe"
	Help  string `json:"help,omitempty"` // URL of what to do about it
}

// A cause is the commonest failure of a dependency that is in trouble.
type cause struct {
	Text string `json:"text"` // "server 503 ×799"
	Last int64  `json:"last"`
}

type outcomes struct {
	First    uint32 `json:"first"`
	Rescued  uint32 `json:"rescued"`
	Answered uint32 `json:"answered_no"`
	Failed   uint32 `json:"failed"`
	Refused  uint32 `json:"refused"`
	Left     uint32 `json:"caller_left"`
}

type latency struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Limit float64 `json:"attempt_timeout,omitempty"`
}

type slots struct {
	InUse  int `json:"in_use"`
	Limit  int `json:"limit"`
	Queued int `json:"queued"`
	Queue  int `json:"queue_limit"`

	Text string `json:"text,omitempty"` // the same in words, and who found no slot
}

type lastErr struct {
	Class     string `json:"class"`
	Code      string `json:"code,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Count     uint64 `json:"count"`
	First     int64  `json:"first"`
	Last      int64  `json:"last"`
	Operation string `json:"operation,omitempty"`
	Partition string `json:"partition,omitempty"`
}

const shownErrors = 3

// row describes the dependency. The caller holds t.mu.
func (t *tile) row(v *view) row {
	t.flow.turn(v.now)
	v.sum = slot{}
	t.flow.sum(&v.sum)
	r := row{Name: t.name, Rate: rounded(t.flow.rate()), Attempts: v.sum.attempts, Hedges: v.sum.hedges}
	t.counted(&r, &v.sum)
	t.levels(&r, v)
	r.Errors = t.lastErrors(v, shownErrors)
	t.judge(&r, v)
	if last := t.flow.seconds[max(t.flow.now-1, 0)%historySeconds]; last != (second{}) {
		r.Second = &[3]uint32{last.calls, last.failed, last.refused}
	}
	return r
}

func (t *tile) counted(r *row, s *slot) {
	for _, n := range s.endings {
		r.Calls += n
	}
	e := &s.endings
	r.Outcomes = outcomes{e[endedFirst], e[endedRescued], e[endedAnswered], e[endedFailed], e[endedRefused], e[endedLeft]}
	if r.Calls == 0 {
		return
	}
	amp := rounded(float64(s.attempts) / float64(r.Calls))
	r.Amp = &amp
	if wanted := r.Calls - e[endedLeft]; wanted > 0 {
		well := e[endedFirst] + e[endedRescued]
		r.Good, r.Well = thousandths(well+e[endedAnswered], wanted), thousandths(well, wanted)
	}
}

// thousandths is a share, rounded down: 999.9 of 1000 is not all.
func thousandths(part, of uint32) *float64 {
	s := math.Floor(1000*float64(part)/float64(of)) / 1000
	return &s
}

func (t *tile) levels(r *row, v *view) {
	if v.sum.latency.total > 0 {
		var p [3]time.Duration
		v.sum.latency.percentiles([]float64{0.5, 0.95, 0.99}, p[:])
		r.Latency = &latency{P50: millis(p[0]), P95: millis(p[1]), P99: millis(p[2]), Limit: millis(t.allowed)}
	}
	if !t.vitals.known {
		return
	}
	p, s := &t.vitals.policy, &t.vitals.stats
	if r.Latency != nil {
		r.Latency.Limit = millis(t.vitals.timeout.Attempt)
	}
	if !p.Bulkhead.Off {
		r.Slots = &slots{s.Bulkhead.InUse, s.Bulkhead.Limit, s.Bulkhead.Queued, s.Bulkhead.QueueLimit, roomText(&s.Bulkhead, &p.Bulkhead, &v.sum.refused)}
	}
	if p.Retry.Attempts > 1 || p.Hedge.Max > 0 {
		r.Budget = budgetGauge(&s.Budget, &p.Retry.Budget)
	}
	if b := t.vitals.lead().Breaker; b.State == policy.StateClosed && !t.vitals.unguarded && usualRuns(&b, &p.Breaker) != "" {
		r.Breaker = breakerLevel(&b, &p.Breaker)
	}
	r.Partitions = t.vitals.partitions
	for state, n := range t.vitals.states {
		if policy.BreakerState(state) != policy.StateClosed {
			r.Troubled += n
		}
	}
}

func (t *tile) lastErrors(v *view, most int) (all []lastErr) {
	for i := range t.errors {
		f := &t.errors[i]
		one := lastErr{
			Class: f.class.String(), Code: f.code, Count: f.count, First: v.date(f.first), Last: v.date(f.last),
			Operation: bounded(f.operation), Partition: bounded(f.partition),
		}
		if f.reason != policy.None {
			one.Reason = f.reason.String()
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b lastErr) int { return int(b.Last - a.Last) })
	return all[:min(len(all), most)]
}

// history is two minutes of seconds, the newest whole one last.
func (t *tile) history() *[][3]uint32 {
	all := make([][3]uint32, 0, historySeconds-1)
	for n := t.flow.now - historySeconds + 1; n < t.flow.now; n++ {
		var s second
		if n >= 0 {
			s = t.flow.seconds[n%historySeconds]
		}
		all = append(all, [3]uint32{s.calls, s.failed, s.refused})
	}
	return &all
}

// rounded keeps three digits, so that what did not change much is not sent again.
func rounded(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func millis(d time.Duration) float64 { return rounded(float64(d) / 1e6) }
