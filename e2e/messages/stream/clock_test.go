package stream

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/messages/clocks"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testclock"
	"github.com/gabion-go/gabion/messages/message"
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
	for n := range mortal.Size(len(steps), 40*len(steps)) {
		r.publish(15)
		dies := r.start("consumer", r.url, places[n%len(places)], 1)
		r.publish(15)
		dies.End(r, 3*time.Second) // the other may have everything
		clock.Step(t, steps[n%len(steps)])
		r.publish(5)
	}
	r.settled()
	other.End(r, 0)
	r.wantEachOnce()
}

// What is known for a minute is forgotten by a step of an hour, and is booked again: the steps of
// the rig reach the inbox. The default is 30 days, which has to be longer than any step.
func TestTheRigSeesAnInboxThatForgetsTooSoon(t *testing.T) {
	r := newRig(t, 1)
	clock := r.stepped()
	r.env = append(r.env, keepVar+"=1m")
	r.publish(9)
	r.start("consumer", r.url, "commit", 3).End(r, 10*time.Second)
	clock.Step(t, time.Hour)
	last := r.start("consumer", r.url, "", 0)
	r.settled()
	last.End(r, 0)
	if different, all := r.bank.Booked(); all == different {
		t.Errorf("%d bookings of %d messages", all, different)
	}
}

// Consumers whose own clocks are hours apart, and jump while they work, share an inbox. Each of
// them judges a message's deadline by its own clock, and nothing else: each message is booked once or
// is a letter once, and one without a deadline is no letter for that.
func TestConsumersWhoseOwnClocksJump(t *testing.T) {
	if os.Getenv("GABION_SOAK") != "1" {
		t.Skip("building consumers with another clock takes minutes: it is part of GABION_SOAK=1")
	}
	r := newRig(t, 1)
	r.exe = testclock.Build(t)
	jumps := [][]testclock.Jump{
		nil,
		{{After: 2, Off: 3600}, {After: 4, Off: -3600}, {After: 6, Off: 180}, {After: 8, Off: 0}},
		{{After: 1, Off: -7200}, {After: 3, Off: 7200}, {After: 5, Off: -180}},
	}
	start := func(n int, die string) *mortal.Child {
		r.env = []string{testclock.Env(0, jumps[n%len(jumps)]...)}
		return r.start("consumer", r.url, die, 2)
	}
	last := []*mortal.Child{start(0, ""), start(1, ""), start(2, "")}
	places := []string{"commit", "work", "fetch"}
	due := map[string]bool{}
	for n := range 12 {
		c := start(n, places[n%len(places)])
		for range 20 {
			r.publish(1)
			r.publishOne(message.Header{Name: message.Deadline, Value: strconv.FormatInt(time.Now().Add(30*time.Minute).UnixMilli(), 10)})
			due[strconv.Itoa(r.sent)] = true
			<-time.After(10 * time.Millisecond)
		}
		c.End(r, 3*time.Second)
	}
	r.settled()
	for _, c := range last {
		c.End(r, 0)
	}
	dead, expired := r.letters(), 0
	for i := 1; i <= r.sent; i++ {
		id := strconv.Itoa(i)
		booked := r.number("SELECT count(*) FROM bookings WHERE message = '" + id + "'")
		if booked+dead[id] != 1 {
			t.Errorf("message %s was booked %d times and is a letter %d times", id, booked, dead[id])
		}
		if dead[id] > 0 && i%every != 0 {
			if expired++; !due[id] {
				t.Errorf("message %s has no deadline, and is a letter", id)
			}
		}
	}
	if expired == 0 || expired == len(due) {
		t.Errorf("%d of %d messages expired: the clocks are not what they should be", expired, len(due))
	}
	t.Logf("%d messages, %d expired, %d duplicates recognized", r.sent, expired, r.said("ack/duplicate"))
}
