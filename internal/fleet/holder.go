package fleet

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Shares are what may be in force in a process.
type Shares struct {
	// Until is when the lease ends. It is never later than the end that the pool knows. At and after it each
	// Share's After is in force, without another word of the Holder. The zero Shares have no
	// Amounts, and nothing may be in force.
	Until clock.Instant

	// Lost reports that the store did not answer, and that no share was given since.
	Lost bool

	// Pods is how many processes hold shares, as the pool that was heard last says.
	Pods int

	// Amounts are in the order of the demands.
	Amounts []Share
}

// Share is what may be in force of one resource.
type Share struct {
	Resource string
	Total    float64 // of the demand
	Amount   float64 // in force before Until
	After    float64 // in force from Until on: zero unless the store is known not to answer

	// Sated reports that others want more than there is, and that the process was given all that it wants, which is less than half
	// of what it could have.
	Sated bool
}

// Holder is one process's side of a fleet. Its methods are for one goroutine. A renewal is:
//
//	shares, lower := h.Fit(demands)          // in force before anything is sent
//	report := h.Report(now, demands)         // put it, and read the pool: asked is now
//	pool := …                                // what the store has; nil if it has none
//	if h.Due(storeNow, pool, u) { … }        // list the reports, Divide, and swap; whose swap fails reads again
//	shares = h.Heard(asked, storeNow, pool)  // or Failed, if the store did not answer
//	next := h.Next(now, u)
//
// A request to the store should be given up after a twelfth of the length of the lease. Then a process knows
// before its lease ends that the store is gone.
type Holder struct {
	id     string
	length time.Duration

	count   uint64 // reports made
	version uint64 // of the pool that it goes by
	until   clock.Instant
	heard   bool          // it has heard anything
	asked   clock.Instant // when it asked for what it heard last
	sent    clock.Instant // when it reported last
	given   bool          // the pool that it heard last has it
	owes    bool          // a share became smaller while others want more: they wait for its report
	gave    bool          // it gave back what no report says yet
	behind  int           // how often in a row another process divided a pool that h has not heard of
	fails   int           // since it heard last
	lost    bool          // it failed, and gave nothing since
	pods    int
	full    bool // the pool has no room for another resource

	demands []Demand
	holds   map[string]hold // by resource; as many as the demands and the pool have
}

// hold is what a process has of one resource.
type hold struct {
	amount float64 // given, less what it gave back
	total  float64 // of which it is a part
	level  float64 // what could be had by asking
	short  bool    // others want more than they have
}

// under is what is left of a share when the process knows of a smaller total than the pool does: the same part of it, so that all that know
// it keep to it at once. Whole numbers would be none, so they stay until the next pool.
func (held hold) under(d *Demand) hold {
	total := clamp(d.Total, math.MaxFloat64)
	if total < held.total && !d.Whole {
		held.amount, held.level, held.total = held.amount*(total/held.total), held.level*(total/held.total), total
	}
	held.amount = min(held.amount, total)
	return held
}

// tolerance divides the length of a lease: by so much a store's clock may seem to go back, as those of its
// servers do.
const tolerance = 64

// never is before every lease.
const never = clock.Instant(math.MinInt64)

// New returns the Holder of a process. The ID must differ from that of every other process of the fleet,
// also from those that ended. The length of a lease is that of the fleet; at most a day, and less than
// a millisecond counts as one.
func New(id string, length time.Duration) *Holder {
	length = min(max(length, time.Millisecond), time.Duration(maxLength)*time.Microsecond)
	return &Holder{id: id, length: length, until: never, asked: never, sent: never, holds: map[string]hold{}}
}

// ID returns what New was given.
func (h *Holder) ID() string { return h.id }

// Version returns the version of the pool that h goes by. Zero means none.
func (h *Holder) Version() uint64 { return h.version }

// gap is the least time between two reports that are not due: a twelfth of a lease.
func (h *Holder) gap() time.Duration { return h.length / 12 }

// Fit lowers what h holds to the totals that the process knows. What it returns must be in force before the next
// report is sent, and Used of the report's demands must be read after that. It reports whether a share became smaller.
func (h *Holder) Fit(demands []Demand) (_ Shares, lower bool) {
	h.demands = demands
	for i := range h.demands {
		d := &h.demands[i]
		held := h.holds[d.Resource]
		if fits := held.under(d); fits.amount < held.amount {
			h.holds[d.Resource], lower = fits, true
		}
	}
	return h.Shares(), lower
}

