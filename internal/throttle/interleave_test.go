package throttle

import (
	"fmt"
	"math"
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/interleave"
)

// deed is something done to a Throttle, between two ticks of a clock.
type deed struct {
	kind       byte // 'r' for a request, 'a' for an accept, 'f' for a request taken back
	at         clock.Instant
	n          int // how many at once
	begin, end int
	k, p       float64 // of a request that was asked for
	asked      bool
}

// doer does things to a Throttle with buckets of ten nanoseconds, and writes down
// when and what became of them.
type doer struct {
	Throttle
	tick int
	log  []*deed
}

func (d *doer) do(kind byte, at clock.Instant, n uint32, verb func(*deed)) {
	x := &deed{kind: kind, at: at, n: int(n), begin: d.tick}
	d.log = append(d.log, x)
	d.tick++
	x.end = math.MaxInt // a concurrent check takes it as not ended
	verb(x)
	x.end = d.tick
	d.tick++
}

func (d *doer) admit(now clock.Instant, k float64) {
	d.do('r', now, 1, func(x *deed) { x.asked, x.k, x.p = true, k, d.Admit(now, k) })
}

func (d *doer) requests(now clock.Instant, n uint32) {
	d.do('r', now, n, func(*deed) { d.sent.Add(now, n, 0, 0) })
}

func (d *doer) accepts(now clock.Instant, n uint32) {
	d.do('a', now, n, func(*deed) { d.sent.Add(now, 0, n, 0) })
}

func (d *doer) forget(at, now clock.Instant) {
	d.do('f', at, 1, func(*deed) { d.Forget(at, now) })
}

// check fails where what is surely so contradicts an answer. A request was let
// through as if there were the fewest requests and the most accepts possible, and
// was not as if there were the most and the fewest.
func (d *doer) check() error {
	for _, x := range d.log {
		if !x.asked {
			continue
		}
		fewest, most := d.sums(x, 'r', 'f'), d.sums(x, 'a', 0)
		if let := float64(fewest[0]) <= x.k*float64(most[1]); x.p == 0 && !let {
			return fmt.Errorf("let through at %d with K = %v after %d requests and at most %d accepts", x.at, x.k, fewest[0], most[1])
		}
		if refused := float64(fewest[1]) > x.k*float64(most[0]); x.p > 0 && !refused {
			return fmt.Errorf("%v at %d with K = %v after at most %d requests and %d accepts", x.p, x.at, x.k, fewest[1], most[0])
		}
	}
	return nil
}

// sums returns the least and the most of a kind that x may have found, less those
// of a kind that takes back.
func (d *doer) sums(x *deed, kind, back byte) (bounds [2]int) {
	before, after := x.at, x.at // the newest time surely and perhaps seen
	for _, y := range d.log {
		if y.end <= x.begin {
			before = max(before, y.at)
		}
		if y.begin < x.end {
			after = max(after, y.at)
		}
	}
	for _, y := range d.log {
		surely, perhaps := 0, 0
		if y.end <= x.begin && y.at/10 > after/10-buckets {
			surely = y.n
		}
		if y.begin < x.end && (y.at/10 > before/10-buckets || y.end > x.begin) {
			perhaps = y.n
		}
		switch {
		case y == x:
		case y.kind == kind:
			bounds[0] += surely
			bounds[1] += perhaps
		case y.kind == back:
			bounds[0] -= perhaps
			bounds[1] -= surely
		}
	}
	return bounds
}

func TestInterleaved(t *testing.T) {
	for _, c := range []struct {
		fact    string
		before  func(d *doer)
		threads []func(d *doer)
	}{
		{
			"the last that are let through",
			func(d *doer) { d.accepts(0, 20); d.requests(0, 38) },
			[]func(d *doer){
				func(d *doer) { d.admit(0, 2); d.admit(0, 2) },
				func(d *doer) { d.admit(0, 2); d.admit(0, 2) },
			},
		},
		{
			"a turn at which the accepts are forgotten",
			func(d *doer) { d.accepts(0, 40); d.requests(100, 3) },
			[]func(d *doer){
				func(d *doer) { d.admit(119, 2); d.admit(119, 2) },
				func(d *doer) { d.admit(120, 2); d.admit(120, 2) },
			},
		},
		{
			"a turn at which they are forgotten while others are let through",
			func(d *doer) { d.accepts(0, 40); d.requests(100, 3); d.admit(119, 2) },
			[]func(d *doer){
				func(d *doer) { d.admit(119, 2); d.admit(120, 2) },
				func(d *doer) { d.admit(120, 2); d.admit(119, 2) },
			},
		},
		{
			"two K at once",
			func(d *doer) { d.accepts(0, 40); d.requests(0, 50) },
			[]func(d *doer){
				func(d *doer) { d.requests(0, 8); d.admit(0, 2) },
				func(d *doer) { d.admit(0, 1.5); d.admit(0, 1.5) },
			},
		},
		{
			"an accept and a request taken back beside the last",
			func(d *doer) { d.accepts(0, 20); d.requests(0, 40) },
			[]func(d *doer){
				func(d *doer) { d.admit(0, 2); d.admit(0, 2) },
				func(d *doer) { d.forget(0, 0); d.accepts(0, 1) },
			},
		},
	} {
		t.Run(c.fact, func(t *testing.T) {
			interleave.Explore(t, 3, func() (threads []func(), check func() error) {
				d := &doer{Throttle: Make(120)}
				c.before(d)
				for _, do := range c.threads {
					threads = append(threads, func() { do(d) })
				}
				return threads, d.check
			})
		})
	}
}
