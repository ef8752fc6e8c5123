package sim

import (
	"time"

	leases "github.com/gabion-go/gabion/internal/fleet"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// reported is what a client reports: what it wants, and which of its breakers are open.
type reported struct {
	*leases.Report
	at   time.Time // of the store
	open []bool    // by part
}

// known is what clients know of each other's breakers.
type known struct {
	at      time.Time
	members int
	open    []int // by part: how many find it broken
}

// What follows is as in package fleet: how old a report may be whose breakers are evidence, and the least witnesses.
const (
	fresh          = 10 * time.Second
	leastWitnesses = 2
	oneIn          = 10
)

func (k *known) witnesses() int { return max(leastWitnesses, k.members/oneIn) }

// open says which breakers of a client are open or half open.
func (m *sharer) open(now clock.Instant) []bool {
	open := make([]bool, len(m.parts))
	for k := range m.parts {
		p := &m.parts[k]
		if b := p.state.Breaker(""); b != nil {
			st := b.Snapshot(now).State
			if open[k] = st == policy.StateOpen || st == policy.StateHalfOpen; open[k] {
				p.opened = now
			}
		}
	}
	return open
}

// gather puts together what the reports say.
func gather(reports []reported, now time.Time) *known {
	k := &known{at: now}
	for i := range reports {
		r := &reports[i]
		if r.Leaves || now.Sub(r.at) > fresh {
			continue
		}
		k.members++
		for part, open := range r.open {
			for len(k.open) <= part {
				k.open = append(k.open, 0)
			}
			if open {
				k.open[part]++
			}
		}
	}
	return k
}

// learn makes a client's breakers doubt what others find broken.
func (m *sharer) learn(s *sim) {
	k := m.read.known
	if k == nil || m.read.now.Sub(k.at) >= fresh {
		return
	}
	until := s.now.Add(fresh - m.read.now.Sub(k.at))
	for part, others := range k.open {
		p := &m.parts[part]
		if s.now.Sub(p.opened) < 2*fresh {
			others-- // that may be this client
		}
		if b := p.state.Breaker(""); b != nil && others >= k.witnesses() {
			breaker.Doubt(b, until)
		}
	}
}
