package fleettest

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/fleet"
)

// Times of the suite. It waits for a short one, and in a synctest bubble no time passes.
const (
	short = 400 * time.Millisecond
	often = 20 * time.Millisecond

	// backwards is how far the clock of a store of several servers may seem to go back.
	backwards = 100 * time.Millisecond
)

// lasting reads until the store's own clock says that it may be gone. It need not be gone then.
func lasting(b *bench) {
	key, swapped := b.key("k"), b.key("swapped")
	put := b.do(fleet.Batch{
		Swap: &fleet.Put{Key: swapped, Value: []byte("x"), Lasts: short},
		Puts: []fleet.Put{{Key: key, Value: []byte("x"), Lasts: short}}, Get: []string{key, swapped},
	})
	b.wantKeys(put, key, swapped)
	if b.swap(key, 0, []byte("new")).Swapped {
		b.Error("a key that has not ended yet was put as a new one")
	}
	// The store took the time while it did the batch: what it says is a little early or late.
	for end := put.Now.Add(short - backwards); ; pause(often) {
		r := b.do(fleet.Batch{Get: []string{key}, List: swapped})
		if !r.Now.Before(end) {
			break
		}
		if len(r.Items) != 2 {
			b.Fatalf("%v after it was put, %d of 2 keys are there that last %v", r.Now.Sub(put.Now), len(r.Items), short)
		}
	}
	pause(short)
	r := b.do(fleet.Batch{Get: []string{swapped}})
	again := b.do(fleet.Batch{Swap: &fleet.Put{Key: swapped, Version: r.Items[swapped].Version, Value: []byte("again")}, Get: []string{swapped}})
	if !again.Swapped || string(again.Items[swapped].Value) != "again" {
		b.Errorf("what was read after the end was %v, and a swap on that: %+v", r.Items, again)
	}
}

func lastsForEver(b *bench) {
	key := b.key("k")
	b.do(fleet.Batch{Puts: []fleet.Put{{Key: key, Value: []byte("ends"), Lasts: short}}})
	b.set(key, "stays")
	pause(2 * short)
	b.do(fleet.Batch{List: b.key("")}) // which may clear away what is over
	b.wantValue(key, []byte("stays"))
}

func timeGoesOn(b *bench) {
	other, began := b.open(b.TB), time.Now()
	first := b.do(fleet.Batch{}).Now
	last := first
	for n := range 20 {
		s := b.store
		if n%2 == 1 {
			s = other
		}
		now := b.on(s, fleet.Batch{Puts: []fleet.Put{{Key: b.key("k"), Value: []byte("x")}}}).Now
		if now.Before(last.Add(-backwards)) {
			b.Errorf("the store's clock went back by %v", last.Sub(now))
		}
		last = now
	}
	pause(short)
	now, took := b.do(fleet.Batch{}).Now, time.Since(began)
	if went := now.Sub(first); went < short-backwards || went > took+backwards {
		b.Errorf("the store's clock went on by %v while %v passed", went, took)
	}
}

func contextIsOver(b *bench) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	key := b.key("k")
	if _, err := b.store.Do(over, fleet.Batch{Puts: []fleet.Put{{Key: key, Value: []byte("x")}}, Get: []string{key}}); err == nil {
		b.Error("a batch was carried out whose context was over")
	}
	b.wantKeys(b.do(fleet.Batch{Get: []string{key}}))
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
