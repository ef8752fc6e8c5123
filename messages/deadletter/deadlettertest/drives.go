package deadlettertest

import (
	"math"
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

var driveCases = []oneCase{
	{"an order is of one group and has a rate", deadletter.Options{}, orders},
	{"letters are taken at the rate of their redrive, the oldest first", deadletter.Options{}, paced},
	{"a pause is made up for by one second's letters", deadletter.Options{}, burst},
	{"a verdict that is given twice is one", deadletter.Options{}, settledTwice},
	{"a lease that is over is taken again with a larger token", deadletter.Options{}, lostLease},
	{"an extended lease lives on", deadletter.Options{}, extended},
	{"letters of one order are taken one at a time, the oldest first", deadletter.Options{}, oneAtATime},
	{"a redrive ends when nothing is left", deadletter.Options{}, ends},
	{"a redrive of which too few succeed stops, and the rest waits", deadletter.Options{}, stopsItself},
	{"a redrive of which enough succeed goes on", deadletter.Options{}, goesOn},
	{"a redrive that an operator stops leaves the rest waiting", deadletter.Options{}, stopped},
	{"what is given back is taken again", deadletter.Options{}, givenBack},
	{"what was cut off under the redrive before is taken again", deadletter.Options{}, cutOff},
	{"redrives of two groups do not meet", deadletter.Options{}, twoGroups},
	{"a second redrive of a group is refused while one goes on, so that their rates don't add", deadletter.Options{}, twoDrives},
	{"letters that end their consumers stop their redrive", deadletter.Options{}, killers},
	{"a letter that is lost twice in a row waits again", deadletter.Options{}, lostTwice},
	{"a consumer that is lost with many letters is one failure", deadletter.Options{}, lostTogether},
	{"letters that end consumers who have many at once stop their redrive", deadletter.Options{}, killersTogether},
	{"a consumer has one letter at a time that was lost before, and others go on", deadletter.Options{}, suspects},
	{"one process paces a redrive, and another has it once that is gone", deadletter.Options{}, onePaces},
	{"what fails or comes while a redrive goes on is not taken by it", deadletter.Options{}, takenOnce},
	{"what a query picks is what its redrive takes", deadletter.Options{}, picked},
	{"letters behind many of one order are taken", deadletter.Options{}, behindMany},
}

func orders(b *bench) {
	ids := b.put("g", 3)
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := b.Order(b.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: rate}); err == nil {
			b.Errorf("rate %v was taken", rate)
		}
	}
	for _, groups := range [][2]string{{"", ""}, {"g", "h"}} {
		if _, err := b.Order(b.Context(), deadletter.Query{Group: groups[0]}, deadletter.Drive{Group: groups[1], Rate: 1}); err == nil {
			b.Errorf("groups %q were taken", groups)
		}
	}
	d, err := b.Order(b.Context(), deadletter.Query{IDs: ids[1:2]}, deadletter.Drive{Group: "g", Rate: 2.5, By: "ann", Total: 77, State: deadletter.Stopped})
	b.ok(err)
	want := deadletter.Drive{ID: d.ID, Group: "g", Rate: 2.5, By: "ann", Made: b.time(), Total: 1, Left: 1}
	if d != want || d.ID == "" {
		b.Errorf("%+v, want %+v", d, want)
	}
	if got := b.drive(d.ID); got != want {
		b.Errorf("later %+v, want %+v", got, want)
	}
	for _, id := range ids {
		b.wantState(id, deadletter.Waiting)
	}
	b.ok(b.Stop(b.Context(), d.ID, "", ""))
	b.pass(time.Second)
	other := b.put("h", 1)
	second := b.order("h", 1)
	b.pass(time.Second)
	third := b.order("g", 1)
	if second.Total != len(other) || third.Total != 3 {
		b.Errorf("%+v, %+v", second, third)
	}
	all, err := b.Drives(b.Context(), "")
	b.ok(err)
	if len(all) != 2 || all[0].ID != third.ID || all[1].ID != second.ID {
		b.Errorf("%+v: want the last of each group, the newest first", all)
	}
	if all, err = b.Drives(b.Context(), "g"); len(all) != 1 || all[0].ID != third.ID || err != nil {
		b.Errorf("%v, %v", all, err)
	}
	if all, err = b.Drives(b.Context(), "i"); len(all) != 0 || err != nil {
		b.Errorf("%v, %v", all, err)
	}
	if none, err := b.Order(b.Context(), deadletter.Query{Group: "i"}, deadletter.Drive{Rate: 1}); err != nil || none.State != deadletter.Finished || none.Total != 0 {
		b.Errorf("of nothing: %+v, %v", none, err)
	}
	b.is(b.Stop(b.Context(), "none", "", ""), deadletter.ErrNotFound)
}

