package stream

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/messages/clocks"
)

// stepped makes the clock of the consumers' database one that the test sets.
func (r *rig) stepped() clocks.File {
	f := clocks.File(filepath.Join(r.dir, "clock"))
	r.env = append(r.env, clockVar+"="+string(f))
	return f
}

// The clock of the inbox's database is set forward and back by hours while consumers are killed,
// with work begun under one time and found under another.
func TestTheInboxesClockIsStepped(t *testing.T) {
	r := newRig(t, 1)
	clock := r.stepped()
	steps := []time.Duration{time.Hour, -2 * time.Hour, 3 * time.Minute, 0}
	places := []string{"work", "commit", "letter", "commit"}
	other := r.start("consumer", r.url, "", 0)
	for n := range size(len(steps), 40*len(steps)) {
		r.publish(15)
		dies := r.start("consumer", r.url, places[n%len(places)], 1)
		r.publish(15)
		r.end(dies, 3*time.Second) // the other may have everything
		clock.Step(t, steps[n%len(steps)])
		r.publish(5)
	}
	r.settled()
	r.end(other, 0)
	r.wantEachOnce()
}

// What is known for a minute is forgotten by a step of an hour, and is booked again: the steps of
// the rig reach the inbox. The default is 30 days, which has to be longer than any step.
func TestTheRigSeesAnInboxThatForgetsTooSoon(t *testing.T) {
	r := newRig(t, 1)
	clock := r.stepped()
	r.env = append(r.env, keepVar+"=1m")
	r.publish(9)
	r.end(r.start("consumer", r.url, "commit", 3), 10*time.Second)
	clock.Step(t, time.Hour)
	last := r.start("consumer", r.url, "", 0)
	r.settled()
	r.end(last, 0)
	if all, different := r.number("SELECT count(*) FROM bookings"), r.number("SELECT count(DISTINCT message) FROM bookings"); all == different {
		t.Errorf("%d bookings of %d messages", all, different)
	}
}