// giveBack lowers what h holds to what it needs, where others want more. It reports whether something became less. It is for
// when the store has just answered: nothing is gained by giving back to one that is away, and without it what was held last
// has to do for calls that come back.
func (h *Holder) giveBack() (lower bool) {
	for i := range h.demands {
		d := &h.demands[i]
		held, need := h.holds[d.Resource].under(d), max(d.Want, d.Least)
		if d.Whole {
			need = math.Ceil(need)
		}
		// A tenth more than it needs is no reason: estimates move. What it needs of what is new is not known.
		if held.short && !d.New && need*1.1 < held.amount {
			held.amount, lower = need, true
			h.holds[d.Resource] = held
		}
	}
	return lower
}

// Report returns what to put into the store. The caller adds Facts.
func (h *Holder) Report(now clock.Instant, demands []Demand) *Report {
	h.demands, h.sent = demands, now
	h.count++
	r := &Report{Format: format, ID: h.id, Count: h.count, Ack: h.version, Demands: make([]Demand, len(demands))}
	copy(r.Demands, demands)
	named := make(map[string]bool, len(demands))
	for i := range r.Demands {
		d := &r.Demands[i]
		named[d.Resource] = true
		amount, after := h.share(d)
		if now >= h.until {
			amount = after
		}
		// What it does not report it does not hold, also if the store fails after this.
		if held, known := h.holds[d.Resource]; known && amount < held.amount {
			held = held.under(d)
			held.amount = amount
			h.holds[d.Resource] = held
		}
		d.Holds = max(amount, clamp(d.Used, math.MaxFloat64))
	}
	for name := range h.holds { // nor what it does not name, also if it wants it again before it has another pool
		if !named[name] {
			delete(h.holds, name)
		}
	}
	r.sanitize()
	return r
}

// Leave returns the last report of a process that ends. Nothing is in force in it any more.
func (h *Holder) Leave(now clock.Instant) *Report {
	h.count++
	h.sent, h.fails, h.lost = now, 0, false
	clear(h.holds)
	return &Report{Format: format, ID: h.id, Count: h.count, Ack: h.version, Leaves: true}
}

// Heard takes the answer to a request that began at asked: the store's time when it answered, and the
// pool in it, nil without one. An answer to an older request than one that was heard already is ignored.
func (h *Holder) Heard(asked clock.Instant, storeNow time.Time, p *Pool) Shares {
	if h.heard && asked < h.asked {
		return h.Shares()
	}
	h.heard, h.asked, h.fails, h.gave = true, asked, 0, false
	if p != nil {
		h.behind = 0
	}
	if h.outdated(p) {
		return h.Shares()
	}
	pod := p.Pod(h.id)
	h.given = pod != nil && pod.Until > 0
	if !h.given {
		// A pool that lost writes, or one that was divided before the first report. What it holds ends by
		// itself. When the store returns, what was held without it stays until there is a share.
		return h.Shares()
	}
	h.pods, h.lost = p.Live(), false
	if p.Age(storeNow) < -h.length/tolerance {
		return h.Shares() // the store's clock stepped back, so the end means nothing; the pool is due
	}
	left := min(p.End(pod).Sub(storeNow), time.Duration(pod.Until)*time.Microsecond)
	until := asked.Add(left)
	if p.Version == h.version {
		h.until = max(h.until, until)
		h.owes, h.gave = false, h.giveBack()
		return h.Shares()
	}
	h.adopt(p, pod)
	h.until = until
	return h.Shares()
}

// adopt takes the shares of a pool that h did not go by.
//
// One with an older version is what the store has after it lost writes. Then a share does not grow: what h reported
// when it went by that version may be in the store still.
func (h *Holder) adopt(p *Pool, pod *Pod) {
	before, back := h.holds, p.Version < h.version
	h.version, h.owes = p.Version, false
	h.holds, h.full = make(map[string]hold, len(p.Resources)), len(p.Resources) >= MaxResources
	for i, r := range p.Resources {
		amount := pod.Share(i)
		if back {
			amount = min(amount, before[r.Name].amount)
		}
		h.holds[r.Name] = hold{amount: amount, total: r.Total, level: r.Level, short: r.Short}
		if r.Short && amount < before[r.Name].amount {
			h.owes = true
		}
	}
	// Who divided it had not read the last report. Else it knows what is needed.
	h.gave = pod.Count < h.count && h.giveBack()
}

// Failed says that the store did not answer, or answered with an error.
func (h *Holder) Failed(now clock.Instant) Shares {
	h.fails++
	h.lost = true
	return h.Shares()
}

