package breaker

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// naive is a breaker that keeps every outcome there was and works all out anew
// at each step, in whole numbers. It shares the rules' data with the real one,
// the table of moves and nothing else.
type naive struct {
	r      *Rules
	state  State
	gen    int
	epoch  int           // of the counts
	run    int           // of the failures in a run
	past   int           // the longest run that ended, while most fail
	ended  clock.Instant // the last of them
	newest int64         // bucket

	history []outcome
	final   []ofRun // of the outcomes that are final, in their order
	permits []*pass
	log     []Change

	until   clock.Instant
	opens   int
	refused int64
	turned  int // refused since the last probe
	enough  int // of these let one go
	crossed Causes
	held    int
	home    State
	till    clock.Instant
}

type outcome struct {
	gen, epoch   int
	probe        bool
	bucket       int64
	failed, slow bool
}

type ofRun struct {
	run    int
	failed bool
	start  clock.Instant
	at     clock.Instant // when it was heard
}

type pass struct {
	gen     int
	start   clock.Instant
	watched bool // it has a trackedCall
	home    bool
	open    int           // the number of its success, if its result lives on
	alive   bool          // a probe whose result lives on and is not counted yet
	since   clock.Instant // from when it may live on
	slow    bool
	real    Permit
	receipt Receipt
}

func (n *naive) bucket(now clock.Instant) int64 {
	width := (int64(n.r.Window) + 9) / 10
	b := int64(now) / width
	if int64(now)%width < 0 {
		b--
	}
	return b
}

func (n *naive) ageing() bool { return n.r.InFlight && n.r.SlowCall > 0 }

func tally(os []outcome) (c window.Counts) {
	for _, o := range os {
		c.Calls++
		if o.failed {
			c.Failures++
		}
		if o.slow {
			c.Slow++
		}
	}
	return c
}

func (n *naive) filter(keep func(outcome) bool) (os []outcome) {
	for _, o := range n.history {
		if keep(o) {
			os = append(os, o)
		}
	}
	return os
}

func (n *naive) counts(now clock.Instant) window.Counts {
	if n.state == HalfOpen {
		return tally(n.filter(func(o outcome) bool { return o.probe && o.gen == n.gen }))
	}
	all := n.filter(func(o outcome) bool { return !o.probe && o.epoch == n.epoch })
	if k := n.r.WindowCalls; k > 0 {
		return tally(all[max(len(all)-k, 0):])
	}
	return n.inWindow(now)
}

// inWindow are the outcomes in the window of time, if there is one.
func (n *naive) inWindow(now clock.Instant) window.Counts {
	if n.r.WindowCalls > 0 {
		return window.Counts{}
	}
	n.newest = max(n.newest, n.bucket(now))
	return tally(n.filter(func(o outcome) bool { return !o.probe && o.epoch == n.epoch && o.bucket > n.newest-10 }))
}

func (n *naive) runNow() (k int, since clock.Instant) {
	run := n.runLength()
	if len(run) > 0 {
		since = run[0].start
	}
	return len(run), since
}

// runLength returns the failures that no success followed.
func (n *naive) runLength() (run []ofRun) {
	for _, r := range n.final {
		if run = append(run, r); !r.failed || r.run != n.run {
			run = nil
		}
	}
	return run
}

func (n *naive) countsRun() bool { return n.r.CountRun || n.r.Consecutive > 0 }

// hear adds an outcome that is final to the run, and keeps how long runs were. What is counted is
// in the window already.
func (n *naive) hear(r ofRun) {
	if !counts(n.state) {
		return
	}
	was := len(n.runLength())
	n.final = append(n.final, r)
	switch {
	case !n.countsRun() || r.run != n.run:
	case !r.failed:
		if n.keep(was); was > 0 {
			n.ended = r.at
		}
	case was == 0 && n.past > 0 && time.Duration(r.at-n.ended) > n.r.Window:
		n.past = 0
	case was == 0 && n.past > 0: // only then the window is looked at, which moves it
		if c := n.inWindow(r.at); c.Calls-c.Failures > c.Failures {
			n.past = 0
		}
	}
}

