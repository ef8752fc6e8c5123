package behaviour

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

func TestTheHandOnABreaker(t *testing.T) {
	ok := func(d *gabion.Dependency) error {
		return d.Run(context.Background(), func(context.Context) error { return nil })
	}
	state := func(d *gabion.Dependency) breaker.State { return d.Stats().Main.Breaker.State }
	for _, c := range []struct {
		fact string
		play func(t *testing.T, d *gabion.Dependency, b gabion.Breaker)
	}{
		{"forced open refuses until its time is over, then one success closes it", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			b.ForceOpen(2 * time.Hour)
			time.Sleep(time.Hour)
			gabiontest.WantReason(t, ok(d), policy.BreakerOpen)
			time.Sleep(time.Hour + time.Second)
			gabiontest.WantReason(t, ok(d), policy.None)
			if got := state(d); got != breaker.Closed {
				t.Errorf("the breaker is %s", got)
			}
		}},
		{"forced open without an end stays", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			b.ForceOpen(0)
			time.Sleep(1000 * time.Hour)
			gabiontest.WantReason(t, ok(d), policy.BreakerOpen)
		}},
		{"tripped opens for the usual time", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			b.Trip()
			gabiontest.WantReason(t, ok(d), policy.BreakerOpen)
			time.Sleep(34 * time.Second) // 30 s and up to a tenth more
			gabiontest.WantReason(t, ok(d), policy.None)
		}},
		{"half-open by hand needs an open breaker", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			if b.HalfOpen() == nil {
				t.Error("a closed breaker went half-open")
			}
			b.Trip()
			if err := b.HalfOpen(); err != nil {
				t.Error(err)
			}
			gabiontest.WantReason(t, ok(d), policy.None)
		}},
		{"two isolations hold until both are released", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			one, two := b.Isolate(), b.Isolate()
			one()
			one()
			gabiontest.WantReason(t, ok(d), policy.BreakerOpen)
			two()
			gabiontest.WantReason(t, ok(d), policy.None)
		}},
		{"nothing but a reset ends an isolation", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			release := b.Isolate()
			for what, move := range map[string]func(){
				"force-open": func() { b.ForceOpen(time.Second) }, "disable": func() { b.Disable(0) },
				"observe": func() { b.ObserveOnly(0) }, "trip": b.Trip, "half-open": func() { _ = b.HalfOpen() },
			} {
				move()
				time.Sleep(time.Hour)
				if err := ok(d); gabion.ReasonOf(err) != policy.BreakerOpen {
					t.Errorf("%s ended it: %v", what, err)
				}
			}
			b.Disable(0)
			release()
			gabiontest.WantReason(t, ok(d), policy.None)
			b.Isolate()
			b.Reset()
			gabiontest.WantReason(t, ok(d), policy.None)
		}},
		{"disabled and observing never refuse", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			for _, mode := range []func(time.Duration){b.Disable, b.ObserveOnly} {
				mode(0)
				for range 100 {
					d.Run(context.Background(), func(context.Context) error { return errDown })
				}
				gabiontest.WantReason(t, ok(d), policy.None)
				b.Reset()
			}
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", policy.Policy{})
				b, found := d.Breaker("")
				if !found {
					t.Fatal("no breaker")
				}
				c.play(t, d, b)
			})
		})
	}
}

// An override that is never taken back must not stay for ever.
func TestWhatAHandSetsUntilATimeEnds(t *testing.T) {
	observing := policy.Policy{Breaker: policy.Breaker{Observe: true}}
	disable := func(b gabion.Breaker) { b.Disable(time.Hour) }
	observe := func(b gabion.Breaker) { b.ObserveOnly(time.Hour) }
	call := func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), fails(errDown)) }
	look := func(_ *testing.T, d *gabion.Dependency) { d.Stats() }
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		set    func(gabion.Breaker)
		as     policy.BreakerState
		see    func(*testing.T, *gabion.Dependency)
		after  policy.BreakerState
	}{
		{"disabled, a call sees that it is over", policy.Policy{}, disable, policy.StateDisabled, call, policy.StateClosed},
		{"disabled, statistics see it", policy.Policy{}, disable, policy.StateDisabled, look, policy.StateClosed},
		{"observing, a call sees that it is over", policy.Policy{}, observe, policy.StateObserveOnly, call, policy.StateClosed},
		{"observing, statistics see it", policy.Policy{}, observe, policy.StateObserveOnly, look, policy.StateClosed},
		{"disabled where the policy observes", observing, disable, policy.StateDisabled, call, policy.StateObserveOnly},
		{"observing where the policy observes", observing, observe, policy.StateObserveOnly, look, policy.StateObserveOnly},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(c.policy)
				c.set(handOn(t, d, "").By("ann"))
				begun := d.Stats()
				if b := begun.Main.Breaker; b.State != c.as || b.Until.Sub(begun.Now) != time.Hour {
					t.Fatalf("set to %s until %s", b.State, b.Until.Sub(begun.Now))
				}
				for range 100 {
					call(t, d)
				}
				time.Sleep(time.Hour - 1)
				wantReason(t, d.Run(t.Context(), works), policy.None)
				wantState(t, d, c.as)
				time.Sleep(time.Minute)
				c.see(t, d)
				wantState(t, d, c.after)
				if n := d.Stats().Main.Breaker.Counts.Calls; n > 1 {
					t.Errorf("%d calls are still counted", n)
				}
				moves := only(rec, policy.KindBreakerMoved)
				first, last := moves[len(moves)-2], moves[len(moves)-1]
				if first.To != c.as || first.Code != "ann" || first.Until.Sub(first.At) != time.Hour {
					t.Errorf("the move is %+v", first)
				}
				if last.From != c.as || last.To != c.after || last.Cause != breaker.OverrideOver || last.Code != "" ||
					last.Due != first.Until || last.At.Sub(last.Due) < time.Minute-1 {
					t.Errorf("its end is %+v", last)
				}
			})
		})
	}
}

