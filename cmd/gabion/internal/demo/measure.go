package demo

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/flaky"
)

const (
	bin      = 500 * time.Millisecond // by which goodput is looked at for recovery
	nearness = 0.95                   // of the healthy baseline counts as back
	never    = -1                     // recovery_s of a client whose goodput did not come back
)

// Report is what a run found. Its JSON is stable: fields are added, never changed.
type Report struct {
	Seed           uint64         `json:"seed"`
	Seconds        int            `json:"seconds"`
	Interrupted    bool           `json:"interrupted"`
	CallsPerSec    int            `json:"calls_per_s"`
	InTimeMS       float64        `json:"in_time_ms"`
	Plan           string         `json:"plan"`
	CapacityPerSec float64        `json:"capacity_per_s"` // of a provider; 0: not bounded
	Phases         []PhasePlan    `json:"phases"`
	Clients        []ClientReport `json:"clients"`
	Left           int            `json:"left_behind"` // calls that did not end after their cancellation
	LateP99        float64        `json:"late_p99_ms"` // by how much calls started after their moment: the machine's doing

	plan  Plan
	lines []timeline
}

// share is the part of the calls that succeeded in time, of those of which it is
// known.
func (c ClientReport) share() float64 { return ratio(c.SucceededInTime, c.Calls-c.Undecided) }

func (p PhaseReport) share() float64 { return ratio(p.SucceededInTime, p.Calls-p.Undecided) }

// PhasePlan is one phase as it was played.
type PhasePlan struct {
	Name   string  `json:"name"`
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
}

// ClientReport is what one client did.
type ClientReport struct {
	Name            string  `json:"name"`
	Keyed           bool    `json:"keyed"` // it sent an idempotency key
	Setup           string  `json:"setup"` // where its settings are from
	Calls           int     `json:"calls"`
	SucceededInTime int     `json:"succeeded_in_time"`
	Amplification   float64 `json:"amplification_during_fault"`
	DoubleCharges   int     `json:"double_charges"` // orders charged more than once
	P50             float64 `json:"p50_ms"`         // of all calls, failed ones too
	P99             float64 `json:"p99_ms"`
	RecoveryS       float64 `json:"recovery_s"` // -1: never
	RetryTailS      float64 `json:"retry_tail_s"`

	Recovered        bool           `json:"recovered"`
	Attempts         int            `json:"attempts"` // requests that reached the provider
	ExtraCharges     int            `json:"extra_charges"`
	SucceededLate    int            `json:"succeeded_late"`
	StillOpen        int            `json:"still_open"`          // calls cut off by the end of the run
	Undecided        int            `json:"undecided"`           // of those, the ones that still had time
	ChargedNotTold   int            `json:"charged_but_failed"`  // orders charged whose caller got an error
	ChargedAndDenied int            `json:"charged_but_denied"`  // of those, the error said that nothing happened
	ToldNotCharged   int            `json:"success_not_charged"` // orders reported as charged that are not
	Hidden           int64          `json:"hidden_resends"`      // attempts that net/http made by itself, where known
	Reasons          map[string]int `json:"errors"`
	Phases           []PhaseReport  `json:"phases"`
}

// PhaseReport is what one client did in one phase. Calls belong to the phase in
// which they arrive, attempts to the one in which they reach the provider.
type PhaseReport struct {
	Name            string  `json:"name"`
	Calls           int     `json:"calls"`
	SucceededInTime int     `json:"succeeded_in_time"`
	Undecided       int     `json:"undecided"`
	Attempts        int     `json:"attempts"`
	Amplification   float64 `json:"amplification"`
}

// evidence is everything that a client's figures are computed from: what callers
// were told, what reached the provider, and what its ledger says.
type evidence struct {
	records  []record
	arrivals []arrival
	charges  map[string]int
	until    time.Duration // when calls stopped arriving
}

func (e evidence) measure(c client, plan Plan) ClientReport {
	r := ClientReport{Name: c.name, Keyed: c.keyed, Setup: c.setup, Calls: len(e.records), Attempts: len(e.arrivals), Reasons: map[string]int{}}
	for _, rec := range e.records {
		r.count(rec, e.charges[rec.order.ID()])
	}
	for _, times := range e.charges {
		if times > 1 {
			r.DoubleCharges++
			r.ExtraCharges += times - 1
		}
	}
	if c.hidden != nil {
		r.Hidden = c.hidden()
	}
	r.P50, r.P99 = e.percentile(0.50), e.percentile(0.99)
	r.Phases = e.byPhase(plan)
	r.Amplification = amplification(r.Phases[1 : len(r.Phases)-1])
	r.RecoveryS, r.Recovered = e.recovery(plan)
	r.RetryTailS = e.retryTail(plan)
	return r
}