// keep keeps the length of a run that ended, if a run as long would make the rule wait for more.
func (n *naive) keep(run int) {
	if n.r.ConsecutiveFor > 0 && n.r.WindowCalls == 0 && 3*run > n.r.Consecutive {
		n.past = max(n.past, run)
	}
}

// shown is what Row says.
func (n *naive) shown() (k uint32, lasts bool) {
	if !counts(n.state) || !n.countsRun() {
		return 0, false
	}
	run := n.runLength()
	for i, r := range run {
		lasts = lasts || r.start-run[0].start > max(r.at-r.start, 0) && i > 0
	}
	return uint32(len(run)), lasts
}

func percent(r float64) int64 { return int64(r*100 + 0.5) }

func (n *naive) rates(c window.Counts) (over Causes) {
	if p := percent(n.r.FailureRate); p > 0 && c.Failures*100 >= p*c.Calls {
		over |= only(FailureRate)
	}
	if p := percent(n.r.SlowRate); p > 0 && n.r.SlowCall > 0 && c.Slow*100 >= p*c.Calls {
		over |= only(SlowRate)
	}
	return over
}

func (n *naive) least() int64 {
	least := int64(max(n.r.MinCalls, 1))
	if n.r.WindowCalls > 0 {
		least = min(least, int64(n.r.WindowCalls))
	}
	return least
}

func (n *naive) exceeded(now clock.Instant, c window.Counts) (over Causes) {
	if c.Calls >= n.least() {
		over = n.rates(c)
	}
	if n.r.Failures > 0 && c.Failures >= int64(n.r.Failures) {
		over |= only(Failures)
	}
	run, since := n.runNow()
	long := n.r.ConsecutiveFor <= 0 || time.Duration(now-since) >= n.r.ConsecutiveFor
	if n.r.Consecutive > 0 && run >= n.outage(n.past) && long {
		over |= only(Consecutive)
	}
	return over
}

// outage is how many failures in a row are no chance after a run of past.
func (n *naive) outage(past int) int {
	enough := n.r.Consecutive
	for n.r.ConsecutiveFor > 0 && n.r.WindowCalls == 0 && enough < 3*past && enough < 4*n.r.Consecutive {
		enough++
	}
	return enough
}

// inRow is outage for a change that has these causes.
func (n *naive) inRow(over Causes) int {
	if !over.Has(Consecutive) {
		return 0
	}
	return n.outage(n.past)
}

// row is how many failed in a row, and how many open it.
func (n *naive) row(now clock.Instant) (run, enough int) {
	if !counts(n.state) || n.r.Consecutive == 0 {
		return 0, 0
	}
	run, past := len(n.runLength()), n.past
	if c := n.inWindow(now); run == 0 && (time.Duration(now-n.ended) > n.r.Window || c.Calls-c.Failures > c.Failures) {
		past = 0
	}
	return run, n.outage(past)
}

func (n *naive) dues(now clock.Instant, age time.Duration) (ds []clock.Instant) {
	for _, p := range n.permits {
		if p.gen == n.gen && p.watched && !p.home && p.start.Add(age) <= now {
			ds = append(ds, p.start.Add(age))
		}
	}
	slices.Sort(ds)
	return ds
}

func (n *naive) judge(now clock.Instant, after time.Duration) {
	c, due := n.counts(now), now
	over := n.exceeded(now, c)
	if over == 0 && n.ageing() {
		for _, d := range n.dues(now, n.r.SlowCall) {
			c.Calls, c.Slow = c.Calls+1, c.Slow+1
			if over = n.exceeded(now, c); over != 0 {
				due = d
				break
			}
		}
	}
	if n.state == ObserveOnly {
		fresh := over &^ n.crossed
		n.crossed = over
		if fresh != 0 {
			n.log = append(n.log, Change{From: ObserveOnly, To: ObserveOnly, Cause: fresh.first(), Exceeded: fresh, Counts: c, InRow: n.inRow(fresh), At: now, Due: due})
		}
		return
	}
	if over != 0 {
		n.open(Change{Cause: over.first(), Exceeded: over, Counts: c, InRow: n.inRow(over), At: now, Due: due}, after)
	}
}

