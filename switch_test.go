package gabion_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
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
		{"disabled and observing never refuse", func(t *testing.T, d *gabion.Dependency, b gabion.Breaker) {
			for _, mode := range []func(){b.Disable, b.ObserveOnly} {
				mode()
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

func TestThereIsNoBreakerToHoldWhereThereIsNone(t *testing.T) {
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Off: true}})
	if _, found := d.Breaker(""); found {
		t.Error("found the breaker of a policy without one")
	}
	if _, found := gabion.New("db", policy.Policy{}).Breaker("never called"); found {
		t.Error("found the breaker of a partition that was never called")
	}
}
