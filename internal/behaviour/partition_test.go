package behaviour

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

func TestPartitionsOfATimeWithoutABreakerGetOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Off: true}})
		for i := range 50 {
			d.Run(t.Context(), works, gabion.WithPartition(fmt.Sprint(i)))
		}
		reload(t, d, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}})
		for i := range 50 {
			name := fmt.Sprint(i)
			handOn(t, d, name) // at once, not only when it is next called
			d.Run(t.Context(), fails(errDown), gabion.WithPartition(name))
			if got := partition(t, d, name).Breaker.State; got != breaker.Open {
				t.Errorf("the breaker of %s is %s", name, got)
			}
		}
		nothingHeld(t, d)
	})
}

func TestEveryPartitionOfStatsHasAHand(t *testing.T) {
	d := gabion.New("db", policy.Policy{Partitions: policy.Partitions{Max: 1}, Breaker: policy.Breaker{Consecutive: 1}})
	for _, name := range []string{"a", "b"} {
		d.Run(t.Context(), fails(errDown), gabion.WithPartition(name))
	}
	for _, l := range d.Stats().Partitions {
		handOn(t, d, l.Name).Reset()
		if got := partition(t, d, l.Name).Breaker.State; got != breaker.Closed {
			t.Errorf("%s is %s after its reset", l.Name, got)
		}
	}
	if partition(t, d, terms.Overflow); d.Stats().Spilled != 1 {
		t.Errorf("%d spilled", d.Stats().Spilled)
	}
}

// A partition that stays for ever takes the place of those that come.
func TestAnIdlePartitionMakesRoom(t *testing.T) {
	for _, c := range []struct {
		fact   string
		policy policy.Breaker
		hand   func(gabion.Breaker)
		stays  bool
	}{
		{"its breaker is closed", policy.Breaker{}, func(gabion.Breaker) {}, false},
		{"the policy only observes", policy.Breaker{Observe: true}, func(gabion.Breaker) {}, false},
		{"it was disabled for a time that is over", policy.Breaker{}, func(b gabion.Breaker) { b.Disable(time.Minute) }, false},
		{"it is disabled", policy.Breaker{}, func(b gabion.Breaker) { b.Disable(0) }, true},
		{"a hand lets it observe", policy.Breaker{}, func(b gabion.Breaker) { b.ObserveOnly(0) }, true},
		{"a hand lets it observe for longer, where the policy does too", policy.Breaker{Observe: true}, func(b gabion.Breaker) { b.ObserveOnly(1000 * time.Hour) }, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", policy.Policy{Breaker: c.policy, Partitions: policy.Partitions{Max: 1, Idle: time.Hour}})
				d.Run(t.Context(), works, gabion.WithPartition("old"))
				c.hand(handOn(t, d, "old"))
				time.Sleep(2 * time.Hour)
				d.Run(t.Context(), works, gabion.WithPartition("new"))
				if spilled := d.Stats().Spilled > 0; spilled != c.stays {
					t.Errorf("it stays: %v", spilled)
				}
			})
		})
	}
}

func TestPartitionLabelsOfEventsAreBounded(t *testing.T) {
	synctest.Test(t, partitionLabelsOfEventsAreBounded)
}

