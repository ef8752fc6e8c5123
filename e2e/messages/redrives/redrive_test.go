package redrives

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/messages/clocks"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
)

// patience is how long a test waits for what a machine that works would bring.
var patience = time.Duration(mortal.Size(1, 30)) * mortal.Patience

// A rig is a store of letters, a bank, and consumers that redrive.
type rig struct {
	*testing.T
	dir, where string
	clock      clocks.File
	step       func(off time.Duration) // sets the letters' clock
	letters    deadletter.Store
	bank       mortal.Bank
	ids        []deadletter.ID // of all letters
	told       mortal.Told
}

// runs returns how often work was begun.
func (r *rig) runs() int { return r.told.Count("run\n") }

// onBoth runs a test with each store of letters.
func onBoth(t *testing.T, test func(*rig)) {
	for _, name := range []string{"SQLite", "PostgreSQL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rig{T: t, dir: t.TempDir()}
			r.clock = clocks.File(filepath.Join(r.dir, "clock"))
			if name == "SQLite" {
				r.where, r.step = filepath.Join(r.dir, "letters.db"), func(off time.Duration) { r.clock.Step(t, off) }
			} else {
				r.where, r.step = clocks.Postgres(t, testservers.Postgres(t))
			}
			letters, closer, err := openLetters(t.Context(), r.where, r.clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closer.Close() })
			r.letters = letters
			test(r)
		})
	}
}

// fail makes a consumer give up n messages, so that they become letters.
func (r *rig) fail(n int) {
	r.Helper()
	db, store, err := mortal.OpenBank(r.Context(), r.dir)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { db.Close() })
	r.bank = mortal.Bank{TB: r, DB: db}
	c, err := newConsumer(store, r.letters)
	if err != nil {
		r.Fatal(err)
	}
	for i := range n {
		m := consumer.Message{Source: "orders", Position: strconv.Itoa(i)}
		m.ID, m.Payload = fmt.Sprint("m", i), []byte("1 €")
		d := c.Handle(r.Context(), m, func(context.Context) error { return inbox.Reject(errors.New("no such account")) })
		if d.Verb != inbox.DeadLetter {
			r.Fatalf("%+v", d)
		}
		r.ids = append(r.ids, deadletter.LetterID(group, m.ID, m.Payload))
	}
}

func (r *rig) order() deadletter.Drive {
	r.Helper()
	d, err := r.letters.Order(r.Context(), deadletter.Query{Group: group}, deadletter.Drive{Rate: 1000})
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (r *rig) drive(id string) deadletter.Drive {
	r.Helper()
	all, err := r.letters.Drives(r.Context(), group)
	if err != nil {
		r.Fatal(err)
	}
	for _, d := range all {
		if d.ID == id {
			return d
		}
	}
	r.Fatalf("there is no redrive %s", id)
	return deadletter.Drive{}
}

// ended waits until a redrive is over.
func (r *rig) ended(id string) (d deadletter.Drive) {
	r.Helper()
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		if d = r.drive(id); d.State != deadletter.Driving {
			return d
		}
		if time.Now().After(end) {
			r.Fatalf("it is not over: %+v", d)
		}
	}
}

// goesOn is the redrive, or an order of what it left. One stops by itself when many of its letters
// were lost with processes (ADR 87), as these tests let many be; operators then order again.
func (r *rig) goesOn(d deadletter.Drive) deadletter.Drive {
	r.Helper()
	if r.drive(d.ID).State == deadletter.StoppedByItself {
		return r.order()
	}
	return d
}

// finished waits until the redrive, or the order of what it left, is over: of the letters that were lost
// with two processes in a row, too, which wait.
func (r *rig) finished(d deadletter.Drive) deadletter.Drive {
	r.Helper()
	for range 10 {
		if d = r.ended(r.goesOn(d).ID); d.State == deadletter.Finished && d.Failed == 0 {
			break
		}
		if d.State == deadletter.Finished {
			d = r.order()
		}
	}
	return d
}

// rest waits until no consumer has a letter: leases of the dead end, and who still works ends.
func (r *rig) rest() {
	r.Helper()
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		p, err := r.letters.List(r.Context(), deadletter.Query{Group: group, States: []deadletter.State{deadletter.Taken}}, "", 1)
		switch {
		case err != nil:
			r.Fatal(err)
		case len(p.Letters) == 0:
			return
		case time.Now().After(end):
			r.Fatalf("a consumer still has %s", p.Letters[0].Key)
		}
	}
}

