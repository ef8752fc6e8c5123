package deadlettertest

import (
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// Stores can't tell a step of less than a second from the inaccuracy of clocks.
var clockCases = []oneCase{
	{"a redrive goes on after the clock was set back", deadletter.Options{}, setBack},
	{"a letter of a dead process is taken after the clock was set back", deadletter.Options{}, heldBySetBack},
	{"a clock that is set forward ends leases and brings nothing out twice", deadletter.Options{}, setForward},
}

// The rate holds from the new time on: letters don't wait until the clock is where it was.
func setBack(b *bench) {
	ids := b.put("g", 4)
	d := b.order("g", 0.1) // one in ten seconds
	first, _ := b.take("g", 4)
	b.wantTaken(first, ids[0])
	b.ok(b.Settle(b.Context(), first[0], done))
	b.pass(-500 * time.Millisecond)
	none, _ := b.take("g", 4)
	b.wantTaken(none)
	b.pass(-time.Hour)
	second, _ := b.take("g", 4)
	b.wantTaken(second, ids[1])
	none, again := b.take("g", 4)
	b.wantTaken(none)
	b.same("again", again, 10*time.Second)
	b.ok(b.Settle(b.Context(), second[0], done))
	b.pass(again)
	third, _ := b.take("g", 1)
	b.wantTaken(third, ids[2])
	b.wantDrive(d.ID, deadletter.Drive{Total: 4, Left: 2, Done: 2})
}

// How long such a lease lasts is unknown. The consumer that still has it learns that it is lost.
func heldBySetBack(b *bench) {
	id := b.put("g", 1)[0]
	d := b.order("g", 1000)
	first, _ := b.take("g", 1)
	b.wantTaken(first, id)
	b.pass(-500 * time.Millisecond)
	none, _ := b.take("g", 1)
	b.wantTaken(none)
	b.pass(-time.Hour)
	second, _ := b.take("g", 1)
	b.wantTaken(second, id)
	none, _ = b.take("g", 1)
	b.wantTaken(none)
	b.is(b.Extend(b.Context(), first[0], time.Minute), deadletter.ErrLost)
	b.is(b.Settle(b.Context(), first[0], done), deadletter.ErrLost)
	b.ok(b.Settle(b.Context(), second[0], done))
	b.ended("g")
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1, Done: 1})
}

// A clock that is set forward ends leases and pauses early, and nothing comes out twice for that.
func setForward(b *bench) {
	ids := b.put("g", 2)
	d := b.order("g", 1)
	first, _ := b.take("g", 2)
	b.wantTaken(first, ids[0])
	b.pass(time.Hour)
	second, _ := b.take("g", 2)
	b.wantTaken(second, ids[0], ids[1])
	b.is(b.Settle(b.Context(), first[0], done), deadletter.ErrLost)
	for _, l := range second {
		b.ok(b.Settle(b.Context(), l, done))
	}
	b.ended("g")
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 2, Done: 2})
}
