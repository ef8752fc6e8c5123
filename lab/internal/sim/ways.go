package sim

import (
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Way is one way to fail, of several.
type Way struct {
	Status int     // as [Met] has it, or a code of gRPC: of HTTP, 0 is a connection that breaks, and below 0 none at all
	Share  float64 // of the requests that a fault strikes
}

// MayAnswer reports whether a fault of kind Errors may answer a status. A test compares what each means here
// with what it means to gabionhttp.
func MayAnswer(status int) bool { return status >= 400 && status <= 599 }

// The ways of a [Counts] that are no status of HTTP.
const (
	Broke   = 0
	Unsent  = -1
	TooLate = -2
)

// way is how an attempt fails that the fault strikes. Which of several it is takes a draw of its own.
func (f *activeFault) way(s *sim, a *attempt) answer {
	if len(f.Ways) == 0 {
		if f.Status == 0 {
			return busy
		}
		return answer(f.Status)
	}
	d := draw.New(s.seed, forWays, uint64(f.index)<<56^attemptID(s.calls.at(a.call).id, a.try))
	u, k := d.U(), 0
	for ; k < len(f.Ways)-1 && u >= f.Ways[k].Share; k++ {
		u = float64(u - f.Ways[k].Share)
	}
	switch status := f.Ways[k].Status; status {
	case Broke:
		return broken
	case Unsent:
		return refused
	default:
		return answer(status)
	}
}

// way is how an attempt failed that came back to its client.
func (a answer) way() int {
	if a == refused {
		return Unsent
	}
	return a.status() // of broken it is Broke
}

// works reports whether a worker has spent the time of the work before such an answer. A 500 is a
// failure of the work, as is UNKNOWN or INTERNAL of gRPC.
func (f *Fault) works(a answer) bool {
	return a != refused && (f.Late || f.Costs || a == failed || a == unknown || a == internal)
}

// afterOf is the Retry-After of an answer.
func (f *Fault) afterOf(a answer) time.Duration {
	if NamesTime(int(a)) {
		return f.After
	}
	return 0
}

// NamesTime reports whether a status may say when to come again.
func NamesTime(status int) bool {
	return status == int(throttled) || status == int(busy) || status == int(overloaded)
}

// Fate is what became of attempts that failed in one way.
type Fate struct {
	Met    int64 // how many did
	Resent int64 // after how many of them their call was sent again
}

// fail counts a way to fail.
func (a *attempt) fail(s *sim, c *call, o *policy.Outcome, way int) {
	if !s.world.Ways || o.Class == policy.ClassSuccess {
		return
	}
	c.fell = way
	s.edges[a.edge].n.fate(way, Fate{Met: 1})
}

// sentAgain counts what an attempt follows.
func (c *call) sentAgain(s *sim, hedge bool) {
	if s.world.Ways && c.sent > 1 && !hedge {
		s.edges[c.edge].n.fate(c.fell, Fate{Resent: 1})
	}
}

func (n *Counts) fate(way int, more Fate) {
	if n.Ways == nil {
		n.Ways = map[int]Fate{}
	}
	f := n.Ways[way]
	n.Ways[way] = Fate{f.Met + more.Met, f.Resent + more.Resent}
}
