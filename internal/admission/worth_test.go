package admission

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// days is a gate that learns how long work takes, one request after the other.
type days struct {
	g   *Gate
	now clock.Instant
}

func newDays() *days {
	return &days{New(Rules{Limit: 1, Queue: 10, Target: 5 * ms, Interval: 100 * ms, Shards: 1}), at(time.Second)}
}

// ask has n requests come with so much time, each with a slot in use, and work that takes so long; it
// returns how many were begun.
func (d *days) ask(n int, left, took time.Duration) (begun int) {
	slot, _ := d.g.Enter(d.now, "")
	defer d.g.Release(d.now, slot)
	for range n {
		deadline := clock.Never
		if left > 0 {
			deadline = d.now.Add(left)
		}
		if !d.g.Worth(d.now, deadline) {
			continue
		}
		begun++
		began := d.now
		d.now = d.now.Add(took)
		d.g.Ended(d.now, began, deadline, left == 0 || took < left)
	}
	return begun
}

func TestWhatIsWorthBeginning(t *testing.T) {
	for _, c := range []struct {
		fact string
		play func(*days) int
		want [2]int
	}{
		{"all is, while nothing is known", func(d *days) int { return d.ask(19, 25*ms, 30*ms) }, [2]int{19, 19}},
		{"what has time enough", func(d *days) int { d.ask(100, 0, 30*ms); return d.ask(100, 40*ms, 30*ms) }, [2]int{100, 100}},
		{"what has no deadline", func(d *days) int { d.ask(100, 0, 30*ms); return d.ask(100, 0, 30*ms) }, [2]int{100, 100}},
		{"of what has too little time one in 150", func(d *days) int { d.ask(100, 0, 30*ms); return d.ask(1500, 25*ms, 30*ms) }, [2]int{10, 10}},
		{"quick work though most takes longer", func(d *days) int {
			d.ask(1000, 0, 30*ms)
			d.ask(150, 5*ms, ms) // one of them is tried, and the others follow
			return d.ask(500, 5*ms, ms)
		}, [2]int{500, 500}},
		{"quick work with other deadlines, too", func(d *days) int {
			d.ask(1000, 0, 30*ms)
			d.ask(150, 5*ms, ms)
			return d.ask(500, 20*ms, ms)
		}, [2]int{500, 500}},
		{"slow work no more when it has had its deadline in vain", func(d *days) int {
			d.ask(100, 0, ms)
			return d.ask(1000, 25*ms, 30*ms)
		}, [2]int{20, 50}},
		{"what is done in time now and then", func(d *days) (n int) {
			d.ask(100, 0, ms)
			for range 50 {
				n += d.ask(12, 25*ms, 30*ms) + d.ask(1, 25*ms, 20*ms)
			}
			return n
		}, [2]int{650, 650}},
		{"what was in vain is forgotten after a minute", func(d *days) int {
			d.ask(100, 0, ms)
			d.ask(1000, 25*ms, 30*ms)
			d.now = d.now.Add(62 * time.Second)
			return d.ask(10, 25*ms, 20*ms)
		}, [2]int{10, 10}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if n := c.play(newDays()); n < c.want[0] || n > c.want[1] {
				t.Errorf("%d were begun, want %v", n, c.want)
			}
		})
	}
}

// Where a slot is free one is tried in a second, so that it need not be the hundredth.
func TestAFreeSlotIsTriedOnceInASecond(t *testing.T) {
	d := newDays()
	d.ask(100, 0, 30*ms)
	begun := 0
	for range 100 {
		d.now = d.now.Add(100 * ms)
		if d.g.Worth(d.now, d.now.Add(25*ms)) {
			begun++
		}
	}
	if begun < 9 || begun > 11 {
		t.Errorf("%d were begun in ten seconds", begun)
	}
}

// No request waits in the queue for so long that too little time is left for the work.
func TestWhoMayWaitLeavesTimeForTheWork(t *testing.T) {
	d := newDays()
	d.ask(100, 0, 30*ms)
	slot, _ := d.g.Enter(d.now, "")
	var v visitor
	d.g.Join(d.now, &v.Wait, &v, 0, "", d.now.Add(50*ms))
	if until := v.Until().Sub(d.now); until < 20*ms || until > 22*ms {
		t.Errorf("it may wait %v", until)
	}
	if _, a := d.g.Leave(v.Until(), &v.Wait); a != Short {
		t.Errorf("it is answered %d", a)
	}
	var tried visitor // though it has too little time already
	d.g.Join(d.now, &tried.Wait, &tried, 0, "", d.now.Add(25*ms))
	if until := tried.Until().Sub(d.now); until != 25*ms {
		t.Errorf("one that is tried may wait %v", until)
	}
	d.g.Release(d.now.Add(ms), slot)
	if _, a := d.g.Ask(d.now.Add(ms), &tried.Wait); a != Admitted {
		t.Errorf("one that is tried is answered %d", a)
	}
}
