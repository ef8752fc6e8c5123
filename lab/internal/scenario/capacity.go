package scenario

import (
	"cmp"
	"math"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// means are how long the work of each service takes on average.
func (f *File) means() []time.Duration {
	means := make([]time.Duration, len(f.services))
	for i := range f.services {
		means[i] = f.services[i].Time.Mean()
		if f.services[i].Time.text == "" {
			means[i] = f.replayed(i)
		}
	}
	return means
}

// capacity is how many requests per second a service could serve, in each bin; -1
// means any number. It is reckoned from the means that the scenario names.
func (f *File) capacity(w *world, service int) []float64 {
	made := make([]float64, f.binCount())
	for i := range made {
		made[i] = bounded(w.capacityAt(service, f.bin*time.Duration(i)+f.bin/2))
	}
	return made
}

// bounded spells what is not bounded as -1.
func bounded(c float64) float64 {
	if math.IsInf(c, 1) {
		return -1
	}
	return round6(c)
}

// pathCapacity is the clients' work per second that all services together could
// serve, and which of them is the first that could not. What caches let through to a service
// is not known, and those services are left out.
func (f *File) pathCapacity(w *world) (made []float64, bottleneck string) {
	visits, behind := f.meanVisits(w), shielded(f)
	least := math.Inf(1)
	for k := range f.services {
		if c := w.full(k) / visits[k]; c < least && !behind[k] {
			least, bottleneck = c, f.services[k].name
		}
	}
	made = make([]float64, f.binCount())
	for i := range made {
		c := math.Inf(1)
		for k := range f.services {
			if !behind[k] {
				c = min(c, w.capacityAt(k, f.bin*time.Duration(i)+f.bin/2)/visits[k])
			}
		}
		made[i] = bounded(c)
	}
	return made, bottleneck
}

// meanVisits is how often a service is asked for one piece of work, over all fleets
// by what they do.
func (f *File) meanVisits(w *world) []float64 {
	visits, all := make([]float64, len(f.services)), 0.0
	for i, c := range f.fleets {
		weight := cmp.Or(float64(c.Rate), 1)
		all += weight
		for k, v := range w.visits[i] {
			visits[k] += weight * v
		}
	}
	for k := range visits {
		visits[k] /= all
	}
	return visits
}

// full is what a service can serve when nothing is wrong.
func (w *world) full(service int) float64 {
	v := &w.Services[service]
	c := math.Inf(1)
	workers, mean := float64(w.workers(service)), w.means[service].Seconds()
	switch {
	case mean == 0:
	case workers > 0:
		c = workers / (mean * (1 + v.Crowd*float64(v.Workers)))
	case v.Crowd > 0: // what more of them can't exceed
		c = float64(max(v.Replicas, 1)) / (mean * v.Crowd)
	}
	if works := v.Pauses.Every.Mean(); works > 0 {
		c *= float64(works) / float64(works+v.Pauses.For.Mean())
	}
	if v.Limit.Rate > 0 && !v.Limit.PerCaller {
		c = min(c, v.Limit.Rate)
	}
	return min(c, w.quotaRate(service))
}

func (w *world) capacityAt(service int, at time.Duration) float64 {
	c, left := w.full(service), 1.0
	for i := range w.Faults {
		x := &w.Faults[i]
		size := sizeAt(x, at)
		if size == 0 || x.Service != service {
			continue
		}
		if x.Kind == sim.RateLimit {
			c = min(c, x.Limit.Rate)
		}
		left *= 1 - size*reach(x, &w.Services[service])*cost(x, w.means[service])
	}
	if left <= 0 {
		return 0
	}
	return c * left
}

// sizeAt is how much of its full size a fault has at a time.
func sizeAt(x *sim.Fault, at time.Duration) float64 {
	since := at - x.At
	if since < 0 {
		return 0
	}
	if x.Period > 0 {
		turns := min(since/x.Period, max(x.Until-x.At, 0)/x.Period)
		since -= turns * x.Period
	}
	switch {
	case since >= x.For:
		return 0
	case x.Ramp == 0 || x.Kind == sim.Restart:
		return 1
	}
	return min(float64(since)/float64(x.Ramp), float64(x.For-since)/float64(x.Ramp), 1)
}

// reach is the share of a service's requests that meet a fault.
func reach(x *sim.Fault, v *sim.Service) float64 {
	r := 1.0
	if x.Share > 0 {
		r = x.Share
	}
	if x.Replicas > 0 {
		r *= float64(x.Replicas) / float64(max(v.Replicas, 1))
	}
	return r
}

// cost is the share of capacity that a fault takes of the requests that meet it.
func cost(x *sim.Fault, mean time.Duration) float64 {
	switch x.Kind {
	case sim.BrownOut:
		return 1 - x.Factor
	case sim.Slow:
		longer := max(x.Factor, 1)
		if mean > 0 {
			longer += float64(x.Add) / float64(mean)
		}
		return 1 - 1/longer
	case sim.Refuse, sim.BlackHole, sim.Reset, sim.Errors, sim.LostAnswers, sim.Restart:
		return 1
	}
	return 0
}

// Capacity is how many requests per second a service can serve when nothing is wrong and all
// of its workers are busy; infinite when nothing bounds them.
func (f *File) Capacity(service int) (float64, error) {
	w, err := f.world(&Policies{}, asItIs)
	if err != nil {
		return 0, err
	}
	w.means = f.means()
	return w.full(service), nil
}
