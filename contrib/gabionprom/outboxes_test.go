package gabionprom_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom"
)

// A box is an outbox as far as metrics ask it.
type box struct{ answer func(context.Context) error }

func (b box) Backlog(ctx context.Context) (s gabionprom.Backlog, err error) {
	if b.answer != nil {
		if err := b.answer(ctx); err != nil {
			return s, err
		}
	}
	return gabionprom.Backlog{Waiting: 5, Resting: 2, Parked: 3, Oldest: time.Hour}, nil
}

func TestParkedMessagesOfAnOutboxAreExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		stuck := box{func(ctx context.Context) error {
			if hangs.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		m := gabionprom.New(gabionprom.Config{Outboxes: map[string]gabionprom.Outbox{"orders": box{}, "bills": stuck, "mails": stuck}})
		for _, c := range []struct {
			fact string
			wait time.Duration
			off  bool
			all  float64 // messages of bills
			up   float64
		}{
			{"it answers", 0, false, 10, 1},
			{"it hangs, and has been up until now", time.Minute, true, 10, 1},
			{"it did not answer in ten seconds", 20 * time.Second, true, 10, 0},
			{"it has not answered for two minutes", 2 * time.Minute, true, 0, 0},
			{"it answers again", 2 * time.Minute, false, 10, 1},
		} {
			time.Sleep(c.wait)
			hangs.Store(c.off)
			begun := time.Now()
			got := gather(t, m)
			if took := time.Since(begun); took > 500*time.Millisecond {
				t.Errorf("%s: the scrape took %v", c.fact, took)
			}
			for _, x := range []struct {
				want   float64
				name   string
				labels []string
			}{
				{3, "gabion_outbox_messages", []string{"outbox=orders", "state=parked"}},
				{2, "gabion_outbox_messages", []string{"outbox=orders", "state=resting"}},
				{5, "gabion_outbox_messages", []string{"outbox=orders", "state=waiting"}},
				{3600, "gabion_outbox_oldest_age_seconds", []string{"outbox=orders"}},
				{1, "gabion_outbox_up", []string{"outbox=orders"}},
				{c.all, "gabion_outbox_messages", []string{"outbox=bills"}},
				{c.up, "gabion_outbox_up", []string{"outbox=bills"}},
			} {
				if is := got.sum(x.name, x.labels...); is != x.want {
					t.Errorf("%s: %s %v is %v, not %v", c.fact, x.name, x.labels, is, x.want)
				}
			}
		}
	})
}