func (n *naive) open(c Change, after time.Duration) {
	d := n.r.Open
	for range n.opens {
		if n.r.OpenGrowth == 2 && d < 1<<40 {
			d *= 2
		}
	}
	d = max(d, after)
	if n.r.OpenMax > 0 {
		d = min(d, n.r.OpenMax)
	}
	c.Until = c.Due.Add(d)
	n.move(Open, c)
}

func (n *naive) move(to State, c Change) bool {
	if !moves[n.state][to].Has(c.Cause) {
		return false
	}
	c.From, c.To = n.state, to
	n.gen++
	n.state, n.turned = to, 0
	if to != Open {
		n.epoch++
		if n.countsRun() {
			n.keep(len(n.runLength()))
		}
		n.run, n.ended = n.run+1, c.At
		n.refused, n.crossed, n.newest = 0, 0, n.bucket(c.At)
	}
	if c.Cause == WasReset {
		n.past = 0
	}
	switch to {
	case Open:
		n.opens++
	case HalfOpen, ForcedOpen:
	default:
		n.opens = 0
	}
	switch {
	case to == HalfOpen:
		n.enough = min(n.r.OpenCalls, n.opens+2)
	case refuses(to):
		n.until, n.enough = c.Until, min(n.r.OpenCalls, n.opens+2)
		if c.Cause == Forced {
			n.enough = 0
		}
	case to == Disabled || to == ObserveOnly:
		n.until = c.Until
	}
	c.Opens = n.opens
	n.log = append(n.log, c)
	return true
}

func (n *naive) out() (k int, oldest clock.Instant) {
	oldest = clock.Never
	for _, p := range n.permits {
		if p.gen == n.gen && p.watched && (!p.home || p.alive) {
			k++
			oldest = min(oldest, p.from())
		}
	}
	return k, oldest
}

// from is when a call went out, or, with an answer, when that came.
func (p *pass) from() clock.Instant {
	if p.alive {
		return p.since
	}
	return p.start
}

func (n *naive) need() int {
	switch {
	case n.r.CloseAfter > 0:
		return n.r.CloseAfter + max(n.r.ReopenAfter, 1) - 1
	case n.r.ProbeCalls > 0:
		return n.r.ProbeCalls
	}
	return max(n.r.Probes, 1)
}

func (n *naive) room(now clock.Instant) bool {
	out, _ := n.out()
	return out < max(n.r.Probes, 1) && out+int(n.counts(now).Calls) < max(n.r.Probes, 1, n.need())
}

func (n *naive) expire(now clock.Instant) {
	for n.state == HalfOpen && n.expireOne(now) {
	}
}

func (n *naive) expireOne(now clock.Instant) bool {
	out, oldest := n.out()
	if out == 0 || n.r.ProbeTimeout <= 0 || oldest.Add(n.r.ProbeTimeout) > now {
		return false
	}
	for _, slow := range []bool{false, true} { // of those that are due at once, answered ones come first
		for _, p := range n.permits {
			if p.gen == n.gen && p.alive && p.slow == slow && p.since == oldest {
				n.count(now, oldest.Add(n.r.ProbeTimeout), p, false)
				return true
			}
		}
	}
	c := Change{Cause: ProbeExpired, Counts: n.counts(now), At: now, Due: oldest.Add(n.r.ProbeTimeout)}
	if n.r.ExpiryCloses {
		n.move(Closed, c)
	} else {
		n.open(c, 0)
	}
	return true
}

// count counts a probe whose result lived on.
func (n *naive) count(now, due clock.Instant, p *pass, failed bool) {
	p.alive = false
	n.record(now, true, failed, p.slow)
	p.open = len(n.history)
	n.decide(now, due, 0)
}

