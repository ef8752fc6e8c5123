package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Conns are the connections over which each instance of a caller calls a service, one attempt over
// one of them at a time. An attempt takes the one that was used last, or opens one, or waits for its
// turn. One over which an answer came is used again. One whose attempt was cut off, or that broke, is
// closed.
type Conns struct {
	Size int           // how many an instance may have
	Wait time.Duration // how long an attempt may wait for one; 0 means as long as it may take
	Open draw.Dist     // how long it takes to open one
	Idle time.Duration // how long one is kept that is not used; 0 means for ever
	Life time.Duration // how long one is used; 0 means for ever
}

// conns are those of an instance.
type conns struct {
	sim  *sim
	edge *edge
	open int      // and being opened
	idle []conn   // by their last use
	line []inLine // who waits; some have given up
}

type conn struct{ born, used clock.Instant }

type inLine struct{ who, gen uint32 }

// hold is what an attempt has of a connection.
type hold struct {
	stage connStage
	keeps bool          // an answer came over it
	born  clock.Instant // when it was open
}

type connStage uint8

const (
	noConn connStage = iota
	connWaits
	connOpens
	connHeld
)

// connsOf returns the connections of an instance; nil where any number is there and costs nothing.
func (e *edge) connsOf(s *sim, instance int) *conns {
	if e.Conns == nil {
		return nil
	}
	if e.conns == nil {
		e.conns = make([]conns, len(e.states))
	}
	p := &e.conns[instance]
	p.sim, p.edge = s, e
	return p
}

// connect finds a connection for an attempt, or lets it wait for one.
func (p *conns) connect(a *attempt) {
	s, of := p.sim, p.edge.Conns
	p.prune()
	switch {
	case len(p.idle) > 0:
		p.reuse(a)
	case p.open < of.Size:
		p.begin(a)
	default:
		a.conn.stage, a.there = connWaits, false
		p.line = append(p.line, inLine{a.self, a.gen})
		s.arm(a)
		if of.Wait > 0 {
			s.at(s.now.Add(of.Wait), evTurn, a.self, a.gen)
		}
	}
}

// reuse sends an attempt over the connection that was used last.
func (p *conns) reuse(a *attempt) {
	last := len(p.idle) - 1
	a.conn.stage, a.conn.born, a.there = connHeld, p.idle[last].born, true
	p.idle = p.idle[:last]
	a.depart(p.sim)
}

// begin opens a connection for an attempt.
func (p *conns) begin(a *attempt) {
	p.open++
	p.edge.n.Opened++
	a.conn.stage, a.there = connOpens, false
	p.sim.next(a, p.sim.now.Add(p.edge.Conns.Open.Draw(&a.draws)), evOpened)
}

// opened is an attempt whose connection is there.
func (p *conns) opened(a *attempt) {
	a.conn.stage, a.conn.born, a.there = connHeld, p.sim.now, true
	a.depart(p.sim)
}

// noTurn is an attempt that may wait no longer for its connection.
func (p *conns) noTurn(a *attempt) {
	if a.conn.stage != connWaits {
		return
	}
	p.edge.n.Unconnected++
	a.answer = refused // what drivers make of it: nothing was sent
	p.sim.home(a)
}

// waited counts how long an attempt waited for its connection.
func (p *conns) waited(a *attempt) { p.edge.n.Waited += p.sim.now.Sub(a.sent) }

// parted ends what an attempt has of a connection, which is kept if an answer came over it.
func (p *conns) parted(a *attempt) {
	had := a.conn.stage
	a.conn.stage = noConn
	switch {
	case had == noConn:
	case had == connWaits: // it is no longer there when it would be its turn
		p.waited(a)
	case a.conn.keeps:
		p.idle = append(p.idle, conn{a.conn.born, p.sim.now})
	default:
		p.open--
	}
}

// lend gives connections to those who wait for one.
func (p *conns) lend() {
	p.prune()
	for len(p.line) > 0 && (len(p.idle) > 0 || p.open < p.edge.Conns.Size) {
		next := p.sim.attempts.get(p.line[0].who, p.line[0].gen)
		p.line = p.line[1:]
		if next == nil {
			continue // it has given up
		}
		p.waited(next)
		if len(p.idle) > 0 {
			p.reuse(next)
		} else {
			p.begin(next)
		}
	}
}

// prune closes what was not used for too long, or has been open for too long.
func (p *conns) prune() {
	of, now := p.edge.Conns, p.sim.now
	kept := p.idle[:0]
	for _, c := range p.idle {
		if of.Idle > 0 && now.Sub(c.used) >= of.Idle || of.Life > 0 && now.Sub(c.born) >= of.Life {
			p.open--
			continue
		}
		kept = append(kept, c)
	}
	p.idle = kept
}

// hangUp closes what is not in use.
func (p *conns) hangUp() {
	p.open -= len(p.idle)
	p.idle = nil
}
