package fleet

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// load says what callers of process i ask for, in calls a second.
type load func(now time.Duration, i int) float64

var loads = []struct {
	fact  string
	of    load
	after time.Duration // when most of the limit must be used
	least float64
}{
	{"all want too much", func(_ time.Duration, _ int) float64 { return 25 }, 3 * time.Second, 0.99},
	{"all want what there is", func(_ time.Duration, _ int) float64 { return 20 }, 12 * time.Second, 0.95},
	{"all want less than there is", func(_ time.Duration, _ int) float64 { return 15 }, 5 * time.Second, 0.98},
	{"one wants four fifths", func(_ time.Duration, i int) float64 {
		if i == 7 {
			return 960
		}
		return 240.0 / 49
	}, 12 * time.Second, 0.97},
}

// crowd is fifty processes that count Poisson arrivals as production does, with a limit of 1000 a second.
func crowd(t testing.TB, seed uint64, offered load) *world {
	w := newWorld(t, seed, 3*time.Second)
	w.totals = map[string]float64{rate: 1000}
	for i := range 50 {
		w.caller(i, offered)
	}
	return w
}

// caller joins a process whose callers offer a load.
func (w *world) caller(i int, offered load) *simPod {
	p := w.join(Demand{Resource: rate, Total: 1000})
	var e Estimate
	wanted, last := uint64(0), w.now
	p.before = func(now clock.Instant) {
		wanted += poisson(w.rng, offered(w.now, i)*(w.now-last).Seconds())
		last = w.now
		if now < p.next && now.Sub(e.last) < w.length/12 {
			return
		}
		want, room := e.Count(now, wanted, 0, p.inForce(0))
		p.demands = []Demand{{Resource: rate, Total: 1000, Want: want, Room: room}}
	}
	return p
}

// used returns the mean part of the limit that is used in the next span.
func (w *world) used(span time.Duration, offered load) float64 {
	sum, n := 0.0, 0
	for end := w.now + span; w.now < end; n++ {
		w.play(100 * time.Millisecond)
		sum += w.use(0, func(i int) float64 { return offered(w.now, i) })
	}
	return sum / float64(n)
}

func TestTheLimitIsUsed(t *testing.T) {
	for _, c := range loads {
		t.Run(c.fact, func(t *testing.T) {
			w := crowd(t, 1, c.of)
			w.play(c.after)
			if got := w.used(5*time.Second, c.of); got < c.least {
				t.Errorf("%.3f of the limit is used, want %v", got, c.least)
			}
			equal := []float64(nil)
			for i, p := range w.pods {
				if sated := p.shares.Amounts[0].Sated; sated != (c.least == 0.97 && i != 7) {
					t.Errorf("%s: %v that others want more and it has all", p.id, sated)
				}
				if i != 7 {
					equal = append(equal, min(p.inForce(0), c.of(w.now, i)))
				}
			}
			if got := jain(equal); got < 0.98 {
				t.Errorf("among equals the index of Jain is %.3f", got)
			}
		})
	}
}

// Ten of fifty want most, and every 15 s they are others. In the first renewals after that what the others held is
// on its way.
func TestDemandThatShiftsIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: 48 s of fifty processes")
	}
	shifting := func(now time.Duration, i int) float64 {
		if i/10 == int(now/(16*time.Second))%5 {
			return 100
		}
		return 5
	}
	w := crowd(t, 2, shifting)
	w.play(16 * time.Second)
	for range 2 {
		first := w.used(3*time.Second, shifting) // nine renewals
		second := w.used(3*time.Second, shifting)
		rest := w.used(10*time.Second, shifting)
		if first < 0.6 || second < 0.92 || rest < 0.95 {
			t.Errorf("of the limit is used: %.3f in one lease after the shift, %.3f in the next, then %.3f", first, second, rest)
		}
	}
}

// The store is away for a minute: what was held last stays, so use does not change, and nothing exceeds the
// limit, then and when it returns. world.check is the proof of that.
func TestTheStoreIsAwayForAMinute(t *testing.T) {
	skewed := loads[3].of
	w := crowd(t, 3, skewed)
	w.play(12 * time.Second)
	w.store.down = true
	if got := w.used(time.Minute, skewed); got < 0.95 {
		t.Errorf("without the store %.3f of the limit is used", got)
	}
	before := w.batches
	w.play(10 * time.Second)
	if got := float64(w.batches-before) / 10 / 50; got > 2 {
		t.Errorf("each process asks %.2f times a second for a store that is away, want no more than with one", got)
	}
	w.store.down = false
	before = w.batches
	w.play(time.Second)
	if got := w.batches - before; got > 250 {
		t.Errorf("%d requests in the first second after the store returned", got)
	}
	if got := w.used(10*time.Second, skewed); got < 0.95 {
		t.Errorf("after the store returned %.3f of the limit is used", got)
	}
	for _, p := range w.pods {
		if p.shares.Lost {
			t.Errorf("%s still says that the store is away", p.id)
		}
	}
}

// Twenty of fifty are replaced one after another.
func TestARollingDeployUsesTheLimit(t *testing.T) {
	even := loads[0].of
	w := crowd(t, 4, even)
	w.play(6 * time.Second)
	worst, first := 1.0, map[*simPod]time.Duration{}
	for i := range 20 {
		w.pods[i].leave()
		p := w.caller(50+i, even)
		for range 15 {
			worst = min(worst, w.used(100*time.Millisecond, even))
			if p.inForce(0) >= 10 && first[p] == 0 {
				first[p] = w.now - p.begun
			}
		}
		for k, q := range w.pods[50:] {
			if q != p && q.inForce(0) < 10 {
				t.Errorf("%d: %s has %v calls a second after %v", k, q.id, q.inForce(0), w.now-q.begun)
			}
		}
	}
	t.Log(slices.Sorted(maps.Values(first)))
	if worst < 0.95 {
		t.Errorf("in the worst tenth of a second %.3f of the limit is used", worst)
	}
}

// An attempt that is out is in no count, and what was reserved at a rate that is gone is not either.
func TestWhatIsNotCountedForAMomentIsNotWantedTwice(t *testing.T) {
	var e Estimate
	now, want := clock.Instant(0), 0.0
	look := func(counted uint64) {
		now = now.Add(50 * time.Millisecond)
		want, _ = e.Count(now, counted, 0, 100)
	}
	for _, begun := range []uint64{1000, 1} { // a reload begins anew
		wanted := begun
		for range 600 {
			wanted++
			look(wanted)
			look(wanted - 1)
		}
		if want < 9 || want > 11 {
			t.Errorf("from %d on 10 a second are wanted, and %.1f is what it says", begun, want)
		}
	}
}

// A process that goes on as before must neither say that it wants nothing, or its share goes to others, nor that it wants others'.
func TestCountsThatBeginAnewAreNoLull(t *testing.T) {
	var e Estimate
	now, least, most, last := clock.Instant(0), 100.0, 0.0, 0.0
	// More than half of what it was before may be the same count for eight seconds.
	for _, begun := range []uint64{1000, 1, 2000, 1400} {
		for i := range uint64(300) {
			now = now.Add(100 * time.Millisecond)
			if last, _ = e.Count(now, begun+i, 0, 100); begun == 1 {
				least, most = min(least, last), max(most, last)
			}
		}
	}
	if least < 9 || most > 11 || last < 8 {
		t.Errorf("10 a second are wanted all the time, and it said %.1f to %.1f, and %.1f half a minute after counts began anew at two thirds", least, most, last)
	}
}