func (n *naive) lapse(now clock.Instant) {
	if (n.state == Disabled || n.state == ObserveOnly) && now >= n.until {
		to := Closed
		if n.r.Observe {
			to = ObserveOnly
		}
		n.move(to, Change{Cause: OverrideOver, Counts: n.counts(now), At: now, Due: n.until, Until: clock.Never})
	}
}

func (n *naive) due(now clock.Instant) {
	n.lapse(now)
	if n.state == HalfOpen && !n.room(now) {
		n.expire(now)
	}
	if counts(n.state) && n.ageing() && len(n.dues(now, n.r.SlowCall)) > 0 {
		n.judge(now, 0)
	}
}

func (n *naive) acquire(now clock.Instant) (*pass, bool) {
	if n.state == HalfOpen || counts(n.state) && n.ageing() {
		n.due(now)
	}
	n.lapse(now)
	if n.state == Open && n.enough > 0 && now < n.until {
		if n.turned++; n.turned >= n.enough {
			n.move(HalfOpen, Change{Cause: CallsRefused, At: now, Due: now})
		}
	}
	if refuses(n.state) && now >= n.until {
		n.move(HalfOpen, Change{Cause: CooldownOver, At: now, Due: n.until})
	}
	if refuses(n.state) || n.state == HalfOpen && (!n.room(now) || !n.mayProbe()) {
		n.refused++
		return nil, false
	}
	if n.state == HalfOpen {
		n.turned = 0
	}
	p := &pass{gen: n.gen, start: now, watched: n.state == HalfOpen || counts(n.state) && n.ageing()}
	n.permits = append(n.permits, p)
	return p, true
}

// mayProbe counts a call in half-open, and says whether enough were refused.
func (n *naive) mayProbe() bool {
	if out, _ := n.out(); out == 0 || n.r.OpenCalls == 0 {
		return true
	}
	n.turned++
	return n.turned >= n.enough
}

func (n *naive) settle(now clock.Instant, p *pass, v Result, after time.Duration, open bool) {
	again := p.home
	p.home = true
	if again || p.gen != n.gen || v == Neutral || n.state == Disabled {
		return
	}
	slow := n.r.SlowCall > 0 && now-p.start > clock.Instant(n.r.SlowCall)
	if n.state == HalfOpen && open && v == Good {
		p.alive, p.since, p.slow = true, now, slow
		return
	}
	n.record(now, n.state == HalfOpen, v == Bad, slow)
	if open && v == Good {
		p.open = len(n.history)
	} else {
		n.hear(ofRun{n.run, v == Bad, p.start, now})
	}
	if n.state == HalfOpen {
		n.decide(now, now, after)
	} else {
		n.judge(now, after)
	}
}

func (n *naive) whole(now clock.Instant, p *pass) {
	if p.gen == n.gen && p.alive {
		n.count(now, now, p, false)
	} else if p.gen == n.gen && counts(n.state) {
		n.hear(ofRun{n.run, false, p.start, now})
	}
}

func (n *naive) fail(now clock.Instant, p *pass) {
	var was *outcome
	if p.open > 0 {
		was = &n.history[p.open-1]
	}
	switch {
	case p.gen != n.gen:
		return
	case p.alive:
		n.count(now, now, p, true)
		return
	case n.state == HalfOpen && was != nil:
		was.failed = true
		n.decide(now, now, 0)
		return
	case !counts(n.state):
		return
	}
	n.turn(now, was)
	n.hear(ofRun{n.run, true, p.start, now})
	n.judge(now, 0)
}

// turn makes a success a failure: of now in a time window, where it was in a count
// window, and one by itself where the window has forgotten it.
func (n *naive) turn(now clock.Instant, was *outcome) {
	if was == nil || was.epoch != n.epoch {
		n.record(now, false, true, false)
		return
	}
	if k := n.r.WindowCalls; k > 0 {
		if n.after(was) < k {
			was.failed = true
		} else {
			n.record(now, false, true, false)
		}
		return
	}
	n.newest = max(n.newest, n.bucket(now))
	slow := was.slow
	if was.bucket <= n.newest-10 {
		slow = false
	} else {
		was.epoch = -1
	}
	n.record(now, false, true, slow)
}

