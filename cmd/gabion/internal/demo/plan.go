package demo

import (
	"fmt"
	"time"
)

// Kind is what is wrong with the provider during a phase.
type Kind uint8

// The kinds of fault.
const (
	Healthy     Kind = iota // nothing
	Unavailable             // a share of requests is answered 503 at the door
	Slow                    // the work takes a multiple of its time, so capacity falls below the load
	Reset                   // a share of connections is reset before the work
	Lost                    // a share of connections is reset after the charge was made
	RateLimited             // requests above a rate are answered 429 with Retry-After
	Played                  // what the plan of a file says
)

// Phase is one stretch of the plan.
type Phase struct {
	Name   string
	Kind   Kind
	Share  float64       // of requests hit, for Unavailable, Reset and Lost
	Factor int           // how much longer the work takes, for Slow
	Rate   float64       // requests per second let through, for RateLimited
	Start  time.Duration // from the start of the run
	End    time.Duration
	text   string // what it says, for Played
}

// says describes the phase to people.
func (p Phase) says() string {
	switch p.Kind {
	case Played:
		return p.text
	case Unavailable:
		return fmt.Sprintf("%.0f %% of requests are answered 503 at the door", 100*p.Share)
	case Slow:
		return fmt.Sprintf("the work takes %d times as long: %.0f/s at most", p.Factor, float64(capacity)/float64(p.Factor))
	case Reset:
		return fmt.Sprintf("%.0f %% of connections are reset before the work", 100*p.Share)
	case Lost:
		return fmt.Sprintf("%.0f %% of connections are reset after the charge", 100*p.Share)
	case RateLimited:
		return fmt.Sprintf("above %.0f/s: 429 with Retry-After", p.Rate)
	}
	return fmt.Sprintf("everything is answered, up to %.0f/s", float64(capacity))
}

// stages is the plan as data: the seconds are those of a run of 40 and scale
// with it. It starts healthy for a baseline, and ends healthy to show who recovers. The
// last phase is the longest, because recovery takes time.
var stages = []struct {
	seconds float64
	phase   Phase
}{
	{5, Phase{Name: "healthy", Kind: Healthy}},
	{5, Phase{Name: "503", Kind: Unavailable, Share: 0.8}},
	{4, Phase{Name: "slow", Kind: Slow, Factor: 10}},
	{4, Phase{Name: "resets", Kind: Reset, Share: 0.6}},
	{4, Phase{Name: "lost answers", Kind: Lost, Share: 0.5}},
	{5, Phase{Name: "rate limit", Kind: RateLimited, Rate: load / 2}},
	{11, Phase{Name: "healthy again", Kind: Healthy}},
}

// Plan has the phases in time, and the rest, in which nothing arrives any more and the
// last calls end.
type Plan struct {
	Phases []Phase
	Total  time.Duration // of the run, the rest included
}

// NewPlan scales the stages so that the whole run takes total. A twentieth of it,
// and never more than a call may take, is kept for the last calls to end.
func NewPlan(total time.Duration) Plan {
	busy := total - min(inTime, total/20)
	var sum, done float64
	for _, s := range stages {
		sum += s.seconds
	}
	plan := Plan{Total: total}
	var start time.Duration
	for _, s := range stages {
		done += s.seconds
		p := s.phase
		p.Start, p.End = start, time.Duration(done/sum*float64(busy))
		plan.Phases = append(plan.Phases, p)
		start = p.End
	}
	return plan
}

// At returns the phase at time t, and its index. Before the start it is the
// first, after the end the last.
func (p Plan) At(t time.Duration) (Phase, int) {
	for i, phase := range p.Phases {
		if t < phase.End {
			return phase, i
		}
	}
	last := len(p.Phases) - 1
	return p.Phases[last], last
}

// Busy is how long calls arrive.
func (p Plan) Busy() time.Duration { return p.Phases[len(p.Phases)-1].End }

// Fault returns the time from the first fault to the end of the last.
func (p Plan) Fault() (start, end time.Duration) {
	return p.Phases[0].End, p.Phases[len(p.Phases)-1].Start
}
