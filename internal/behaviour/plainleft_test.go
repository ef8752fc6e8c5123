package behaviour

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// leaving leaves by runtime.Goexit at a plain success.
type leaving struct{ tallies, ends int }

func (l *leaving) Wants(k policy.Kind) bool { return k != policy.KindAttemptSent }

func (l *leaving) Observe(_ context.Context, e gabion.Event) {
	if e.Kind == policy.KindReturned {
		l.ends++
	}
}

func (l *leaving) Tally(context.Context, adapter.PlainSuccess) {
	l.tallies++
	runtime.Goexit()
}

// A call that has succeeded gives nothing back once more where a Tallier leaves. A second call holds a slot meanwhile.
func TestACallThatATallierLeavesEndsOnce(t *testing.T) {
	for name, opts := range map[string][]gabion.CallOption{
		"plain":         nil,
		"with options":  {gabion.WithOperation("read")},
		"by the serial": {gabion.WithTenant("a")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l leaving
				lost := 0
				d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 3}},
					gabion.WithObserver(&l), gabion.WithDiscard(func(any) { lost++ }))
				release := make(chan struct{})
				go d.Run(t.Context(), func(context.Context) error { <-release; return errDown })
				synctest.Wait()
				inItsOwnGoroutine(func() {
					gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 1, nil }, opts...)
				})
				if n := d.Stats().Bulkhead.InUse; n != 1 {
					t.Errorf("%d slots are in use while one call is out", n)
				}
				if c := d.Stats().Main.Breaker.Counts; c.Calls != 1 || c.Failures != 0 {
					t.Errorf("the breaker counted %+v, want one success", c)
				}
				if l.tallies != 1 || l.ends != 0 || lost != 1 {
					t.Errorf("%d tallies, %d events of an end, %d results discarded; want 1, 0 and 1", l.tallies, l.ends, lost)
				}
				close(release)
				synctest.Wait()
				nothingHeld(t, d)
			})
		})
	}
}
