package deadletter

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A Course is a redrive as a store keeps it: with what paces and stops it. Its methods
// decide as those of [Record] do. It is for those who write stores.
type Course struct {
	Drive
	Next     time.Time // when the next letter may be taken
	Filling  time.Time // until when letters may still be added; zero once all are
	Outcomes uint32    // of the last letters, the newest in the lowest of 20 bits; one means done. Above them, in 5 bits how many those are, and how many takers were lost
}

// When a redrive stops by itself: of its last judged letters at least enough are known, and
// fewer than half were done.
const (
	judged = 20
	enough = 10
)

// burst is for how long letters that nobody took may be taken at once later. Longer, and a
// dependency that was just back would get what a paused consumer missed.
const burst = time.Second

// setBack is how far a time that can't be must lie ahead for the clock to count as one that was
// set back. Clocks that are corrected by less make nobody wait for long.
const setBack = time.Second

// fills bounds how long one part of ordering takes. If it takes longer, or the process that
// does it is gone, the redrive ends without the rest.
const fills = time.Minute

// errRate and its kin say what is wrong with an order.
var (
	errRate  = errors.New("deadletter: a redrive's rate is more than zero letters a second")
	errDrive = errors.New("deadletter: a redrive is of one group")
)

// NewCourse returns a redrive that is about to be filled, of what the query picks.
func NewCourse(q Query, d Drive, id string, now time.Time) (Course, error) {
	if d.Group == "" {
		d.Group = q.Group
	}
	if d.Group == "" || q.Group != "" && q.Group != d.Group {
		return Course{}, errDrive
	}
	if !(d.Rate > 0) || math.IsInf(d.Rate, 0) {
		return Course{}, fmt.Errorf("%w, not %v", errRate, d.Rate)
	}
	c := Course{Drive: Drive{ID: id, Group: d.Group, Rate: d.Rate, By: cut(d.By, maxName), Made: moment(now)}}
	c.Next, c.Filling = c.Made, c.Made.Add(fills)
	return c, nil
}

// Fill returns the redrive with so many more letters.
func (c Course) Fill(n int, now time.Time) Course {
	c.Total, c.Left = c.Total+n, c.Left+n
	c.Filling = moment(now.Add(fills))
	return c
}

// Filled returns the redrive once all letters are ordered.
func (c Course) Filled(now time.Time) Course {
	c.Filling = time.Time{}
	return c.At(now)
}

// At returns the redrive as it stands then: finished if nothing is left.
func (c Course) At(now time.Time) Course {
	filling := now.Before(c.Filling) && !c.Filling.After(now.Add(fills+setBack))
	if c.State == Driving && c.Left <= 0 && !filling {
		c.State = Finished
	}
	return c
}

// interval is the time between two letters.
func (c Course) interval() time.Duration {
	const longest = 365 * 24 * time.Hour
	ns := float64(time.Second) / c.Rate
	if ns > float64(longest) {
		return longest
	}
	return max(time.Duration(ns), 1)
}

// due is when the next letter may be taken, without what is too old to be made up for, and
// without a wait that only a clock can have made that was set back.
func (c Course) due(now time.Time) time.Time {
	if least := now.Add(-burst); c.Next.Before(least) {
		return least
	}
	if c.Next.After(now.Add(c.interval() + setBack)) {
		return now
	}
	return c.Next
}

// Due returns how many letters, at most n, may be taken now, and if that is fewer than n,
// how long it is until the next may be.
func (c Course) Due(n int, now time.Time) (int, time.Duration) {
	if c.State != Driving || n <= 0 {
		return 0, 0
	}
	wait := c.due(now).Sub(now)
	if wait > 0 {
		return 0, wait
	}
	each := c.interval()
	most := 1 + int64(-wait/each)
	if most >= int64(n) {
		return n, 0
	}
	return int(most), wait + time.Duration(most)*each
}

// Take returns the redrive after n letters were taken.
func (c Course) Take(n int, now time.Time) Course {
	if n > 0 {
		each := c.interval()
		c.Next = moment(c.due(now).Add(time.Duration(min(int64(n), math.MaxInt64/4/int64(each))) * each))
	}
	return c
}

// Leave returns the redrive after so many letters left it: they were done or dropped, or
// wait again.
func (c Course) Leave(n int, now time.Time) Course {
	c.Left = max(c.Left-n, 0)
	return c.At(now)
}

