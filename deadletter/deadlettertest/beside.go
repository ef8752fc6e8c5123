package deadlettertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/deadletter"
)

// These are redrives beside others, and large ones beside all that goes on meanwhile.

func twoGroups(b *bench) {
	g, h := b.put("g", 2), b.put("h", 2)
	b.order("g", 1)
	b.order("h", 1000)
	b.pass(time.Second)
	taken, _ := b.take("h", 5)
	b.wantTaken(taken, h...)
	taken, _ = b.take("g", 5)
	b.wantTaken(taken, g...)
}

func twoDrives(b *bench) {
	ids := b.put("g", 4, func(n int, l *deadletter.Letter) { l.Order = []string{"a", "", "a", ""}[n] })
	one := func(some ...deadletter.ID) deadletter.Drive {
		d, err := b.Order(b.Context(), deadletter.Query{Group: "g", IDs: some}, deadletter.Drive{Rate: 1})
		b.ok(err)
		b.pass(time.Second)
		return d
	}
	first, second := one(ids[2], ids[3]), one(ids[0])
	b.pass(time.Hour)
	taken, _ := b.take("g", 10) // of one second, and not of two redrives
	b.wantTaken(taken, ids[2], ids[3])
	none, _ := b.take("g", 10)
	b.wantTaken(none)
	for _, l := range taken {
		b.ok(b.Settle(b.Context(), l, done))
	}
	b.wantDrive(first.ID, deadletter.Drive{State: deadletter.Finished, Total: 2, Done: 2})
	taken, _ = b.take("g", 10)
	b.wantTaken(taken, ids[0])
	b.wantDrive(second.ID, deadletter.Drive{Total: 1, Left: 1})
	b.wantState(ids[1], deadletter.Waiting)
}

// Each consumer that takes a letter is gone with it. One that settles meanwhile is not enough.
func killers(b *bench) {
	ids := b.put("g", 25)
	d := b.order("g", 1000)
	first, _ := b.take("g", 1)
	b.ok(b.Settle(b.Context(), first[0], done))
	takings := 0
	for range 100 {
		b.pass(time.Hour)
		taken, _ := b.take("g", 1)
		takings += len(taken)
	}
	got := b.drive(d.ID)
	if got.State != deadletter.StoppedByItself || got.Left != 0 || !strings.Contains(got.Why, "of the last 10 letters 1 were done") || !strings.Contains(got.Why, "lost") {
		b.Errorf("%+v", got)
	}
	if takings > 10 {
		b.Errorf("%d consumers were ended", takings)
	}
	for _, id := range ids[1:] {
		b.wantState(id, deadletter.Waiting)
	}
}

// One letter among many good ones must not end one consumer after the other.
func lostTwice(b *bench) {
	ids := b.put("g", 30)
	d := b.order("g", 1000)
	takings := 0
	for range 60 {
		b.pass(time.Hour)
		taken, _ := b.take("g", 1)
		for _, l := range taken {
			if l.ID == ids[7] {
				takings++
			} else {
				b.ok(b.Settle(b.Context(), l, done))
			}
		}
	}
	b.same("takings", takings, 2)
	b.wantState(ids[7], deadletter.Waiting)
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 30, Done: 29, Failed: 1})
	l := b.get(ids[7])
	if n := len(l.Failures); n != 2 || l.Failures[1].Reason != deadletter.LeaseLost || l.Reason == deadletter.LeaseLost {
		b.Errorf("%s", fields(l))
	}
}

// A deployment may kill consumers that have many letters, and none of those is to blame.
func lostTogether(b *bench) {
	ids := b.put("g", 30)
	d := b.order("g", 1000)
	for range 2 { // two consumers are gone with what they have
		b.pass(time.Hour)
		if taken, _ := b.take("g", 16); len(taken) < 15 {
			b.Errorf("%d were taken", len(taken))
		}
	}
	for range 60 {
		b.pass(time.Hour)
		taken, _ := b.take("g", 16)
		lost := 0
		for _, l := range taken {
			if n := len(l.Failures); n > 0 && l.Failures[n-1].Reason == deadletter.LeaseLost {
				lost++
			}
			b.ok(b.Settle(b.Context(), l, done))
		}
		if lost > 1 {
			b.Errorf("a consumer has %d letters at once that were lost before", lost)
		}
	}
	b.wantState(ids[0], deadletter.Waiting) // was with both
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 30, Done: 29, Failed: 1})
}

