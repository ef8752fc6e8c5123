package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// audit checks what must be true of every run: that nothing was lost or made up,
// and Little's law, by which the area under the requests under way is the sum of
// the times that they stayed.
func (s *sim) audit(all *Phase) []string {
	a := auditor{sim: s, all: all}
	a.jobs()
	a.edges()
	a.services()
	a.slots()
	for i := range s.fleets {
		if b := s.fleets[i].broker; b != nil {
			a.messages(b)
		}
	}
	return a.broken
}

type auditor struct {
	*sim
	all    *Phase
	broken []string
}

func (a *auditor) say(format string, args ...any) {
	a.broken = append(a.broken, fmt.Sprintf(format, args...))
}

func (a *auditor) jobs() {
	var live, stay int64
	a.sim.jobs.each(func(j *job) {
		if j.fleet >= 0 {
			live++
			stay += int64(a.now.Sub(j.began))
		}
	})
	r := &a.rec
	if r.begun != r.ended+live || r.under != live {
		a.say("clients began %d and ended %d, with %d under way and %d counted", r.begun, r.ended, live, r.under)
	}
	if sum := r.stay + float64(stay); math.Abs(r.area-sum) > 1e-6*max(sum, 1) {
		a.say("Little: an area of %.6g, and stays of %.6g", r.area, sum)
	}
}

func (a *auditor) edges() {
	under := make([]int64, len(a.sim.edges))
	a.calls.each(func(c *call) {
		if !c.over {
			under[c.edge]++
		}
	})
	for i := range a.all.Edges {
		n := &a.all.Edges[i]
		ended, tries := int64(0), int64(0)
		for _, k := range n.Ended {
			ended += k
		}
		for _, k := range n.ByTry {
			tries += k
		}
		if n.Calls != ended+under[i] {
			a.say("edge %d: %d calls, %d ended, %d under way", i, n.Calls, ended, under[i])
		}
		if tries != n.Attempts {
			a.say("edge %d: %d attempts, %d by try", i, n.Attempts, tries)
		}
		if n.Good != n.Ended[policy.None] {
			a.say("edge %d: %d good calls, %d without a reason to fail", i, n.Good, n.Ended[policy.None])
		}
	}
}

// there is who is where at a service.
type there struct {
	outward, waiting, working int64
	span                      time.Duration // how long the ones being worked on have been
}

func (a *auditor) services() {
	now := make([]there, len(a.sim.services))
	a.attempts.each(func(at *attempt) {
		w := &now[at.service]
		switch {
		case !at.there:
		case at.stage == outward:
			w.outward++
		case at.stage == waiting:
			w.waiting++
		case at.stage == working:
			w.working++
			w.span += a.now.Sub(at.started)
		}
	})
	sent := make([]int64, len(now))
	for i := range a.sim.edges {
		e := &a.sim.edges[i]
		sent[e.To] += a.all.Edges[i].Attempts - a.all.Edges[i].Astray
		if e.caller >= 0 && a.fleets[e.caller].Calls != nil {
			sent[e.To] -= a.all.Edges[i].Attempts // played from a recording
		}
	}
	for i := range now {
		a.service(i, sent[i]+a.sim.moved[i], &now[i])
	}
}

func (a *auditor) service(i int, sent int64, at *there) {
	v, n := &a.sim.services[i], &a.all.Services[i]
	if sent != n.Received+at.outward {
		a.say("service %d: %d were sent, %d arrived, %d are on their way", i, sent, n.Received, at.outward)
	}
	over := n.Refused + n.Silent + n.Dropped + n.Expired + n.Lost + n.Failed + n.Effects + n.Replays
	if n.Received != over+at.waiting+at.working {
		a.say("service %d: %d arrived, %d are done with, %d wait, %d are being worked on", i, n.Received, over, at.waiting, at.working)
	}
	busy, queued := int64(0), int64(0)
	for k := range v.replicas {
		r := &v.replicas[k]
		busy += int64(r.busy)
		queued += int64(r.queued())
		if v.Workers > 0 && r.busy > a.world.most(i) || queuedAt(r.pool) > v.Queue || v.Workers > 0 && queuedAt(r.pool) > 0 && r.busy < v.crew() {
			a.say("service %d: replica %d works on %d and lets %d wait", i, k, r.busy, queuedAt(r.pool))
		}
		if f := r.front.Gate; f != nil {
			if st, _ := f.Stats(); st.InUse != r.busy+queuedAt(r.pool) || st.Queued > 0 && st.InUse < st.Limit && v.Admission.TenantShare == 0 {
				a.say("service %d: replica %d works on %d, lets %d wait, and says %+v", i, k, r.busy, queuedAt(r.pool), st)
			}
		}
	}
	if busy != at.working || queued != at.waiting || int64(v.under) != busy {
		a.say("service %d: replicas work on %d (%d) and let %d wait, of %d and %d there", i, busy, v.under, queued, at.working, at.waiting)
	}
	v.move(a.now, &v.replicas[0], 0)
	if v.worked != n.Useful+n.Wasted+at.span {
		a.say("service %d: worked %v: %v useful, %v wasted, %v not done", i, v.worked, n.Useful, n.Wasted, at.span)
	}
}

