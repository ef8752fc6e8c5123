package outbox

import "time"

// A lease is what a relay knows of its lease, by its own clock. The database's clock decides
// who may have it; the relay stops before it ends there, since it counts from the moment
// before it asked and leaves a tenth out.
type lease struct {
	token  int64
	length time.Duration
	until  time.Time // when the relay stops
	next   time.Time // when it renews
}

// begun is a lease that was asked for at that time.
func begun(token int64, length time.Duration, asked time.Time) lease {
	return lease{token: token, length: length}.renewed(asked)
}

// renewed is the lease after a renewal that was asked for at that time and granted.
func (l lease) renewed(asked time.Time) lease {
	l.until, l.next = asked.Add(l.length-l.length/10), asked.Add(l.length/3)
	return l
}

// missed is the lease after a renewal of which the database did not say anything.
func (l lease) missed(now time.Time) lease {
	l.next = now.Add(l.length / 15)
	return l
}

// over reports whether the relay must not publish any more.
func (l lease) over(now time.Time) bool { return !now.Before(l.until) }
