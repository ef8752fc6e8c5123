package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// player counts calls that come at random for an Estimate, which looks forty times in a lease.
type player struct {
	Estimate
	now   clock.Instant
	count float64
	*rand.Rand
}

// want returns what is wanted after a time of calls at a rate, in calls a second, and the least that was wanted on the way.
func (p *player) want(rate float64, d, span time.Duration) (want, least float64) {
	least = 1e9
	for end := p.now.Add(d); p.now < end; {
		p.now = p.now.Add(span)
		for left := rate * span.Seconds(); ; p.count++ {
			if left -= p.ExpFloat64(); left < 0 {
				break
			}
		}
		want, _ = p.Count(p.now, uint64(p.count), 0, 1000)
		least = min(least, want)
	}
	return want, least
}

// What a process does not need any more is others' within seconds, also where each look sees a call or none.
func TestWantsFallWithTheDemand(t *testing.T) {
	for _, span := range []time.Duration{75 * time.Millisecond, 250 * time.Millisecond} {
		for _, c := range []struct {
			fact          string
			before, after float64 // calls a second
			within        time.Duration
			least, most   float64 // wanted then, in the mean
		}{
			{"forty, and then six", 40, 6, 5 * time.Second, 4, 9},
			{"a thousand, and then twenty", 1000, 20, 3 * time.Second, 14, 26},
			{"forty, and then none", 40, 0, 3 * time.Second, 0, 3},
			{"forty, and then thirty, which chance might do", 40, 30, 20 * time.Second, 28, 33.5},
			{"ten all the time", 10, 10, 5 * time.Second, 8, 12},
		} {
			sum := 0.0
			const games = 200
			for seed := range uint64(games) {
				p := &player{Rand: rand.New(rand.NewPCG(seed, 1))}
				p.want(c.before, 30*time.Second, span)
				want, _ := p.want(c.after, c.within, span)
				sum += want
			}
			if mean := sum / games; mean < c.least || mean > c.most {
				t.Errorf("%s, looks every %s: %.1f are wanted after %s, want %v to %v", c.fact, span, mean, c.within, c.least, c.most)
			}
		}
	}
}

// Nothing of what was wanted stays.
func TestWhatIsNotWantedAnyMoreIsForgotten(t *testing.T) {
	p := &player{Rand: rand.New(rand.NewPCG(1, 1))}
	p.want(2, 30*time.Second, 250*time.Millisecond)
	if want, _ := p.want(0, 90*time.Second, 250*time.Millisecond); want > 1e-3 {
		t.Errorf("after a minute and a half without a call %v are wanted", want)
	}
}

// Chance alone must not take a share away: half an hour of calls that come at random.
func TestWantsDoNotFallByChance(t *testing.T) {
	for _, rate := range []float64{2, 6, 40, 1000} {
		p := &player{Rand: rand.New(rand.NewPCG(uint64(rate), 2))}
		p.want(rate, time.Minute, 250*time.Millisecond)
		if _, least := p.want(rate, 30*time.Minute, 250*time.Millisecond); least < rate/3 {
			t.Errorf("%v calls a second come all the time, and once %.1f were wanted", rate, least)
		}
	}
}

// Those who waited want more than the share. When no callers wait any more, they want what comes.
func TestWhoHasWaitedWantsNoMoreThanComes(t *testing.T) {
	var e Estimate
	now, count, want := clock.Instant(0), uint64(0), 0.0
	look := func(late bool, share float64) {
		now, count = now.Add(100*time.Millisecond), count+10
		waited := uint64(0)
		if late {
			waited = count
		}
		want, _ = e.Count(now, count, waited, share)
	}
	for range 100 {
		look(true, 100)
	}
	if want != 200 {
		t.Errorf("while all wait %v are wanted, want twice the share of 100", want)
	}
	for range 10 {
		look(false, 200)
	}
	if want < 90 || want > 110 {
		t.Errorf("when none waits %v are wanted, and 100 a second come", want)
	}
}
