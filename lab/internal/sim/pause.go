package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Pauses are when a replica does nothing at all, as a process whose memory is being cleared:
// work under way stands still, and no answer leaves. Requests go on arriving. Each replica has
// pauses of its own.
type Pauses struct {
	Every draw.Dist // from the end of one to the beginning of the next; always 0 means that there are none
	For   draw.Dist
}

// pauses are those of a replica. They don't depend on what it does, so they are drawn as far as
// somebody has to know.
type pauses struct {
	of     *Pauses // nil without any
	draws  draw.Stream
	coming []pause // in order: those that are not over, as far as they are drawn
	drawn  clock.Instant
}

type pause struct{ from, to clock.Instant }

// leastGap is how long a replica works between two pauses at least: time would stand still otherwise.
const leastGap = time.Microsecond

func newPauses(s *sim, v *service, replica int) (p pauses) {
	if v.Pauses.Every.Mean() > 0 {
		p = pauses{of: &v.Pauses, draws: draw.New(s.seed, forPauses, uint64(v.index)<<32|uint64(replica)), drawn: s.now}
	}
	return p
}

// at returns the i-th pause that is not over.
func (p *pauses) at(now clock.Instant, i int) pause {
	over := 0
	for over < len(p.coming) && p.coming[over].to <= now {
		over++
	}
	p.coming = append(p.coming[:0], p.coming[over:]...)
	for len(p.coming) <= i {
		from := p.drawn.Add(max(p.of.Every.Draw(&p.draws), leastGap))
		p.drawn = from.Add(p.of.For.Draw(&p.draws))
		if p.drawn > now {
			p.coming = append(p.coming, pause{from, p.drawn})
		}
	}
	return p.coming[i]
}

// done returns when work is done that begins now.
func (p *pauses) done(now clock.Instant, work time.Duration) clock.Instant {
	at := now
	if p.of == nil {
		return at.Add(work)
	}
	for i := 0; ; i++ {
		next := p.at(now, i)
		if done := at.Add(work); done <= next.from {
			return done
		}
		work -= max(next.from.Sub(at), 0)
		at = next.to
	}
}

// over returns how long it is until a replica says something: nothing, unless it pauses now.
func (p *pauses) over(now clock.Instant) time.Duration {
	if p.of == nil {
		return 0
	}
	if next := p.at(now, 0); next.from <= now {
		return next.to.Sub(now)
	}
	return 0
}