// Each consumer has as many letters as it has workers, and any one of them ends it.
func killersTogether(b *bench) {
	b.put("g", 20)
	d := b.order("g", 1000)
	consumers := 0
	for range 100 {
		b.pass(time.Hour)
		if taken, _ := b.take("g", 16); len(taken) > 0 {
			consumers++
		}
	}
	if got := b.drive(d.ID); got.State != deadletter.StoppedByItself || got.Left != 0 || consumers > 12 {
		b.Errorf("%d consumers were ended, %+v", consumers, got)
	}
	if s := b.stats("g"); s.ByState[deadletter.Waiting] != 20 {
		b.Errorf("%+v", s)
	}
}

// Where a consumer works on a letter that was lost before, others that were lost wait for it or
// for another consumer, and all else goes on.
func suspects(b *bench) {
	ids := b.put("g", 6)
	b.order("g", 1000)
	b.pass(time.Second)
	b.take("g", 3)
	b.pass(time.Hour)
	taken, again := b.take("g", 3)
	b.wantTaken(taken, ids[0], ids[3], ids[4])
	b.pass(time.Second)
	taken2, again2 := b.take("g", 3)
	b.wantTaken(taken2, ids[5])
	if again < 0 || again > time.Minute || again2 <= 0 || again2 > deadletter.OrderWait {
		b.Errorf("again after %v and %v", again, again2)
	}
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.pass(time.Second)
	taken, _ = b.take("g", 3)
	b.wantTaken(taken, ids[1])
}

// Each of two consumers takes one letter that was lost.
func suspectsOfTwo(b *bench) {
	other := b.other()
	ids := b.put("g", 3)
	b.order("g", 1000)
	b.pass(time.Second)
	b.take("g", 3)
	b.pass(time.Hour)
	taken, _ := b.take("g", 3)
	b.wantTaken(taken, ids[0])
	b.pass(time.Second)
	taken, _, err := other.Take(b.Context(), "g", 3, time.Minute)
	b.ok(err)
	b.wantTaken(taken, ids[1])
}

func orderedOnce(b *bench) {
	const n = 1100 // several transactions' parts
	b.at(8, func(w int, s deadletter.Store) {
		for i := w; i < n; i += 8 * len(b.both()) {
			if err := s.Put(b.Context(), letter("g", i)); err != nil {
				b.Error(err)
			}
		}
	})
	b.pass(time.Second)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // half of them fail, so that the redrive goes on
		for i := 0; ; {
			b.pass(time.Millisecond)
			taken, _, err := b.Take(b.Context(), "g", 20, time.Hour)
			for _, l := range taken {
				v := done
				if i++; i%2 == 0 {
					v = failed("still down")
				}
				err = errors.Join(err, b.Settle(b.Context(), l, v))
			}
			late := letter("g", n+i)
			if err = errors.Join(err, b.Put(b.Context(), late)); err != nil {
				b.Error(err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	d := b.order("g", 1e9)
	close(stop)
	all.Wait()
	if d.Total < n || d.Total > n+n/4 { // what came before it began
		b.Errorf("%d letters were ordered of %d", d.Total, n)
	}
	for from, first := "", true; first || from != ""; first = false {
		p, err := b.List(b.Context(), deadletter.Query{Group: "g", States: []deadletter.State{deadletter.Ordered, deadletter.Taken}}, from, 1000)
		b.ok(err)
		for _, l := range p.Letters {
			if l.Redriven > 0 {
				b.Fatalf("%s failed, and was ordered once more", l.ID)
			}
		}
		from = p.Next
	}
}

func large(b *bench) {
	const n = 520 // more than one transaction's part
	b.at(8, func(w int, s deadletter.Store) {
		for i := w; i < n; i += 8 * len(b.both()) {
			l := letter("g", i)
			l.Order = fmt.Sprint(i % 2)
			if err := s.Put(b.Context(), l); err != nil {
				b.Error(err)
			}
		}
	})
	d := b.order("g", 1e9)
	if d.Total != n || d.Left != n || d.State != deadletter.Driving {
		b.Errorf("%+v", d)
	}
	b.pass(time.Second)
	taken, _ := b.take("g", 10)
	if len(taken) != 2 {
		b.Errorf("%d of two orders", len(taken))
	}
	b.ok(b.Stop(b.Context(), d.ID, "", ""))
	if s := b.stats("g"); s.ByState[deadletter.Waiting] != n-2 || s.ByState[deadletter.Taken] != 2 {
		b.Errorf("%+v", s)
	}
}