// after returns how many outcomes of the window came later.
func (n *naive) after(was *outcome) (k int) {
	for i := len(n.history) - 1; &n.history[i] != was; i-- {
		if o := n.history[i]; !o.probe && o.epoch == n.epoch {
			k++
		}
	}
	return k
}

func (n *naive) record(now clock.Instant, probe, failed, slow bool) {
	if !probe && n.r.WindowCalls <= 0 {
		n.newest = max(n.newest, n.bucket(now))
	}
	n.history = append(n.history, outcome{n.gen, n.epoch, probe, n.newest, failed, slow})
}

func (n *naive) decide(now, due clock.Instant, after time.Duration) {
	all := n.filter(func(o outcome) bool { return o.probe && o.gen == n.gen })
	c, bad := tally(all), 0
	for _, o := range all {
		if o.failed || o.slow {
			bad++
		}
	}
	var over Causes
	reopen, done := false, false
	if n.r.CloseAfter > 0 {
		reopen = bad >= max(n.r.ReopenAfter, 1)
		done = reopen || len(all)-bad >= n.r.CloseAfter
	} else if done = len(all) >= n.need(); done {
		over = n.rates(c)
		strict := n.r.FailureRate == 0 && (n.r.Failures > 0 || n.r.Consecutive > 0)
		reopen = over != 0 || strict && c.Failures > 0
	}
	switch change := (Change{Cause: ProbesPassed, Exceeded: over, Counts: c, At: now, Due: due}); {
	case reopen:
		change.Cause = ProbeFailed
		n.open(change, after)
	case done:
		n.move(Closed, change)
	}
}

func (n *naive) byHand(now clock.Instant, who string, to State, until clock.Instant) bool {
	n.lapse(now)
	if n.held > 0 && to == HalfOpen {
		return false
	}
	if n.held > 0 && to != Closed {
		n.home, n.till = to, until
		return true
	}
	counts := n.counts(now) // also where nothing moves: the time was seen
	if (to == Disabled || to == ObserveOnly) && n.state == to && n.until == until {
		return false
	}
	c := Forced
	if to == Closed {
		c = WasReset
	}
	ok := n.move(to, Change{Cause: c, Who: who, Counts: counts, At: now, Due: now, Until: until})
	if ok {
		n.held = 0
	}
	return ok
}

func (n *naive) trip(now clock.Instant) {
	n.lapse(now)
	if n.state == Open {
		n.enough = 0
	}
	if !refuses(n.state) {
		n.open(Change{Cause: Forced, Counts: n.counts(now), At: now, Due: now}, 0)
	}
}

func (n *naive) isolate(now clock.Instant) {
	n.lapse(now)
	if n.held == 0 {
		n.home, n.till = Closed, 0
		if n.state == Disabled || n.state == ObserveOnly || n.state == ForcedOpen {
			n.home, n.till = n.state, n.until
		}
		n.move(ForcedOpen, Change{Cause: Isolated, Counts: n.counts(now), At: now, Due: now, Until: clock.Never})
	}
	n.held++
}

func (n *naive) release(now clock.Instant) {
	if n.held--; n.held == 0 {
		n.move(n.home, Change{Cause: Released, At: now, Due: now, Until: n.till})
	}
}

func (n *naive) setRules(now clock.Instant, r *Rules) {
	kept, old := n.countsRun(), n.r
	n.r = r
	switch until := clock.Instant(clock.Never); {
	case n.held == 0 || old.Observe == r.Observe:
	case r.Observe && n.home == Closed:
		n.home, n.till = ObserveOnly, until
	case old.Observe && n.home == ObserveOnly && n.till == until:
		n.home, n.till = Closed, 0
	}
	if !kept || !n.countsRun() {
		n.run, n.past = n.run+1, 0
	}
	if old.Window != r.Window || max(old.WindowCalls, 0) != max(r.WindowCalls, 0) {
		n.epoch++
		n.newest = n.bucket(now)
	}
	if n.state == HalfOpen {
		n.decide(now, now, 0)
	}
}