// count adds one call and what the ledger says about it.
func (c *ClientReport) count(rec record, charged int) {
	switch {
	case rec.good():
		c.SucceededInTime++
	case rec.ok:
		c.SucceededLate++
	case rec.open:
		c.StillOpen++
		if rec.undecided() {
			c.Undecided++
		}
		c.Reasons["still open"]++
	default:
		c.Reasons[rec.reason]++
	}
	switch {
	case rec.ok && charged == 0:
		c.ToldNotCharged++
	case rec.ok || rec.open || charged == 0:
		return
	default:
		c.ChargedNotTold++
		if rec.denies {
			c.ChargedAndDenied++
		}
	}
}

// percentile is the nearest-rank percentile in milliseconds over all calls,
// failed ones too, each from the moment it was meant to start.
func (e evidence) percentile(p float64) float64 {
	took := make([]time.Duration, len(e.records))
	for i, r := range e.records {
		took[i] = r.took
	}
	return percentile(took, p)
}

// percentile sorts times and returns the nearest rank's, in milliseconds.
func percentile(times []time.Duration, p float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	rank := int(math.Ceil(p * float64(len(times))))
	return millis(times[max(0, rank-1)])
}

func (e evidence) byPhase(plan Plan) []PhaseReport {
	phases := make([]PhaseReport, len(plan.Phases))
	for i, p := range plan.Phases {
		phases[i].Name = p.Name
	}
	for _, r := range e.records {
		_, i := plan.At(r.order.At)
		phases[i].Calls++
		if r.good() {
			phases[i].SucceededInTime++
		}
		if r.undecided() {
			phases[i].Undecided++
		}
	}
	for _, a := range e.arrivals {
		_, i := plan.At(a.at)
		phases[i].Attempts++
	}
	for i := range phases {
		phases[i].Amplification = amplification(phases[i : i+1])
	}
	return phases
}

// amplification is the requests that reached the provider ÷ the calls that
// arrived, over some phases.
func amplification(phases []PhaseReport) float64 {
	var attempts, calls int
	for _, p := range phases {
		attempts, calls = attempts+p.Attempts, calls+p.Calls
	}
	return thousandth(ratio(attempts, calls))
}

// recovery is the time from the end of the last fault to the first bin from which
// on every bin's goodput is near the baseline: that of the healthy start. A bin
// that calls did not arrive in to its end does not count.
func (e evidence) recovery(plan Plan) (seconds float64, ok bool) {
	_, end := plan.Fault()
	bins := int((e.until - end) / bin)
	baseline := e.goodput(0, min(plan.Phases[0].End, e.until))
	if bins < 1 || baseline == 0 {
		return never, false
	}
	back := bins
	for back > 0 {
		from := end + time.Duration(back-1)*bin
		if e.goodput(from, from+bin) < nearness*baseline {
			break
		}
		back--
	}
	if back == bins {
		return never, false
	}
	return (time.Duration(back) * bin).Seconds(), true
}

// goodput is the calls per second, of those that arrived in [from, to), that
// succeeded in time.
func (e evidence) goodput(from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	good := 0
	for _, r := range e.records {
		if r.good() && r.order.At >= from && r.order.At < to {
			good++
		}
	}
	return float64(good) / (to - from).Seconds()
}

// retryTail is how long after the end of the last fault requests other than an
// order's first still reached the provider.
func (e evidence) retryTail(plan Plan) float64 {
	_, end := plan.Fault()
	last := end
	for _, a := range e.arrivals {
		if a.attempt > 1 {
			last = max(last, a.at)
		}
	}
	return thousandth((last - end).Seconds())
}

// report is a report without its clients.
func (st *stage) report(interrupted bool) *Report {
	r := &Report{
		Seed: st.settings.Seed, Seconds: int(st.plan.Total / time.Second), Plan: st.settings.Outage.Name(), CapacityPerSec: capacityOf(st.settings.Outage), Interrupted: interrupted,
		CallsPerSec: load, InTimeMS: millis(inTime), Left: st.left, LateP99: percentile(st.late, 0.99), plan: st.plan,
	}
	for _, p := range st.plan.Phases {
		r.Phases = append(r.Phases, PhasePlan{p.Name, thousandth(p.Start.Seconds()), thousandth(p.End.Seconds())})
	}
	return r
}

// capacityOf is how many charges a second a provider can do; 0 means that nothing bounds it.
func capacityOf(o *flaky.Plan) float64 {
	if c := o.Capacity(); !math.IsInf(c, 1) {
		return thousandth(c)
	}
	return 0
}

func millis(d time.Duration) float64 { return thousandth(float64(d) / float64(time.Millisecond)) }

func thousandth(x float64) float64 { return math.Round(x*1000) / 1000 }