func only(rec *gabiontest.Recorder, k policy.Kind) (found []gabion.Event) {
	for _, e := range rec.Events() {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

func TestEventsSayWhoMovedABreaker(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, c := range []struct{ fact, who, told string }{
		{"a name", "ann@example.com: INC-7", "ann@example.com: INC-7"},
		{"no name", "", ""},
		{"lines and controls don't print", "ann\nforged=\x1b[1m\x00", "ann?forged=?[1m?"},
		{"bytes that are no text", "a\xffb", "a\uFFFDb"},
		{"a long name is cut and hashed", long, machine.BoundedName(long)},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d, rec := watched(policy.Policy{})
			b := handOn(t, d, "").By(c.who)
			b.ForceOpen(time.Hour)
			if err := b.HalfOpen(); err != nil {
				t.Fatal(err)
			}
			b.Trip()
			b.Disable(0)
			b.ObserveOnly(0)
			b.Isolate()()
			b.Reset()
			b.Reset()
			r := d.Retries().By(c.who)
			r.Stop(time.Hour)
			r.Resume()
			moves, switches := only(rec, policy.KindBreakerMoved), only(rec, policy.KindRetriesSwitched)
			if len(moves) != 9 || len(switches) != 2 || len(c.told) > 128 {
				t.Fatalf("%d moves and %d switches are told", len(moves), len(switches))
			}
			for _, e := range append(moves, switches...) {
				if e.Code != c.told {
					t.Errorf("%s by %q, want %q", e, e.Code, c.told)
				}
			}
		})
	}
}

func TestRetriesStoppedForATimeComeBack(t *testing.T) {
	for _, c := range []struct {
		fact string
		play func(s gabion.Retries)
		off  time.Duration
		told int // how many events say that they are off
	}{
		{"for an hour", func(s gabion.Retries) { s.Stop(time.Hour) }, time.Hour, 1},
		{"the last word counts, longer", func(s gabion.Retries) { s.Stop(time.Hour); s.Stop(3 * time.Hour) }, 3 * time.Hour, 2},
		{"the last word counts, shorter", func(s gabion.Retries) { s.Stop(0); s.Stop(time.Hour) }, time.Hour, 2},
		{"the same again is no news", func(s gabion.Retries) { s.Stop(time.Hour); s.Stop(time.Hour) }, time.Hour, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := new(gabiontest.Recorder)
				r, err := gabion.NewRegistry(map[string]policy.Policy{"db": gabiontest.FreeRetries(policy.Policy{Safe: true})}, gabion.WithObserver(rec))
				if err != nil {
					t.Fatal(err)
				}
				db, _ := r.Get("db")
				time.Sleep(time.Minute) // an instance has a clock of its own
				host, err := r.Instance("db", "host")
				if err != nil {
					t.Fatal(err)
				}
				c.play(db.Retries().By("ann"))
				for _, d := range []*gabion.Dependency{db, host} {
					if s := d.Stats(); !s.RetriesOff || s.RetriesBack.Sub(s.Now) != c.off {
						t.Errorf("%s: off %v, for %s", d.Name(), s.RetriesOff, s.RetriesBack.Sub(s.Now))
					}
				}
				time.Sleep(c.off - 1)
				wantReason(t, host.Run(t.Context(), fails(errDown)), policy.RetriesOff)
				time.Sleep(time.Minute)
				wantReason(t, host.Run(t.Context(), fails(errDown)), policy.AttemptsExhausted)
				wantReason(t, db.Run(t.Context(), fails(errDown)), policy.AttemptsExhausted)
				if s := host.Stats(); s.RetriesOff || s.RetriesBack != 0 {
					t.Errorf("off %v until %d", s.RetriesOff, s.RetriesBack)
				}
				all := only(rec, policy.KindRetriesSwitched)
				if len(all) != c.told+1 {
					t.Fatalf("told %d times: %v", len(all), all)
				}
				off, on := all[c.told-1], all[c.told]
				if off.Reason != policy.RetriesOff || off.Until.Sub(off.At) != c.off || off.Code != "ann" {
					t.Errorf("off: %+v", off)
				}
				if on.Reason != policy.None || on.Due != off.Until || on.Code != "" {
					t.Errorf("on: %+v", on)
				}
			})
		})
	}
}

func TestRetriesAreStoppedUntilTheyAreResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true})
		d.Retries().Stop(0)
		d.Retries().Stop(0)
		time.Sleep(1000 * time.Hour)
		wantReason(t, d.Run(t.Context(), fails(errDown)), policy.RetriesOff)
		if s := d.Stats(); s.RetriesBack != policy.Never {
			t.Errorf("back at %d", s.RetriesBack)
		}
		d.Retries().Resume()
		d.Retries().Resume()
		if n := len(only(rec, policy.KindRetriesSwitched)); n != 2 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestThereIsNoBreakerToHoldWhereThereIsNone(t *testing.T) {
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Off: true}})
	if _, found := d.Breaker(""); found {
		t.Error("found the breaker of a policy without one")
	}
	if _, found := gabion.New("db", policy.Policy{}).Breaker("never called"); found {
		t.Error("found the breaker of a partition that was never called")
	}
}