// Shares returns what may be in force, for the demands that h was given last.
func (h *Holder) Shares() Shares {
	s := Shares{Until: h.until, Lost: h.lost, Pods: h.pods, Amounts: make([]Share, len(h.demands))}
	for i := range h.demands {
		d := &h.demands[i]
		amount, after := h.share(d)
		held := h.holds[d.Resource].under(d)
		s.Amounts[i] = Share{Resource: d.Resource, Total: d.Total, Amount: amount, After: after, Sated: held.short && amount < held.level/2}
	}
	return s
}

// unknown is the part of the total that a process which never had a share has while the store does not
// answer: it cannot know how many others there are.
const unknown = 0.1

// share returns what is in force of d's resource before and after the end of the lease.
func (h *Holder) share(d *Demand) (amount, after float64) {
	held, known := h.holds[d.Resource]
	amount = held.under(d).amount
	switch {
	case !h.lost || d.Lost < 0:
		return amount, 0
	case d.Lost > 0:
		after = d.Lost * d.Total
	case known:
		return amount, amount
	default:
		after = unknown * d.Total
	}
	if d.Whole {
		after = max(math.Floor(after), 1)
	}
	return amount, after
}

// Rising reports that it is worth to renew now, because the process wants more than it has and could have
// more, or because others want more than they have and it needs less than half of what it has. It does not say so more
// often than once in a twelfth of the length of a lease, and not while the store does not answer.
func (h *Holder) Rising(now clock.Instant, demands []Demand) bool {
	h.demands = demands
	return h.fails == 0 && h.given && now.Sub(h.sent) >= h.gap() && (h.hungry() || h.sated())
}

// sated reports that others want what h has and does not need.
func (h *Holder) sated() bool {
	for _, d := range h.demands {
		held := h.holds[d.Resource]
		if held.short && max(d.Want, d.Least) < held.amount/2 && (!d.Whole || held.amount > 1) {
			return true
		}
	}
	return false
}

// hungry reports that h could have more of something that it wants.
func (h *Holder) hungry() bool {
	for _, d := range h.demands {
		held := h.holds[d.Resource]
		// A sixteenth is not worth a round trip.
		if want := min(max(d.Want, d.Least), d.Total, held.level); want > held.amount*17/16 {
			return true
		}
	}
	return false
}

// lacks reports that h wants a resource that was not in the pool which it heard last, and is not in p either.
func (h *Holder) lacks(p *Pool) bool {
	for i := range h.demands {
		d := &h.demands[i]
		_, known := h.holds[d.Resource]
		if !known && !h.full && !d.void() && (d.New || max(d.Want, d.Least) > 0) && (p == nil || p.Version == h.version || !p.names(d.Resource)) {
			return true
		}
	}
	return false
}

// settled is how many reports a process makes until it renews less often: others that begin with it wait for what it does not need.
const settled = 5

// Next returns when to renew, never before now. U is a draw from [0, 1), one for each renewal. Ordinarily that is
// a third of a lease after the last report, and a sixth of one before its lease ends. A process that has no share yet, that has just begun, or for whose report others
// wait, renews after a twelfth, and one that wants a resource which is new after a twenty-fourth. While the store does not answer, the waits double up to half of a lease, with
// full jitter, so that its return meets no herd, and that all are back before a lease has passed. What was given back is reported at once.
func (h *Holder) Next(now clock.Instant, u float64) clock.Instant {
	var wait time.Duration
	switch {
	case h.fails > 0:
		bound := min(h.length/2, h.length/6<<min(h.fails-1, 10))
		return now.Add(h.length/64 + time.Duration(u*float64(bound)))
	case h.gave:
		return now
	case h.behind > 0: // the pool may soon be there
		wait = time.Duration((0.75 + 0.5*u) * float64(min(h.length/48<<min(h.behind-1, 10), h.length/6)))
	case h.given && h.lacks(nil):
		wait = time.Duration((0.75 + 0.5*u) * float64(h.length/24)) // when the pool may be divided again
	case !h.given || h.owes || h.count < settled:
		wait = time.Duration((0.75 + 0.5*u) * float64(h.gap()))
	default:
		wait = time.Duration((0.9 + 0.2*u) * float64(h.length/3))
		// Early enough before the end to notice that the store is gone. After an outage leases are short at first.
		if left := h.until.Sub(h.sent) - h.length/6; left < wait {
			wait = max(left, time.Duration((0.75+0.5*u)*float64(h.gap())))
		}
	}
	return max(now, h.sent.Add(wait))
}
