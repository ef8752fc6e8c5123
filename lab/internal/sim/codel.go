package sim

import (
	"math"
	"time"
)

// codel decides whether the attempt at the head of the queue is dropped: controlled
// delay as in RFC 8289, whose loop over packets is the caller's loop here.
func (q *queue) codel(s *sim, v *service, a *attempt) bool {
	target, interval := v.Target, v.Interval
	if target <= 0 {
		target = 5 * time.Millisecond
	}
	if interval <= 0 {
		interval = 100 * time.Millisecond
	}
	high := s.now.Sub(a.came) >= target && q.n > 0
	switch {
	case !high:
		q.firstAbove = 0
	case q.firstAbove == 0:
		q.firstAbove = s.now.Add(interval)
		high = false
	default:
		high = s.now >= q.firstAbove
	}
	if !high {
		q.dropping = false
		return false
	}
	if !q.dropping {
		q.dropping = true
		needed := q.count - q.lastCount // what it took the last time
		q.count = 1
		if needed > 1 && s.now.Sub(q.dropNext) < 16*interval {
			q.count = needed
		}
		q.lastCount = q.count
		q.dropNext = s.now.Add(control(interval, q.count))
		return true
	}
	if s.now < q.dropNext {
		return false
	}
	q.count++
	q.dropNext = q.dropNext.Add(control(interval, q.count))
	return true
}

func control(interval time.Duration, count int) time.Duration {
	return time.Duration(float64(interval) / math.Sqrt(float64(count)))
}
