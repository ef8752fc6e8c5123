package gabionproxy

import (
	"iter"
	"sync/atomic"
)

// tally counts what the proxy did.
type tally struct {
	requests, refused, cut, tunnels, reloads, badReloads atomic.Int64

	out      atomic.Int64 // being served
	upgraded atomic.Int64 // tunnels and upgraded connections, and requests that may become one
}

// Stats are numbers of one moment. All but InFlight, Upgraded and BodyBytes count since the proxy was made.
type Stats struct {
	Requests   int64 // that came
	InFlight   int64 // that are being served, with tunnels and upgraded connections
	Refused    int64 // that the proxy answered by itself
	Cut        int64 // whose answer broke off after it had begun
	Tunnels    int64 // that CONNECT opened
	Upgraded   int64 // tunnels and upgraded connections of this moment
	Reloads    int64 // that put a file into force
	BadReloads int64 // that did not, because of a mistake

	BodyBytes      int64 // of request bodies that are remembered now
	BodiesRepeated int64 // that were sent again
	BodiesOver     int64 // that could not be, since they are over the limit of a request
	BodiesFull     int64 // that could not be, since what is remembered of all requests was at its limit
}

// Stats returns the numbers of one moment.
func (p *Proxy) Stats() Stats {
	t, b := &p.tally, &p.bodies
	return Stats{
		Requests: t.requests.Load(), InFlight: t.out.Load(), Refused: t.refused.Load(), Cut: t.cut.Load(), Tunnels: t.tunnels.Load(), Upgraded: t.upgraded.Load(),
		Reloads: t.reloads.Load(), BadReloads: t.badReloads.Load(),
		BodyBytes: b.used.Load(), BodiesRepeated: b.repeated.Load(), BodiesOver: b.over.Load(), BodiesFull: b.full.Load(),
	}
}

// Series are the numbers by the names that they have as metrics. Those that end in _total are counters.
func (s Stats) Series() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, one := range []struct {
			name string
			n    int64
		}{
			{"gabionproxy_requests_total", s.Requests}, {"gabionproxy_in_flight", s.InFlight}, {"gabionproxy_refused_total", s.Refused},
			{"gabionproxy_cut_total", s.Cut}, {"gabionproxy_tunnels_total", s.Tunnels}, {"gabionproxy_upgraded", s.Upgraded}, {"gabionproxy_reloads_total", s.Reloads},
			{"gabionproxy_reload_failures_total", s.BadReloads}, {"gabionproxy_body_bytes", s.BodyBytes},
			{"gabionproxy_bodies_repeated_total", s.BodiesRepeated}, {"gabionproxy_bodies_over_limit_total", s.BodiesOver},
			{"gabionproxy_bodies_no_room_total", s.BodiesFull},
		} {
			if !yield(one.name, one.n) {
				return
			}
		}
	}
}