// wantLetters checks that each letter that was put away is there once, by its id, in that state.
func (r *rig) wantLetters(want deadletter.State) {
	r.Helper()
	there := map[deadletter.ID]int{}
	for from, first := "", true; first || from != ""; first = false {
		p, err := r.letters.List(r.Context(), deadletter.Query{Group: group, States: []deadletter.State{deadletter.Waiting, deadletter.Taken, deadletter.Done, deadletter.Dropped}}, from, 100)
		if err != nil {
			r.Fatal(err)
		}
		for _, l := range p.Letters {
			if there[l.ID]++; l.State != want {
				r.Errorf("letter %s is %s, want %s: %v", l.Key, l.State, want, l.Failures)
			}
		}
		from = p.Next
	}
	for _, id := range r.ids {
		if there[id] != 1 {
			r.Errorf("letter %s is there %d times", id, there[id])
		}
	}
	if len(there) != len(r.ids) {
		r.Errorf("%d letters, want %d", len(there), len(r.ids))
	}
}

func (r *rig) start(die string, after int) *mortal.Child {
	r.Helper()
	return mortal.Start(r, mortal.Birth{Role: "redrive", Die: die, After: after, Said: &r.told, Env: []string{dirVar + "=" + r.dir, lettersVar + "=" + r.where, clockVar + "=" + string(r.clock)}})
}

// Every letter that goes in comes out once, by its id, although two consumers redrive at a time
// and one after the other is killed at each point.
func TestEachLetterComesOutOnceWhateverIsKilled(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.fail(mortal.Size(40, 10_000))
		d := r.order()
		for n := range mortal.Size(2, 100) {
			at := 2 * n % len(points)
			pair := []*mortal.Child{r.start(points[at], 1+n%3), r.start(points[at+1], 2)}
			pair[0].MustDie(r)
			pair[1].MustDie(r)
		}
		pair := []*mortal.Child{r.start("", 0), r.start("", 0)}
		if d = r.finished(d); d.State != deadletter.Finished || d.Failed != 0 || d.Left != 0 {
			r.Errorf("%+v", d)
		}
		for _, c := range pair {
			c.End(r, 0)
		}
		r.wantLetters(deadletter.Done)
		r.bank.WantOnce(len(r.ids))
		r.Logf("%d letters, %d runs", len(r.ids), r.runs())
	})
}

// While the bank is down a redrive stops by itself after few letters, even when consumers are
// killed, and no letter is lost. Once the bank works, orders do them all.
func TestARedriveStopsByItselfWhileTheBankIsDown(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.fail(30)
		if err := os.WriteFile(down(r.dir), nil, 0o600); err != nil {
			r.Fatal(err)
		}
		d := r.order()
		pair := []*mortal.Child{r.start("commit", 3), r.start("work", 2)}
		for _, c := range pair {
			c.MustDie(r)
		}
		pair = []*mortal.Child{r.start("", 0), r.start("", 0)}
		d = r.ended(d.ID)
		if d.State != deadletter.StoppedByItself || d.Done != 0 || !strings.Contains(d.Why, "fewer than half") {
			r.Errorf("%+v", d)
		}
		r.rest()
		r.wantLetters(deadletter.Waiting)
		r.bank.WantOnce(0)
		if n := r.runs(); n < 10 || n > 30 {
			r.Errorf("%d runs", n)
		}
		if err := os.Remove(down(r.dir)); err != nil {
			r.Fatal(err)
		}
		if d = r.finished(r.order()); d.State != deadletter.Finished || d.Failed != 0 {
			r.Errorf("%+v", d)
		}
		for _, c := range pair {
			c.End(r, 0)
		}
		r.wantLetters(deadletter.Done)
		r.bank.WantOnce(len(r.ids))
	})
}

// The letters' clock is set back by hours after a consumer died with letters at hand, and forward
// while another works. The redrive goes on, and each letter comes out once.
func TestTheLettersClockIsStepped(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.fail(mortal.Size(20, 2000))
		d := r.order()
		for n := range mortal.Size(2, 40) {
			r.start(points[n%2], 1).MustDie(r)
			r.step([]time.Duration{-2 * time.Hour, -5 * time.Hour, time.Hour, -time.Minute}[n%4])
		}
		pair := []*mortal.Child{r.start("", 0), r.start("", 0)}
		for end := time.Now().Add(patience); r.runs() < len(r.ids)/2; <-time.After(5 * time.Millisecond) {
			if d = r.goesOn(d); time.Now().After(end) {
				r.Fatalf("%d runs, and then no more: %+v", r.runs(), r.drive(d.ID))
			}
		}
		r.step(-4 * time.Hour)
		if d = r.finished(d); d.State != deadletter.Finished || d.Failed != 0 {
			r.Errorf("%+v", d)
		}
		for _, c := range pair {
			c.End(r, 0)
		}
		r.wantLetters(deadletter.Done)
		r.bank.WantOnce(len(r.ids))
	})
}
