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
	open int      // and being opened
	idle []conn   // by their last use
	line []inLine // who waits; some have given up
}

type conn struct{ born, used clock.Instant }

type inLine struct{ who, gen uint32 }

// hold is what an attempt has of a connection.
type hold uint8

const (
	noConn hold = iota
	connWaits
	connOpens
	connHeld
)

// connsOf returns the connections of an instance; nil where any number is there and costs nothing.
func (s *sim) connsOf(i, instance int) *conns {
	e := &s.edges[i]
	if e.Conns == nil {
		return nil
	}
	if e.conns == nil {
		e.conns = make([]conns, len(e.states))
	}
	return &e.conns[instance]
}

// connect finds a connection for an attempt, or lets it wait for one.
func (s *sim) connect(c *call, a *attempt) {
	e, p := &s.edges[a.edge], c.conns
	p.prune(e.Conns, s.now)
	switch {
	case len(p.idle) > 0:
		s.reuse(p, a)
	case p.open < e.Conns.Size:
		p.open++
		s.open(a)
	default:
		a.conn, a.there = connWaits, false
		p.line = append(p.line, inLine{a.self, a.gen})
		s.arm(a)
		if e.Conns.Wait > 0 {
			s.at(s.now.Add(e.Conns.Wait), evTurn, a.self, a.gen)
		}
	}
}

// reuse sends an attempt over the connection that was used last.
func (s *sim) reuse(p *conns, a *attempt) {
	last := len(p.idle) - 1
	a.conn, a.born, a.there = connHeld, p.idle[last].born, true
	p.idle = p.idle[:last]
	s.depart(a)
}

// open opens a connection for an attempt.
func (s *sim) open(a *attempt) {
	e := &s.edges[a.edge]
	e.n.Opened++
	a.conn, a.there = connOpens, false
	s.next(a, s.now.Add(e.Conns.Open.Draw(&a.draws)), evOpened)
}

// opened is an attempt whose connection is there.
func (s *sim) opened(a *attempt) {
	a.conn, a.born, a.there = connHeld, s.now, true
	s.depart(a)
}

// noTurn is an attempt that may wait no longer for its connection.
func (s *sim) noTurn(a *attempt) {
	if a.conn != connWaits {
		return
	}
	s.edges[a.edge].n.Unconnected++
	a.answer = refused // what drivers make of it: nothing was sent
	s.home(a)
}

// waited counts how long an attempt waited for its connection.
func (s *sim) waited(a *attempt) { s.edges[a.edge].n.Waited += s.now.Sub(a.sent) }

// parted ends what an attempt has of a connection, which is kept if an answer came over it.
func (s *sim) parted(c *call, a *attempt) {
	had := a.conn
	a.conn = noConn
	switch p := c.conns; {
	case had == noConn:
	case had == connWaits: // it is no longer there when it would be its turn
		s.waited(a)
	case a.keeps:
		p.idle = append(p.idle, conn{a.born, s.now})
	default:
		p.open--
	}
}

// lend gives connections to those who wait for one.
func (s *sim) lend(p *conns, edge int) {
	of := s.edges[edge].Conns
	p.prune(of, s.now)
	for len(p.line) > 0 && (len(p.idle) > 0 || p.open < of.Size) {
		next := s.attempts.get(p.line[0].who, p.line[0].gen)
		p.line = p.line[1:]
		if next == nil {
			continue // it has given up
		}
		s.waited(next)
		if len(p.idle) > 0 {
			s.reuse(p, next)
		} else {
			p.open++
			s.open(next)
		}
	}
}

// prune closes what was not used for too long, or has been open for too long.
func (p *conns) prune(of *Conns, now clock.Instant) {
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
