package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Quotas are how much of several things a service lets its callers use in a time. A request that
// arrives takes what it uses of all of them, or is refused with 429 and takes nothing. What it has taken does
// not come back, whatever becomes of it.
type Quotas struct {
	List      []Quota // at most terms.MaxQuotas
	PerCaller bool    // each client has quotas of its own, as with a key each
	Tells     Tells
	After     time.Duration // the Retry-After of a refusal; 0 means that it names none
	Honest    bool          // names when there will be room instead
}

// Quota is how much there is of one thing. It is all there at the beginning.
type Quota struct {
	Unit   string // of policy.Requests each request uses one
	Amount float64
	Span   time.Duration // in which the whole amount comes back
	Window bool          // at once, at the end of each span since the beginning; else steadily
}

// Tells is what answers say is left, as in headers.
type Tells uint8

// What they may say.
const (
	TellsLeft    Tells = iota // what is left, and when there is more
	TellsNothing              // nothing of it
	TellsNone                 // that nothing is left, whatever is
	TellsAll                  // that all is left, whatever is
)

// Use is what a call uses of a quota, and each of its attempts.
type Use struct {
	Unit   string
	Amount draw.Dist // a millisecond is one of the unit
	Says   float64   // what the caller says that it will be, as a multiple; 0 means that it says nothing
}

// account is what a caller has left, or all of them.
type account struct {
	left    [terms.MaxQuotas]float64
	at      clock.Instant // when that was right
	counted clock.Instant // until when what came back is counted
}

func (v *service) account(who [2]int) *account {
	if !v.Quotas.PerCaller {
		who = [2]int{}
	}
	if v.accounts == nil {
		v.accounts = map[[2]int]*account{}
	}
	acc := v.accounts[who]
	if acc == nil {
		acc = new(account)
		for i := range v.Quotas.List {
			acc.left[i] = v.Quotas.List[i].Amount
		}
		v.accounts[who] = acc
	}
	return acc
}

// count counts what came back until now, or could have.
func (acc *account) count(now clock.Instant, list []Quota, n *Work) {
	for i := range list {
		n.Back[i] += list[i].back(now.Sub(acc.counted))
	}
	acc.counted = now
}

// countBack counts it of all accounts, where a phase ends in which n was counted.
func (v *service) countBack(now clock.Instant) {
	byCaller := func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }
	for _, who := range slices.SortedFunc(maps.Keys(v.accounts), byCaller) { // sums of floats depend on the order
		v.accounts[who].count(now, v.Quotas.List, v.n)
	}
}

// back is what comes back in a time.
func (q *Quota) back(d time.Duration) float64 {
	return float64(q.Amount * (float64(d) / float64(q.Span)))
}

// bring brings an account to now.
func (acc *account) bring(now clock.Instant, list []Quota) {
	for i := range list {
		q := &list[i]
		switch {
		case !q.Window:
			acc.left[i] = min(q.Amount, acc.left[i]+q.back(now.Sub(acc.at)))
		case q.begun(now) > acc.at:
			acc.left[i] = q.Amount
		}
	}
	acc.at = now
}

// begun is when the window has begun that now is in.
func (q *Quota) begun(now clock.Instant) clock.Instant {
	return clock.Instant(time.Duration(now) / q.Span * q.Span)
}

// until is how long it takes until that much has come back.
func (q *Quota) until(now clock.Instant, lack float64) time.Duration {
	if q.Window {
		return q.begun(now).Add(q.Span).Sub(now)
	}
	return min(time.Duration(float64(lack/q.Amount)*float64(q.Span))+1, q.Span)
}

// charge takes what an attempt uses, and says what the answer tells of it.
func charge(s *sim, v *service, a *attempt) (ok bool, after time.Duration) {
	q := v.Quotas
	if q == nil {
		return true, 0
	}
	c, e := s.calls.at(a.call), &s.edges[a.edge]
	acc := v.account([2]int{e.caller, c.who})
	within := s.now <= s.end // calls that wait at the end go on, and others don't begin
	if within {
		acc.count(s.now, q.List, v.n)
	}
	acc.bring(s.now, q.List)
	var uses [terms.MaxQuotas]float64
	ok = true
	for i := range q.List {
		uses[i] = e.uses(s.seed, c.id, q.List[i].Unit)
		if lack := uses[i] - acc.left[i]; lack > q.List[i].Amount*1e-9 {
			ok, after = false, max(after, q.List[i].until(s.now, lack))
		}
	}
	if ok {
		for i := range q.List {
			acc.left[i] = max(acc.left[i]-uses[i], 0)
			if within {
				v.n.Taken[i] += uses[i]
			}
		}
	} else {
		v.n.OverQuota++
	}
	a.told = q.tell(s.now, acc)
	switch {
	case ok:
		return true, 0
	case q.Honest:
		return false, after
	}
	return false, q.After
}

// tell is what an answer says of an account.
func (q *Quotas) tell(now clock.Instant, acc *account) (told []policy.Remaining) {
	if q.Tells == TellsNothing {
		return nil
	}
	for i := range q.List {
		one := &q.List[i]
		left := acc.left[i]
		switch q.Tells {
		case TellsNone:
			left = 0
		case TellsAll:
			left = one.Amount
		}
		w := policy.Remaining{Unit: one.Unit, Left: left, Limit: one.Amount, Window: one.Span, Full: !one.Window}
		if lack := one.Amount - left; one.Window || lack > 0 {
			w.Reset = one.until(now, lack)
		}
		told = append(told, w)
	}
	return told
}

// uses is what each attempt of a call uses of that unit.
func (e *edge) uses(seed, call uint64, unit string) float64 {
	if unit == policy.Requests {
		return 1
	}
	for i := range e.Uses {
		if e.Uses[i].Unit == unit {
			return e.Uses[i].of(seed, call, i)
		}
	}
	return 0
}

// of is how much a call uses, which is the i-th use of its edge.
func (u *Use) of(seed, call uint64, i int) float64 {
	draws := draw.New(seed, forUses, call*31+uint64(i))
	return float64(u.Amount.Draw(&draws)) / float64(time.Millisecond)
}

// cost is what a caller says that a call will use.
func (e *edge) cost(seed, call uint64) (all *quota.Cost) {
	for i := range e.Uses {
		if u := &e.Uses[i]; u.Says > 0 {
			all = &quota.Cost{Unit: u.Unit, Amount: float64(u.of(seed, call, i) * u.Says), Next: all}
		}
	}
	return all
}

// hear gives what an answer says of quotas to those of its caller, as gabionhttp does.
func hear(s *sim, c *call, a *attempt, o *policy.Outcome) {
	e := &s.edges[a.edge]
	r := machine.Reserved(&c.machine, &a.ticket)
	if r != nil && o.Class == policy.ClassSuccess {
		for i := range e.Uses {
			r.Spent(s.now, e.Uses[i].Unit, e.Uses[i].of(s.seed, c.id, i))
		}
	}
	if e.Blunt || a.told == nil {
		return
	}
	if r != nil {
		r.Told(s.now, a.told)
	}
	switch {
	case o.Class == policy.ClassSuccess:
		o.After, o.HasAfter = quota.Emptied(a.told, e.rules.Policy.RateLimit.Quotas)
		o.Empty = o.HasAfter
	case o.Class == policy.ClassThrottled && !o.HasAfter:
		o.After, o.HasAfter = quota.Emptied(a.told, nil)
	}
}