func paced(b *bench) {
	ids := b.put("g", 20)
	b.order("g", 5)
	taken, again := b.take("g", 10)
	b.wantTaken(taken, ids[0])
	b.same("again", again, 200*time.Millisecond)
	b.pass(199 * time.Millisecond)
	taken, again = b.take("g", 10)
	b.wantTaken(taken)
	b.same("again", again, time.Millisecond)
	b.pass(time.Millisecond)
	taken, _ = b.take("g", 10)
	b.wantTaken(taken, ids[1])
	total := 2
	for range 50 { // each 60 ms for 3 s: 15 more
		b.pass(60 * time.Millisecond)
		taken, _ = b.take("g", 10)
		total += len(taken)
	}
	if total != 17 {
		b.Errorf("%d letters in 3.2 s at 5 a second", total)
	}
}

func burst(b *bench) {
	b.put("g", 10)
	b.order("g", 5)
	b.pass(time.Hour)
	taken, again := b.take("g", 100)
	if len(taken) != 6 || again != 200*time.Millisecond {
		b.Errorf("%d taken after an hour, again after %v", len(taken), again)
	}
}

func settledTwice(b *bench) {
	ids := b.put("g", 3)
	d := b.order("g", 1000)
	b.pass(time.Second)
	taken, _ := b.take("g", 3)
	b.wantTaken(taken, ids...)
	if taken[0].State != deadletter.Taken || string(taken[0].Payload) != "payload 0 of g" || taken[0].Redriven != 1 || taken[0].Token == 0 {
		b.Errorf("%s", fields(taken[0].Letter))
	}
	verdicts := []deadletter.Verdict{done, failed("no"), {State: deadletter.Waiting}}
	for range 2 {
		for n, v := range verdicts {
			b.ok(b.Settle(b.Context(), taken[n], v))
		}
	}
	for n, v := range verdicts {
		b.wantState(ids[n], v.State)
	}
	l := b.get(ids[1])
	if l.Reason != "failed" || len(l.Failures) != 1 || l.Failures[0].Message != "no" {
		b.Errorf("%s", fields(l))
	}
	b.wantDrive(d.ID, deadletter.Drive{Total: 3, Left: 1, Done: 1, Failed: 1})
	b.is(b.Settle(b.Context(), taken[0], failed("too late")), deadletter.ErrLost)
	b.is(b.Settle(b.Context(), taken[1], done), deadletter.ErrLost)
	b.is(b.Extend(b.Context(), taken[0], time.Hour), deadletter.ErrLost)
	for _, s := range []deadletter.State{deadletter.Taken, deadletter.Dropped, 9} {
		b.is(b.Settle(b.Context(), taken[2], deadletter.Verdict{State: s}), deadletter.ErrState)
	}
}

func lostLease(b *bench) {
	id := b.put("g", 1)[0]
	d := b.order("g", 1000)
	first, again := b.take("g", 5)
	b.wantTaken(first, id)
	b.same("again", again, time.Millisecond)
	b.pass(time.Second)
	none, again := b.take("g", 5)
	b.wantTaken(none)
	b.same("again", again, 59*time.Second)
	b.pass(again)
	second, _ := b.take("g", 5)
	b.wantTaken(second, id)
	if second[0].Token <= first[0].Token || second[0].Redriven != 2 {
		b.Errorf("token %d after %d, redriven %d times", second[0].Token, first[0].Token, second[0].Redriven)
	}
	b.is(b.Settle(b.Context(), first[0], done), deadletter.ErrLost)
	b.is(b.Extend(b.Context(), first[0], time.Hour), deadletter.ErrLost)
	b.ok(b.Settle(b.Context(), second[0], done))
	b.ended("g")
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1, Done: 1})
}

func extended(b *bench) {
	id := b.put("g", 1)[0]
	b.order("g", 1000)
	taken, _ := b.take("g", 5)
	b.pass(50 * time.Second)
	b.ok(b.Extend(b.Context(), taken[0], time.Minute))
	b.pass(50 * time.Second)
	none, _ := b.take("g", 5)
	b.wantTaken(none)
	b.is(b.Drop(b.Context(), id, "", ""), deadletter.ErrState)
	b.pass(time.Hour)
	b.ok(b.Extend(b.Context(), taken[0], time.Minute)) // no other consumer took it
	b.pass(time.Hour)
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.wantState(id, deadletter.Done)
}

func oneAtATime(b *bench) {
	orders := []string{"a", "a", "", "b", "a", ""}
	ids := b.put("g", len(orders), func(n int, l *deadletter.Letter) { l.Order = orders[n] })
	b.order("g", 1000)
	b.pass(time.Second)
	first, again := b.take("g", 6)
	seen := map[deadletter.ID]bool{}
	for _, l := range first {
		seen[l.ID] = true
	}
	if len(first) != 4 || !seen[ids[0]] || !seen[ids[2]] || !seen[ids[3]] || !seen[ids[5]] || again <= 0 || again > time.Minute {
		b.Errorf("took %v, again %v", ids, again)
	}
	next := func(want deadletter.ID) deadletter.Lease {
		b.pass(time.Second)
		taken, _ := b.take("g", 6)
		b.wantTaken(taken, want)
		none, _ := b.take("g", 6)
		b.wantTaken(none)
		return taken[0]
	}
	for _, l := range first {
		if l.ID == ids[0] {
			b.ok(b.Settle(b.Context(), l, done))
		}
	}
	second := next(ids[1])
	b.ok(b.Settle(b.Context(), second, deadletter.Verdict{State: deadletter.Waiting})) // and it comes again before the third
	second = next(ids[1])
	b.ok(b.Settle(b.Context(), second, failed("no")))
	next(ids[4])
}

