package deadletter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A Course is the redrive of a group as a store keeps it: which waiting letters it is of, and what
// paces and stops it. A group has one at a time. Its methods decide as those of [Stored] do: they
// change nothing. It is for those who write stores.
type Course struct {
	Drive
	Query    Query     // picks its letters among those that wait
	Next     time.Time // when the next letter may be taken
	After    time.Time // of what was put away before, nothing is left to be taken
	Outcomes uint32    // of the last letters, the newest in the lowest of 20 bits; one means done. Above them, in 5 bits how many those are, and how many takers were lost
	Holder   uint32    // the taker that has it
	Seen     time.Time // when that asked last
}

// When a redrive stops by itself: of its last judged letters at least enough are known, and
// fewer than half were done.
const (
	judged = 20
	enough = 10
)

// burst limits catching up: letters that were due and not taken, for up to this long, may be taken
// at once later. Longer, and a dependency that was just back would get what a paused consumer
// missed.
const burst = time.Second

// setBack is how far a time that can't be must lie ahead for the clock to count as one that was
// set back. A clock that is corrected by less delays no letter for long.
const setBack = time.Second

// errRate and its kin say what is wrong with an order.
var (
	errRate  = errors.New("deadletter: a redrive's rate is more than zero letters a second")
	errDrive = errors.New("deadletter: a redrive is of one group")
)

// NewCourse returns the redrive of what the query picks and waits now: total letters.
func NewCourse(q Query, d Drive, id string, total int, now time.Time) (Course, error) {
	if d.Group == "" {
		d.Group = q.Group
	}
	if d.Group == "" || q.Group != "" && q.Group != d.Group {
		return Course{}, errDrive
	}
	if !(d.Rate > 0) || math.IsInf(d.Rate, 0) {
		return Course{}, fmt.Errorf("%w, not %v", errRate, d.Rate)
	}
	c := Course{Drive: Drive{ID: id, Group: d.Group, Rate: d.Rate, By: cut(d.By, maxName), Made: moment(now), Total: total}}
	if total == 0 {
		c.State = Finished
	}
	q.Group, q.States = d.Group, nil
	if end := c.Made.Add(1); q.Before.IsZero() || q.Before.After(end) {
		q.Before = end
	}
	c.Query, c.Next = q, c.Made
	return c.Stands(), nil
}

// Stands returns the redrive with how many letters it still has to do.
func (c Course) Stands() Course {
	c.Left = 0
	if c.State == Driving {
		c.Left = max(c.Total-c.Done-c.Failed, 0)
	}
	return c
}

// Picks reports whether the redrive may take the letter: it waits, needs no Resolution, and was
// not taken by this redrive before.
func (c *Course) Picks(l *Letter) bool {
	return l.State == Waiting && !(l.Reason == Unknown && l.Resolved == Unresolved) && l.Drive != c.ID && !l.Kept.Before(c.After) && c.Query.Picks(l)
}

// Busy is the error of an order where the redrive still has letters to do, and nil where it has none.
func (c Course) Busy() error {
	if c.ID == "" || c.Left == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s by %s, ordered %s, at %v letters a second. Stop it, or wait for its end", ErrBusy, c.ID, cmp.Or(c.By, "an unnamed user"), c.Made.Format(time.RFC3339), c.Rate)
}