// most is how many there ever are to work at a replica.
func (w *World) most(service int) int {
	n := w.Services[service].Workers
	for i := range w.Faults {
		if f := &w.Faults[i]; f.Kind == Crew && f.Service == service && f.Factor > 1 {
			n = int(float64(float64(n)*f.Factor) + 1)
		}
	}
	return n
}

// slots looks for what an edge at rest still holds.
func (a *auditor) slots() {
	if a.live() {
		return
	}
	for i := range a.sim.edges {
		e := &a.sim.edges[i]
		for k := range e.conns {
			if p := &e.conns[k]; p.open != len(p.idle) {
				a.say("edge %d: instance %d has %d connections and %d of them idle, at rest", i, k, p.open, len(p.idle))
			}
		}
		for k, st := range e.states {
			if st == nil || e.rules.Policy.Bulkhead.Off {
				continue
			}
			if b := st.Stats(a.now).Bulkhead; b.InUse != 0 || b.Queued != 0 {
				a.say("edge %d: %d slots of instance %d are held and %d calls queue, at rest", i, b.InUse, k, b.Queued)
			}
		}
	}
}

// live reports whether any call is under way.
func (a *auditor) live() bool {
	under := false
	a.calls.each(func(c *call) { under = under || !c.over })
	return under
}

// messages looks for messages that are nowhere, and for what consumers hold and don't know.
func (a *auditor) messages(b *broker) {
	live, out, runs := 0, 0, int64(0)
	a.sim.messages.each(func(at **message) {
		m := *at
		if m.fleet != b.fleet {
			return
		}
		live++
		if b.holds(m.spot) {
			out++
		}
		if m.over || m.spot == nowhere || m.spot == isReady && !slices.Contains(b.lines[m.line].ready, m) {
			a.say("queue %d: message %d is nowhere", b.fleet, m.seq)
		}
		if d := a.deliveries.get(m.current, m.cgen); m.spot == isOut && (d == nil || d.message != m || d.lapsed) {
			a.say("queue %d: message %d is out, and no consumer has it", b.fleet, m.seq)
		}
	})
	for i := range b.lines {
		out -= b.lines[i].out
	}
	a.deliveries.each(func(d *delivery) {
		if d.fleet == b.fleet && d.running {
			runs++
		}
	})
	n := &a.all.Messages[b.fleet]
	if over := int64(b.seq) - int64(live); out != 0 || over < n.DeadLetters() || n.Runs != n.Useful+n.Wasted+runs {
		a.say("queue %d: %d messages of %d are over, %d are dead letters, %+v", b.fleet, over, b.seq, n.DeadLetters(), n)
	}
	a.consumers(b)
}

// consumers compares what consumers say that they have with what was delivered to them.
func (a *auditor) consumers(b *broker) {
	taken := make([]int, len(b.consumers))
	a.deliveries.each(func(d *delivery) {
		if d.fleet == b.fleet && !d.lost {
			taken[d.who]++
		}
	})
	for who, n := range taken {
		if c := &b.consumers[who]; c.taken != n || b.Rules == nil && c.working+len(c.held) != n {
			a.say("queue %d: consumer %d has %d messages, says %d, works on %d and holds %d", b.fleet, who, n, c.taken, c.working, len(c.held))
		}
		st := b.states[who]
		if st == nil || st.Rules().Policy.Bulkhead.Off {
			continue
		}
		if k := st.Stats(a.now).Bulkhead; k.InUse+k.Queued > n {
			a.say("queue %d: consumer %d has %d messages, %d slots are held and %d calls queue", b.fleet, who, n, k.InUse, k.Queued)
		}
	}
}