func ends(b *bench) {
	b.put("g", 2)
	d := b.order("g", 1000)
	b.pass(time.Second)
	taken, _ := b.take("g", 2)
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.wantDrive(d.ID, deadletter.Drive{Total: 2, Left: 1, Done: 1})
	none, again := b.take("g", 2)
	b.wantTaken(none)
	if again <= 0 {
		b.Errorf("again after %v while a letter is taken", again)
	}
	b.ok(b.Settle(b.Context(), taken[1], failed("no")))
	b.ended("g")
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 2, Done: 1, Failed: 1})
	b.ok(b.Stop(b.Context(), d.ID, "ann", "too late"))
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 2, Done: 1, Failed: 1})
	b.ended("g")
}

func stopsItself(b *bench) {
	ids := b.put("g", 15)
	d := b.order("g", 1000)
	settled := 0
	for range 15 {
		b.pass(time.Second)
		taken, _ := b.take("g", 1)
		if len(taken) == 0 {
			break
		}
		v := failed("still broken")
		if settled%3 == 0 {
			v = done
		}
		b.ok(b.Settle(b.Context(), taken[0], v))
		if settled++; settled == 10 {
			b.wantState(ids[10], deadletter.Waiting) // at once, and not at the next Take
		}
	}
	got := b.drive(d.ID)
	if settled != 10 || got.State != deadletter.StoppedByItself || got.Left != 0 || !strings.Contains(got.Why, "of the last 10 letters 4 were done") {
		b.Errorf("after %d: %+v", settled, got)
	}
	if got.Done != 4 || got.Failed != 6 {
		b.Errorf("%+v", got)
	}
	for _, id := range ids[10:] {
		b.wantState(id, deadletter.Waiting)
	}
	if s := b.stats("g"); s.ByState[deadletter.Waiting] != 11 || s.ByState[deadletter.Done] != 4 {
		b.Errorf("%+v", s)
	}
}

func goesOn(b *bench) {
	b.put("g", 24)
	d := b.order("g", 1000)
	for n := range 24 {
		b.pass(time.Second)
		taken, _ := b.take("g", 1)
		v := done
		if n%2 == 1 || n == 20 { // half of each 20, until then
			v = failed("no")
		}
		if len(taken) == 1 {
			b.ok(b.Settle(b.Context(), taken[0], v))
		}
	}
	got := b.drive(d.ID)
	if got.State != deadletter.StoppedByItself || got.Done != 10 || got.Failed != 11 || !strings.Contains(got.Why, "of the last 20 letters 9 were done") {
		b.Errorf("%+v", got)
	}
}

func stopped(b *bench) {
	ids := b.put("g", 5)
	d := b.order("g", 1000)
	b.pass(time.Second)
	taken, _ := b.take("g", 3)
	for range 2 {
		b.ok(b.Stop(b.Context(), d.ID, "ann", "enough"))
	}
	b.wantState(ids[4], deadletter.Waiting)
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Stopped, Total: 5})
	if why := b.drive(d.ID).Why; !strings.Contains(why, "enough") || !strings.Contains(why, "ann") {
		b.Errorf("why: %q", why)
	}
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.ok(b.Settle(b.Context(), taken[1], deadletter.Verdict{State: deadletter.Waiting}))
	b.wantState(ids[0], deadletter.Done)
	b.wantState(ids[1], deadletter.Waiting)
	b.wantState(ids[2], deadletter.Taken)
	b.pass(time.Hour)
	none, _ := b.take("g", 3) // its lease is over, and no consumer takes it
	b.wantTaken(none)
	b.wantState(ids[2], deadletter.Waiting)
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Stopped, Total: 5, Done: 1})
	if again := b.order("g", 1); again.Total != 4 {
		b.Errorf("ordered anew: %+v", again)
	}
}

func givenBack(b *bench) {
	id := b.put("g", 1)[0]
	d := b.order("g", 10)
	last := int64(0)
	for n := range 12 { // which says nothing of how letters come out
		b.pass(time.Second)
		taken, _ := b.take("g", 1)
		b.wantTaken(taken, id)
		if taken[0].Token <= last || taken[0].Redriven != n+1 {
			b.Errorf("token %d after %d, redriven %d times", taken[0].Token, last, taken[0].Redriven)
		}
		last = taken[0].Token
		b.ok(b.Settle(b.Context(), taken[0], deadletter.Verdict{State: deadletter.Waiting}))
	}
	b.wantDrive(d.ID, deadletter.Drive{Total: 1, Left: 1})
}
