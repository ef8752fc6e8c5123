//go:build unix

package stream

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
)

// Consumers are stopped for longer than the broker waits and a lease lasts, before the work, in it,
// and between COMMIT and acknowledgement. Others get what they had. They go on with it as if
// nothing had been, and yet each message is booked once.
func TestConsumersAreStoppedForLongerThanTheBrokerWaits(t *testing.T) {
	r := newRig(t, 1)
	r.stop = true
	other := r.start("consumer", r.url, "", 0)
	places := []string{"fetch", "work", "commit"}
	for n := range mortal.Size(len(places), 100*len(places)) {
		c := r.start("consumer", r.url, places[n%len(places)], 1)
		r.stopped(n+1, func() { r.publish(5) }) // or the other may have everything
		<-time.After(stopFor)                   // it may have SQLite's one write lock: then the other waits, too
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		r.publish(5)
		r.settled()
		c.End(r, 0)
	}
	other.End(r, 0)
	r.wantEachOnce()
	if r.said("ack/duplicate") == 0 {
		t.Error("nothing came twice: the rig proves nothing")
	}
}

// The same stop makes a consumer without an inbox book twice.
func TestTheRigSeesAStoppedConsumerWithoutAnInbox(t *testing.T) {
	r := newRig(t, 1)
	r.stop = true
	r.publish(9)
	first := r.start("naive", r.url, "commit", 3)
	r.stopped(1, func() {})
	second := r.start("naive", r.url, "", 0)
	r.eventually("what the stopped one has booked is booked again", func() error {
		if different, all := r.bank.Booked(); all == different {
			return fmt.Errorf("%d bookings", all)
		}
		return nil
	})
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.settled()
	first.End(r, 0)
	second.End(r, 0)
}
