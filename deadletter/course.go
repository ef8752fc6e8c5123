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
	Outcomes uint32    // of the last letters, the newest in the lowest of 20 bits; one means done. Above them, how many leases were lost
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

// Lose returns the redrive after the lease of one of its letters was lost that another consumer
// takes: its work may have ended the process, so that counts as a failure of the last letters.
func (c Course) Lose() Course {
	const most = math.MaxUint32 >> judged
	if c.lost() < most {
		c.Outcomes += 1 << judged
	}
	return c.judge(0)
}

func (c Course) lost() int { return int(c.Outcomes >> judged) }

// judge adds an outcome, and stops the redrive if too few letters are done.
func (c Course) judge(done uint32) Course {
	const last = 1<<judged - 1
	c.Outcomes = c.Outcomes&^last | (c.Outcomes<<1|done)&last
	known, good := min(c.Done+c.Failed+c.lost(), judged), bits.OnesCount32(c.Outcomes&last)
	if c.State == Driving && known >= enough && 2*good < known {
		c.State = StoppedByItself
		c.Why = fmt.Sprintf("of the last %d letters %d were done, fewer than half", known, good)
		if n := c.lost(); n > 0 {
			c.Why += fmt.Sprintf("; in all, %d leases were lost with the consumers that had them", n)
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
