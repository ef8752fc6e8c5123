package stream

import (
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/messages/message"
)

// Work that takes longer than the broker waits is delivered once, since heartbeats keep it. A
// consumer without them has it again and again, beside itself.
func TestWorkTakesLongerThanTheBrokerWaits(t *testing.T) {
	for _, c := range []struct {
		role  string
		twice bool
	}{{"consumer", false}, {"naive", true}} {
		t.Run(c.role, func(t *testing.T) {
			r := newRig(t, 1)
			for range mortal.Size(3, 200) {
				r.publishOne(message.Header{Name: takes, Value: (2 * ackWait).String()})
				r.publish(3)
			}
			pair := []*mortal.Child{r.start(c.role, r.url, "", 0), r.start(c.role, r.url, "", 0)}
			r.settled()
			for _, one := range pair {
				one.End(r, 0)
			}
			if !c.twice {
				r.wantEachOnce()
				if n := r.said("ack/duplicate"); n > 0 {
					t.Errorf("%d messages were delivered again while a consumer worked on them", n)
				}
				return
			}
			if different, all := r.bank.Booked(); all == different {
				t.Errorf("%d bookings of %d messages: the rig proves nothing", all, different)
			}
		})
	}
}

// stopped waits until n consumers have said that they stop, and calls during until then.
func (r *rig) stopped(n int, during func()) {
	r.Helper()
	r.eventually("consumers stop", func() error {
		if is := r.said("stops at"); is < n {
			during()
			return fmt.Errorf("%d of %d", is, n)
		}
		return nil
	})
}

// stopFor is longer than the broker waits, and than a lease lasts.
const stopFor = lease + ackWait + 300*time.Millisecond
