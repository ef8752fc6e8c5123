package behaviour

import (
	"context"
	"sync"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A learned limit is reloaded while attempts teach it: to other bounds, to a fixed one and back.
func TestALearnedLimitIsReloadedWhileItLearns(t *testing.T) {
	learn := policy.Policy{Bulkhead: policy.Bulkhead{Limit: policy.Learned}}
	d := gabion.New("db", learn)
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := d.Run(context.Background(), func(context.Context) error { return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	bounded := learn
	bounded.Bulkhead.Min, bounded.Bulkhead.Max = 7, 9
	for range 20 {
		for _, p := range []policy.Policy{bounded, {Bulkhead: policy.Bulkhead{Limit: 30}}, learn} {
			if err := d.Reload(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Reload(bounded); err != nil {
		t.Fatal(err)
	}
	close(done)
	all.Wait()
	if b := d.Stats().Bulkhead; b.Limit < 7 || b.Limit > 9 || b.InUse != 0 {
		t.Errorf("%+v", b)
	}
}