func partitionLabelsOfEventsAreBounded(t *testing.T) {
	for _, c := range []struct {
		partitions int
		want       []string
	}{
		{2, []string{terms.Overflow, "host0", "host1"}},
		{policy.Off, []string{""}},
	} {
		d, rec := watched(policy.Policy{Safe: true, Partitions: policy.Partitions{Max: c.partitions}, Breaker: policy.Breaker{Consecutive: 1}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
		for i := range 100 {
			name := gabion.WithPartition(fmt.Sprint("host", i))
			d.Run(t.Context(), fails(errDown), name)
			gabion.Do(t.Context(), d, withResult(works), name)
			if a, err := gabion.Begin(t.Context(), d, name); err == nil {
				a.Close(nil)
			}
		}
		var got []string
		for _, e := range rec.Events() {
			got = append(got, e.Partition)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("with %d partitions events name %q", c.partitions, got)
		}
	}
}

func TestPartitionThatAskedForTimeIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Pace: policy.Pace{Max: time.Minute}, Retry: policy.Retry{MaxAfter: time.Minute},
			Partitions: policy.Partitions{Max: 1, Idle: time.Second},
		})
		d.Run(t.Context(), works, gabion.WithPartition("asked"), gabion.WithClassify(func(any, error) policy.Outcome {
			return policy.Outcome{Class: policy.ClassThrottled}.ComeBack(time.Minute)
		}))
		time.Sleep(30 * time.Second)
		d.Run(t.Context(), works, gabion.WithPartition("other"))
		if got := partition(t, d, "asked").Paced; got != 30*time.Second {
			t.Errorf("it is held back for %s", got)
		}
		time.Sleep(31 * time.Second)
		d.Run(t.Context(), works, gabion.WithPartition("third"))
		partition(t, d, "third") // then it is, and there is room
	})
}

// A key that used its quota must not have a new one because its partition was forgotten.
func TestPartitionThatUsedItsQuotaIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("model", policy.Policy{
			RateLimit:  policy.RateLimit{Quotas: []policy.Quota{{Unit: "tokens", Amount: 100, Span: time.Minute, Estimate: 100}}},
			Partitions: policy.Partitions{Max: 1, Idle: time.Second},
		})
		d.Run(t.Context(), works, gabion.WithPartition("used"))
		time.Sleep(30 * time.Second)
		d.Run(t.Context(), works, gabion.WithPartition("other")) // which shares what has no quota
		if got := partition(t, d, "used").Quotas[0].Left; got != 50 {
			t.Errorf("%v are left", got)
		}
		time.Sleep(31 * time.Second)
		d.Run(t.Context(), works, gabion.WithPartition("third"))
		if got := partition(t, d, "third").Quotas[0].Left; got != 0 { // then it is, and there is room
			t.Errorf("%v are left to the third", got)
		}
	})
}

// Partitions are bounded, those past the bound share one, and idle ones
// make room, but never one in flight or with a breaker that is not closed.
func TestPartitionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Hour), Partitions: policy.Partitions{Max: 3, Idle: time.Minute}, Timeout: policy.Timeout{Attempt: policy.Off, Call: policy.Off}})
		in := func(name string, work func(context.Context) error) error {
			return d.Run(t.Context(), work, gabion.WithPartition(name))
		}
		names := func() (all []string) {
			for _, p := range d.Stats().Partitions {
				all = append(all, p.Name)
			}
			return all
		}
		in("broken", fails(errDown))
		in("idle", works)
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { in("flying", func(context.Context) error { <-release; return nil }) })
		synctest.Wait()
		wantReason(t, in("broken", works), policy.BreakerOpen)
		if err := in("idle", works); err != nil {
			t.Errorf("partitions share a breaker: %v", err) // C47
		}
		if err := in("fourth", works); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(names()); got != "[broken flying idle _overflow]" && got != "[_overflow broken flying idle]" {
			t.Errorf("partitions: %s", got)
		}
		if d.Stats().Spilled != 1 {
			t.Errorf("%d calls spilled", d.Stats().Spilled)
		}
		in("fourth", fails(errDown))
		if err := in("fifth", works); err != nil {
			t.Errorf("the shared partition refused: %v", err)
		}
		time.Sleep(2 * time.Minute)
		in("sixth", works)
		if got := names(); !slices.Contains(got, "sixth") || !slices.Contains(got, "broken") || !slices.Contains(got, "flying") || slices.Contains(got, "idle") {
			t.Errorf("after a pause: %v", got)
		}
		close(release)
		wg.Wait()
	})
}
