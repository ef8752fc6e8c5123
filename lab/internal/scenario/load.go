package scenario

import (
	"cmp"
	"math"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// load is the rate of a fleet over time.
func (f *namedFleet) load(end time.Duration, by scale) sim.Load {
	now := float64(f.Rate)
	load := sim.Load{{At: 0, PerSecond: now}}
	put := func(at time.Duration, r float64) { load = append(load, sim.Rate{At: at, PerSecond: r}) }
	for i := range f.steps {
		s := &f.steps[i]
		to, ramp := f.rateOf(s), time.Duration(s.Ramp)
		if s.For > 0 {
			to = max(now+float64((to-now)*float64(by.trigger*by.severity)), 0)
		}
		last := s.last(end)
		for at := time.Duration(s.At); at <= last; at += max(time.Duration(s.Every), 1) {
			put(at, now)
			put(at+ramp, to)
			if s.For > 0 {
				put(at+time.Duration(s.For)-ramp, to)
				put(at+time.Duration(s.For), now)
			}
			if s.Every == 0 {
				break
			}
		}
		if s.For == 0 {
			now = to
		}
	}
	for i := range load {
		load[i].PerSecond = float64(load[i].PerSecond * by.load)
	}
	if f.Daily.Swing > 0 {
		return f.Daily.over(load, end)
	}
	return load
}

// perPeriod is into how many lines a period of a daily load is cut.
const perPeriod = 48

// over lays the rise and fall over a load.
func (d *daily) over(load sim.Load, end time.Duration) (made sim.Load) {
	period := cmp.Or(time.Duration(d.Period), 24*time.Hour)
	peak := cmp.Or(time.Duration(d.Peak), period/4)
	times := func(at time.Duration) float64 {
		turn := float64((at-peak)%period) / float64(period)
		return 1 + float64(float64(d.Swing)*cosine(turn))
	}
	for i, p := range load {
		made = append(made, sim.Rate{At: p.At, PerSecond: float64(p.PerSecond * times(p.At))})
		next, rate := end, p.PerSecond
		if i+1 < len(load) {
			next, rate = load[i+1].At, load[i+1].PerSecond
		}
		step := period / perPeriod
		for at := p.At/step*step + step; at < next; at += step {
			along := float64(at-p.At) / float64(next-p.At)
			here := p.PerSecond + float64(along*(rate-p.PerSecond))
			made = append(made, sim.Rate{At: at, PerSecond: float64(here * times(at))})
		}
	}
	return made
}

// cosine returns the cosine of turns full circles, within 0.002 and the same on every
// machine (Bhaskara I, about 600).
func cosine(turns float64) float64 {
	turns -= math.Floor(turns)
	if turns > 0.5 {
		turns = 1 - turns
	}
	half := false
	if turns > 0.25 {
		turns, half = 0.5-turns, true
	}
	x := float64(2 * turns) // of half a turn, 0 to a half
	c := (1 - float64(4*float64(x*x))) / (1 + float64(x*x))
	if half {
		return -c
	}
	return c
}
