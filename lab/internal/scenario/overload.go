package scenario

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// overloads names each service that is asked for more than it can serve for most of the time
// before the first trouble, even without retries: such a scenario shows a service that is too
// small and not its trouble. The load of closed fleets is left out, because it falls when answers
// come late, and what is behind a cache.
func (f *File) overloads(w *world) []string {
	found := []string{}
	end := f.calmEnd()
	behind := shielded(f)
	for k := range w.Services {
		if behind[k] {
			continue
		}
		most := w.full(k)
		sum, over, bins := 0.0, 0, 0
		for at := time.Duration(0); at < end; at += f.bin {
			bins++
			if load := f.asked(w, k, at); load > float64(most*1.001) {
				sum += load
				over++
			}
		}
		if 2*over > bins {
			found = append(found, fmt.Sprintf("the load exceeds the capacity from the start: before any trouble and without a single retry %s gets %.4g requests a second and can serve %.4g",
				f.services[k].name, sum/float64(over), most))
		}
	}
	return found
}

// partlyGiven names each dependency that a side's file does not have although it has
// others: what the scenario says of it must not pass for what the file says.
func (f *File) partlyGiven(of []*Policies, sides []*runs) (found []string) {
	for i, p := range of {
		if p.File == nil || p.File == f.against || p.Rival != "" {
			continue
		}
		for _, name := range sides[i].world.lacks {
			found = append(found, fmt.Sprintf("%s has no dependency %s, which goes by the policy that stands in %s: --as %s=%s says which one is meant",
				p.File.Name, name, f.Name, name, cmp.Or(suggest.Nearest(name, p.File.Names()), "NAME")))
		}
	}
	return found
}

// calmEnd is when the first thing goes wrong, and at least one bin after the start.
func (f *File) calmEnd() time.Duration {
	end := f.duration
	for _, m := range f.marks() {
		end = min(end, time.Duration(math.Round(m.From*1e9)))
	}
	return max(end, f.bin)
}

// asked is how many requests a second a service gets at a time, if none is repeated.
func (f *File) asked(w *world, service int, at time.Duration) (perSecond float64) {
	for i := range w.Fleets {
		fleet, rate := &w.Fleets[i], 0.0
		switch fleet.Loop {
		case sim.Open:
			rate = fleet.Load.Rate(at + f.bin/2)
		case sim.Trace:
			for _, begun := range fleet.At {
				if begun >= at && begun < at+f.bin {
					rate += 1 / f.bin.Seconds()
				}
			}
		}
		perSecond += float64(rate * w.visits[i][service])
	}
	return perSecond
}
