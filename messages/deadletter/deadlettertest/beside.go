package deadlettertest

import (
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
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
	one := func(some ...deadletter.ID) (deadletter.Drive, error) {
		return b.Order(b.Context(), deadletter.Query{Group: "g", IDs: some}, deadletter.Drive{Rate: 1, By: "ann"})
	}
	first, err := one(ids[2], ids[3])
	b.ok(err)
	b.pass(time.Hour)
	for range 2 {
		_, err = one(ids[0])
		if b.is(err, deadletter.ErrBusy); err != nil && (!strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), "ann")) {
			b.Errorf("%v: it says neither which nor whose", err)
		}
	}
	taken, _ := b.take("g", 10)
	b.wantTaken(taken, ids[2], ids[3])
	for _, l := range taken {
		b.ok(b.Settle(b.Context(), l, done))
	}
	b.ended("g")
	b.wantDrive(first.ID, deadletter.Drive{State: deadletter.Finished, Total: 2, Done: 2})
	second, err := one(ids[0])
	b.ok(err)
	taken, _ = b.take("g", 10)
	b.wantTaken(taken, ids[0])
	b.wantDrive(second.ID, deadletter.Drive{Total: 1, Left: 1})
	b.wantState(ids[1], deadletter.Waiting)
}

// What consumers still have of a redrive that was stopped belongs to the next, if it waits again: a shutdown may cut it off.
func cutOff(b *bench) {
	ids := b.put("g", 3)
	first := b.order("g", 1000)
	b.pass(time.Second)
	old, _ := b.take("g", 2)
	b.wantTaken(old, ids[:2]...)
	b.ok(b.Stop(b.Context(), first.ID, "", ""))
	second := b.order("g", 1000)
	b.pass(time.Second)
	taken, _ := b.take("g", 3)
	b.wantTaken(taken, ids[2])
	b.ok(b.Settle(b.Context(), taken[0], done))
	none, again := b.take("g", 3)
	b.wantTaken(none)
	if again <= 0 {
		b.Errorf("again after %v while letters are taken", again)
	}
	b.wantDrive(second.ID, deadletter.Drive{Total: 1, Done: 1})
	b.ok(b.Settle(b.Context(), old[0], done))
	b.ok(b.Settle(b.Context(), old[1], deadletter.Verdict{State: deadletter.Waiting}))
	b.pass(time.Second)
	taken, _ = b.take("g", 3)
	b.wantTaken(taken, ids[1])
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.ended("g")
	b.wantDrive(second.ID, deadletter.Drive{State: deadletter.Finished, Total: 1, Done: 2})
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

// The one that asks first has the redrive, as long as it asks. What it took stays with it until its leases end.
func onePaces(b *bench) {
	other := b.other()
	ids := b.put("g", 5)
	d := b.order("g", 1000)
	b.pass(time.Second)
	taken, _ := b.take("g", 2)
	b.wantTaken(taken, ids[:2]...)
	b.pass(50 * time.Second)
	none, again, err := other.Take(b.Context(), "g", 2, time.Minute)
	b.ok(err)
	b.wantTaken(none)
	b.same("again", again, 10*time.Second)
	b.ok(b.Extend(b.Context(), taken[1], time.Minute))
	b.pass(again)
	second, _, err := other.Take(b.Context(), "g", 2, time.Minute)
	b.ok(err)
	b.wantTaken(second, ids[0], ids[2])
	none, _ = b.take("g", 2)
	b.wantTaken(none)
	b.is(b.Settle(b.Context(), taken[0], done), deadletter.ErrLost)
	b.ok(b.Settle(b.Context(), taken[1], done))
	b.wantDrive(d.ID, deadletter.Drive{Total: 5, Left: 4, Done: 1})
}

func takenOnce(b *bench) {
	const n = 150
	b.put("g", n)
	d := b.order("g", 1e9)
	i := 0
	for range n {
		b.pass(time.Millisecond)
		taken, _ := b.take("g", 20)
		if len(taken) == 0 {
			break
		}
		for _, l := range taken {
			v := done
			if i++; i%2 == 0 { // half of them fail, so that the redrive goes on
				v = failed("still down")
			}
			b.ok(b.Settle(b.Context(), l, v))
			if l.Redriven != 1 {
				b.Fatalf("%s was taken %d times", l.ID, l.Redriven)
			}
		}
		b.ok(b.Put(b.Context(), letter("g", n+i)))
	}
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: n, Done: n / 2, Failed: n / 2})
	if again := b.order("g", 1); again.Total <= n/2 {
		b.Errorf("what failed and what came is not in the next: %+v", again)
	}
}

// A redrive keeps its query, with all that a query can say.
func picked(b *bench) {
	change := func(n int, l *deadletter.Letter) {
		l.Source, l.Reason = []string{"a\xff", "b"}[n%2], []string{"r", "s", deadletter.Unknown}[n%3]
	}
	ids := b.put("g", 12, change)
	kept := b.get(ids[6]).Kept
	for _, c := range []struct {
		what string
		q    deadletter.Query
		want []deadletter.ID
	}{
		{"source", deadletter.Query{Source: "a\xff"}, []deadletter.ID{ids[0], ids[4], ids[6], ids[10]}},
		{"reason", deadletter.Query{Reason: "s"}, []deadletter.ID{ids[1], ids[4], ids[7], ids[10]}},
		{"IDs", deadletter.Query{IDs: []deadletter.ID{ids[9], ids[3]}}, []deadletter.ID{ids[3], ids[9]}},
		{"prefix", deadletter.Query{Prefix: string(ids[6][:12])}, ids[6:7]},
		{"before", deadletter.Query{Before: kept}, []deadletter.ID{ids[0], ids[1], ids[3], ids[4]}},
		{"after", deadletter.Query{After: kept}, []deadletter.ID{ids[6], ids[7], ids[9], ids[10]}},
		{"never", deadletter.Query{Before: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)}, nil},
		{"any time", deadletter.Query{Before: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "r", Source: "b"}, []deadletter.ID{ids[3], ids[9]}},
		{"what is over", deadletter.Query{States: []deadletter.State{deadletter.Done}}, nil},
	} {
		c.q.Group = "g"
		d, err := b.Order(b.Context(), c.q, deadletter.Drive{Rate: 1000})
		b.ok(err)
		b.pass(time.Second)
		taken, _ := b.take("g", 20)
		if b.wantTaken(taken, c.want...); d.Total != len(c.want) {
			b.Errorf("%s: %+v", c.what, d)
		}
		for _, l := range taken { // as if it had never been taken
			b.ok(b.Settle(b.Context(), l, deadletter.Verdict{State: deadletter.Waiting}))
		}
		b.ok(b.Stop(b.Context(), d.ID, "", ""))
	}
}

// Letters of one order that wait for each other do not keep back those behind them.
func behindMany(b *bench) {
	const n = 1200 // more than a page that stores look at
	b.at(8, func(w int, s deadletter.Store) {
		for i := w; i < n; i += 8 * len(b.both()) {
			l := letter("g", i)
			l.Order = "one"
			if err := s.Put(b.Context(), l); err != nil {
				b.Error(err)
			}
		}
	})
	b.pass(time.Second)
	last := letter("g", n)
	b.ok(b.Put(b.Context(), last))
	b.order("g", 1e9)
	b.pass(time.Second)
	taken, again := b.take("g", 10)
	if len(taken) != 2 || taken[0].Order != "one" || taken[1].ID != last.ID || again <= 0 || again > deadletter.OrderWait {
		b.Errorf("took %v, again %v", ids(taken), again)
	}
}