// Settle returns the redrive after one of its letters was done or was not, for which it has
// yet to Leave. It stops one of which too few are done.
func (c Course) Settle(done bool) Course {
	if done {
		c.Done++
		return c.judge(1)
	}
	c.Failed++
	return c.judge(0)
}

// lose returns the redrive after a taker was lost with letters: their work may have ended its
// process, so that counts as a failure of the last letters, once for all that it had.
func (c Course) lose() Course {
	if c.lost() < math.MaxUint32>>lostAt {
		c.Outcomes += 1 << lostAt
	}
	return c.judge(0)
}

// Where Outcomes has how many letters were judged, at most judged, and how many takers were lost.
const (
	knownAt = judged
	lostAt  = judged + 5
)

func (c Course) known() int { return int(c.Outcomes >> knownAt & (1<<(lostAt-knownAt) - 1)) }

func (c Course) lost() int { return int(c.Outcomes >> lostAt) }

// A Held is what takers have of a redrive's letters, for when some of those are lost. The zero
// value is empty. It is for those who write stores.
type Held struct {
	// Suspect says that who asks works on a letter that was lost before. It takes no other such
	// letter beside: if that work ends processes, the others are not suspected with it.
	Suspect bool

	of map[uint32]int // how many letters each has
}

// Add adds a letter that is taken. Of its Failures the last is enough. Taker is who asks.
func (h *Held) Add(r Record, taker uint32, now time.Time) {
	if h.of == nil {
		h.of = map[uint32]int{}
	}
	h.of[r.Taker()]++
	h.Suspect = h.Suspect || r.Taker() == taker && r.lostBefore() && !r.Takeable(now)
}

// Lose returns a letter that was lost, its redrive, and whether who asks may take the letter. One
// that is lost for a second time in a row is a failure of the redrive's last letters, and so is a
// taker, once its last letter is looked at.
func (h *Held) Lose(r Record, c Course, now time.Time) (Record, Course, bool) {
	h.of[r.Taker()]--
	next, again := r.Lost(now)
	switch {
	case r.lostBefore():
		c = c.judge(0)
	case h.of[r.Taker()] <= 0:
		c = c.lose()
	}
	if !again {
		c.Failed++
		c = c.Leave(1, now)
	}
	h.Suspect = again
	return next, c, again
}

// judge adds an outcome, and stops the redrive if too few letters are done.
func (c Course) judge(done uint32) Course {
	const last = 1<<judged - 1
	c.Outcomes = c.Outcomes&^last | (c.Outcomes<<1|done)&last
	if c.known() < judged {
		c.Outcomes += 1 << knownAt
	}
	known, good := c.known(), bits.OnesCount32(c.Outcomes&last)
	if c.State == Driving && known >= enough && 2*good < known {
		c.State = StoppedByItself
		c.Why = fmt.Sprintf("of the last %d letters %d were done, fewer than half", known, good)
		if n := c.lost(); n > 0 {
			c.Why += fmt.Sprintf("; in all, %d consumers were lost with letters that they had", n)
		}
	}
	return c
}

// Stop returns the redrive once somebody has stopped it. One that is over stays as it is.
func (c Course) Stop(by, why string) Course {
	if c.State != Driving {
		return c
	}
	c.State, c.Filling = Stopped, time.Time{}
	if c.Why = cut(why, MaxMessage); by != "" {
		if c.Why != "" {
			c.Why += " "
		}
		c.Why += "(by " + cut(by, maxName) + ")"
	}
	return c
}

// OrderWait is when to ask again for letters that wait for an older one of the same Order:
// nobody can say when that is settled.
const OrderWait = time.Second

// Again returns when to ask next, zero for when something is ordered: want letters were wanted,
// most were due, some were taken, wait is when the next is due, and later when others' leases
// end.
func (c Course) Again(want, most, some int, wait, later time.Duration) time.Duration {
	switch some {
	case want:
		return 0
	case most:
		return wait
	}
	return later
}

// Sooner returns the shorter of two waits, of which zero means never.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Errors of takings.
var (
	errTakeCount = fmt.Errorf("deadletter: one to %d letters are taken at once", maxPage)
	errTakeLease = errors.New("deadletter: a lease is longer than zero")
)

// CheckTake returns what is wrong with the arguments of a [Store.Take].
func CheckTake(group string, n int, lease time.Duration) error {
	switch {
	case group == "":
		return errGroup
	case n < 1 || n > maxPage:
		return errTakeCount
	case lease <= 0:
		return errTakeLease
	}
	return nil
}
