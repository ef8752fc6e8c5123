package mesh

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

// budget bounds retries. What it is reckoned by depends on the mesh.
type budget struct {
	shape    policy.BudgetShape // of share and window; none of the two is no bound
	bounded  bool
	share    said[float64] // of requests that may be retries; 0 with BudgetShare: the least alone
	least    said[int]     // retries at once, in any case
	floor    said[float64] // retries per second, in any case
	interval said[time.Duration]
}

// inFlight is the budget of Envoy and Istio: a share of the requests that are out, and as many in any case. An empty one
// has their defaults.
func (b *budget) inFlight(v, percent *foreign.Value) {
	*b = budget{shape: policy.BudgetShare, bounded: true, share: by(0.2), least: by(3)}
	share(&b.share, percent)
	for _, key := range []string{"minRetryConcurrency", "min_retry_concurrency"} {
		whole(&b.least, v.Get(key), 0)
	}
	if !b.written() {
		b.least.at = v
	}
}

// slots takes the bounds of connections and of requests, of which the smaller one counts.
func (p *plan) slots(w *foreign.Walker, connections, requests *foreign.Value, zero func(at *foreign.Value)) {
	for _, at := range []*foreign.Value{connections, requests} {
		switch {
		case at == nil:
		case at.Number == 0:
			zero(at)
		case p.limit.at == nil:
			p.limit.take(at, int(min(at.Number, maxSlots)))
		case at.Number < float64(p.limit.is):
			w.Remark(p.limit.at, foreign.Nearly, "{} is more than the bound of requests, which counts here: "+at.Tree.Text)
			p.limit.take(at, int(at.Number))
		default:
			w.Remark(at, foreign.Nearly, "{} is not less than the bound of connections, which counts here, as with HTTP/1.1: "+connections.Tree.Text)
		}
	}
}

// row takes a number of failures in a row, if it is less than another one for the same failures.
func (e *ejection) row(w *foreign.Walker, at *foreign.Value, other string) {
	if e.failures.is == 0 || e.failures.at == nil || int(at.Number) < e.failures.is {
		e.failures.take(at, int(min(at.Number, 1<<10)))
		return
	}
	w.Remark(at, foreign.Lost, "{} is not less than "+other+", which counts the same failures: no effect")
}

// written reports whether a file says anything of it.
func (b *budget) written() bool {
	return b.share.at != nil || b.least.at != nil || b.floor.at != nil || b.interval.at != nil
}

// ejection is what takes a host out after failures.
type ejection struct {
	whole    bool // it can take out all hosts, so that a service that fails is left alone
	failures said[int]
	open     said[time.Duration]
	most     said[time.Duration]
	jitter   said[float64]
	probes   int // requests at once to a host that is tried again; 0: it is back at once
}

func (b *budget) fit(w *foreign.Walker) {
	if b.share.is > 1 {
		w.Remark(b.share.at, foreign.Nearly, "{} is 100% here: one retry for each request is the most that a budget takes")
		b.share.is = 1
	}
	b.least.is = min(b.least.is, maxCount)
	if b.shape == policy.BudgetWindow {
		if d := within(b.interval.is, time.Second, time.Minute); d != b.interval.is {
			w.Remark(b.interval.at, foreign.Nearly, "{} is "+policy.FormatDuration(d)+" here: a budget's window is 1s to 1m")
			b.interval.is = d
		}
		if b.floor.is > 0 {
			b.floor.is = min(max(b.floor.is, 1e-5), 1e6)
		}
	}
}

// policy is the budget as a policy has it.
func (b *budget) policy() policy.Budget {
	if !b.bounded {
		return policy.Budget{Off: true}
	}
	made := policy.Budget{Shape: b.shape, Ratio: policy.Ratio(orNone(b.share.is))}
	if b.shape == policy.BudgetShare {
		made.MinInFlight = int(orNone(float64(b.least.is)))
		return made
	}
	made.Floor, made.Window = policy.PerSecond(orNone(b.floor.is)), b.interval.is
	return made
}

// orNone is a number, or none for zero, which in a policy means the default.
func orNone(n float64) float64 {
	if n <= 0 || math.IsNaN(n) {
		return none
	}
	return n
}

// policy is a breaker that does to the service what the mesh does to a host.
func (e *ejection) policy(attempt time.Duration) policy.Breaker {
	b := foreign.Steady(e.open.is)
	b.Window = max(b.Window, 2*attempt)
	b.Consecutive, b.CloseAfter = e.failures.is, 1
	if e.most.is > e.open.is {
		b.OpenMax, b.OpenGrowth = e.most.is, 2
	}
	if e.jitter.is > 0 {
		b.OpenJitter = policy.Ratio(e.jitter.is)
	}
	if e.probes == 0 { // it is back with all its load, and leaves by the same rule
		b.Probes, b.ProbeCalls, b.ReopenAfter = 100, 100, e.failures.is
	}
	return b
}

func (e *ejection) written(r *foreign.Route, note func(string, *foreign.Value) bool) {
	to := &r.Policy.Breaker
	if note("breaker.consecutive", e.failures.at) {
		to.Consecutive = e.failures.is
	}
	if note("breaker.open", e.open.at) {
		to.Open = e.open.is
	}
	if note("breaker.open_max", e.most.at) {
		to.OpenMax = max(e.most.is, r.Policy.Resolved().Breaker.Open)
	}
	if note("breaker.open_jitter", e.jitter.at) {
		to.OpenJitter = policy.Ratio(orNone(e.jitter.is))
	}
}