// Hold returns the redrive as the taker's, or for how long another has it: one process paces
// a redrive. A process that did not ask for as long as the lease has it no longer.
func (c Course) Hold(taker uint32, lease time.Duration, now time.Time) (_ Course, wait time.Duration) {
	if wait = c.Seen.Add(lease).Sub(now); wait > 0 && c.Holder != taker && !c.Seen.IsZero() && !c.Seen.After(now.Add(setBack)) {
		return c, wait
	}
	c.Holder, c.Seen = taker, moment(now)
	return c, 0
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

// Settle returns the redrive after one of its letters was settled. It stops one of which too few are
// done. A letter whose work did not run is to be taken again.
func (c Course) Settle(r Stored, v Verdict) Course {
	switch {
	case v.State == Done:
		c.Done++
		return c.judge(1).Stands()
	case v.Failure != nil:
		c.Failed++
		return c.judge(0).Stands()
	}
	return c.back(r)
}

// back returns the redrive after one of its letters is to be taken again.
func (c Course) back(r Stored) Course {
	if r.Kept.Before(c.After) {
		c.After = r.Kept
	}
	return c
}

// Lose returns letters whose leases are over as letters that wait, and their group's redrive. Alive
// are the letters whose leases are not over. A letter that was lost once is taken again by the
// redrive. One that was lost twice in a row is a failure of it, and so is a taker once it has no letter any more.
func (c Course) Lose(lost, alive []Stored, now time.Time) ([]Stored, Course) {
	next, takers := make([]Stored, len(lost)), map[uint32]bool{}
	for i, r := range lost {
		var again bool
		next[i], again = r.Lost(now)
		if r.Drive != c.ID {
			continue
		}
		if again {
			next[i].Drive, takers[r.taker()], c = "", true, c.back(r)
			continue
		}
		c.Failed++
		c = c.judge(0)
	}
	for i := range alive {
		delete(takers, alive[i].taker())
	}
	for range takers {
		c = c.lose()
	}
	return next, c.Stands()
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

// A Taking chooses letters of a redrive. A store begins one with [Course.Begin] and offers it
// what [Course.Picks], in the order of lists, until it is Full or nothing is left.
type Taking struct {
	IDs   []ID          // what is to be taken
	Later time.Duration // when there may be more: letters that are taken, or that wait for those; zero if there are none

	course  Course
	most    int
	busy    map[string]bool // orders of which a letter is taken or left
	suspect bool            // a letter is taken that was lost before: it may have ended its consumer
	open    bool            // a letter is taken, or left
	left    bool            // a letter is left, the first of which says how far the redrive is
	least   time.Time       // when the first was put away that consumers have of the redrive before; zero without one
}

// Begin begins to choose up to most letters. Alive are the letters of the group that are taken.
func (c Course) Begin(most int, alive []Stored, now time.Time) *Taking {
	t := &Taking{course: c, most: most, busy: map[string]bool{}}
	for i := range alive {
		r := &alive[i]
		t.busy[r.Order] = true
		switch of := c.awaits(r); {
		case !of && r.Drive != c.ID:
			continue
		case !of:
			t.suspect = t.suspect || lostBefore(r.Failures)
		case t.least.IsZero() || r.Kept.Before(t.least):
			t.least = r.Kept
		}
		t.open, t.Later = true, sooner(t.Later, max(r.Until.Sub(now), 1))
	}
	return t
}

// awaits reports whether a letter that a consumer has of the redrive before is one of this one's if it waits again.
func (c *Course) awaits(r *Stored) bool {
	l := r.Letter
	l.State = Waiting
	return c.Picks(&l)
}

// Full reports whether no more letters need be offered.
func (t *Taking) Full() bool { return len(t.IDs) >= t.most && t.open }

// Offer takes a letter or leaves it. Of its Failures the last is enough. A letter is left while an
// older one of its Order is taken or left, and one that was lost before while another of these is taken.
func (t *Taking) Offer(l *Letter) {
	t.open = true
	lost := lostBefore(l.Failures)
	held := l.Order != "" && t.busy[l.Order] || lost && t.suspect
	if !t.left {
		t.course.After = l.Kept
	}
	t.busy[l.Order] = true
	switch {
	case held:
		t.left, t.Later = true, sooner(t.Later, OrderWait)
	case len(t.IDs) >= t.most:
		t.left = true
	default:
		t.IDs, t.suspect = append(t.IDs, l.ID), t.suspect || lost
	}
}

// End returns the redrive after the letters were taken, and when to ask next if fewer than n were:
// zero is when something is ordered. Wait is that of [Course.Due].
func (t *Taking) End(n int, wait time.Duration, now time.Time) (c Course, again time.Duration) {
	c = t.course.Take(len(t.IDs), now)
	if !t.least.IsZero() && t.least.Before(c.After) {
		c.After = t.least
	}
	if !t.open {
		c.State = Finished
		return c.Stands(), 0
	}
	switch len(t.IDs) {
	case n:
		return c.Stands(), 0
	case t.most:
		return c.Stands(), wait
	}
	return c.Stands(), t.Later
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

// Stop returns the redrive as stopped by an operator. One that is over stays as it is.
func (c Course) Stop(by, why string) Course {
	if c.State != Driving {
		return c
	}
	c.State = Stopped
	if c.Why = cut(why, MaxMessage); by != "" {
		if c.Why != "" {
			c.Why += " "
		}
		c.Why += "(by " + cut(by, maxName) + ")"
	}
	return c.Stands()
}

// OrderWait is when to ask again for letters that wait for an older one of the same Order. When
// that one is settled is unknown.
const OrderWait = time.Second

// sooner returns the shorter of two waits, of which zero means never.
func sooner(a, b time.Duration) time.Duration {
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
