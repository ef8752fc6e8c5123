package gabionhttp

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// told is what an answer says of one quota.
type told struct {
	unit    string
	left    float64
	limit   float64       // only where limited
	reset   time.Duration // only where resets: from now on
	window  time.Duration // zero: the server does not say it
	limited bool
	resets  bool
	full    bool // reset is when the quota is whole again, and not when some of it is
}

const (
	headerShopify = "X-Shopify-Shop-Api-Call-Limit"

	mostQuotas = 8                   // of one answer: as many as a policy can have
	mostLeft   = 1e15                // more is a mistake
	mostReset  = 32 * 24 * time.Hour // quotas by the month are the longest; more is a mistake, or milliseconds taken for seconds
	sinceEpoch = 1e9                 // seconds from 1970 to 2001: a larger number is a date, as no quota lasts so long
)

// speaks reports whether an answer may say something of quotas. It looks at names only, as nearly
// all answers of most servers say nothing.
func speaks(h http.Header) bool {
	for name := range h {
		if len(name) >= len("Ratelimit") && (strings.Contains(name, "atelimit") || strings.HasPrefix(name, "X-Rate-Limit-") || name == headerShopify) {
			return true
		}
	}
	return false
}

// quotasTold appends to to what an answer says of quotas. Now is when it came.
func quotasTold(to []told, h http.Header, now time.Time) []told {
	if served, err := http.ParseTime(h.Get("Date")); err == nil {
		now = served
	}
	begun := len(to)
	for i := range dialects {
		d := &dialects[i]
		before := len(to)
		tell := func(q told) {
			known := slices.ContainsFunc(to[begun:before], func(have told) bool { return have.unit == q.unit })
			if !known && len(to)-begun < mostQuotas {
				if q.reset > mostReset {
					q.reset, q.resets = 0, false
				}
				to = append(to, q)
			}
		}
		if d.read != nil {
			d.read(h, now, tell)
		}
		for j := range d.quotas {
			if q, ok := d.quotas[j].told(h, now); ok {
				tell(q)
			}
		}
	}
	return to
}

func (n *quotaHeaders) told(h http.Header, now time.Time) (q told, known bool) {
	if line, ok := firstLine(h, n.left); ok {
		q.left, known = quantity(line)
	}
	if !known {
		return q, false
	}
	q.unit, q.full, q.window = n.unit, n.full, n.window
	if line, ok := firstLine(h, n.limit); ok {
		q.limit, q.limited = quantity(line)
	}
	line, ok := firstLine(h, n.after)
	if !ok {
		line, ok = firstLine(h, n.reset)
	}
	if ok {
		q.reset, q.resets = resetIn(line, now)
	}
	return q, true
}

// room is when some of a quota that is used up will be there again, as far as the server says.
func (q *told) room() (time.Duration, bool) {
	switch {
	case q.left > 0 || !q.resets:
		return 0, false
	case !q.full:
		return q.reset, true
	case q.unit == "requests" && q.limited && q.limit >= 1:
		return time.Duration(float64(q.reset) / q.limit), true
	}
	return q.reset / refill, true
}

// refill is the part of a bucket that is waited for where a request takes an unknown number of units.
const refill = 20

// emptied is how long, from now on, an answer says that one of the server's quotas has nothing left.
func emptied(h http.Header, now func() time.Time) (longest time.Duration, empty bool) {
	if !speaks(h) {
		return 0, false
	}
	var room [mostQuotas]told
	for _, q := range quotasTold(room[:0], h, now()) {
		if d, ok := q.room(); ok && d > 0 {
			longest, empty = max(longest, d), true
		}
	}
	return longest, empty
}

// firstLine returns the first line of a header that is no longer than any such value is.
func firstLine(h http.Header, name string) (string, bool) {
	if lines := h[name]; len(lines) > 0 && len(lines[0]) <= 64 {
		return strings.Trim(lines[0], " \t"), true
	}
	return "", false
}

// quantity reads a number without sign and exponent, as in "100", "59.5" and "100, 100;w=60", whose
// first number is the limit.
func quantity(s string) (n float64, ok bool) {
	s, _, _ = cut(s, ",")
	s, _, _ = cut(s, ";")
	whole, fraction, dotted := cut(s, ".")
	i, ok := digits(whole)
	if !ok || float64(i) > mostLeft {
		return 0, false
	}
	n = float64(i)
	if dotted {
		part, ok := digits(fraction)
		if !ok || len(fraction) > 9 {
			return 0, false
		}
		n += float64(part) / math.Pow10(len(fraction))
	}
	return n, true
}

func cut(s, at string) (before, after string, found bool) {
	before, after, found = strings.Cut(s, at)
	return strings.Trim(before, " \t"), strings.Trim(after, " \t"), found
}

// resetIn reads when a quota resets, from now on: a number of seconds, a number of seconds or
// milliseconds since 1970, a date, or a duration such as "6m0s", "12ms" and "1d2h". A time that has passed is
// zero.
func resetIn(s string, now time.Time) (time.Duration, bool) {
	if n, ok := quantity(s); ok && !strings.ContainsAny(s, ",;") {
		switch {
		case n < sinceEpoch:
			return seconds(n), true
		case n < sinceEpoch*1000:
			return until(time.Unix(0, 0).Add(seconds(n)), now), true
		}
		return until(time.UnixMilli(int64(n)), now), true
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return until(at, now), true
	}
	if at, err := http.ParseTime(s); err == nil {
		return until(at, now), true
	}
	var days time.Duration
	if before, after, found := cut(s, "d"); found {
		n, ok := digits(before)
		if !ok || n > 1000 {
			return 0, false
		}
		if days, s = time.Duration(n)*24*time.Hour, after; s == "" {
			return days, true
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || strings.HasPrefix(s, "-") || d > math.MaxInt64-days {
		return 0, false
	}
	return days + d, true
}

func until(at, now time.Time) time.Duration { return max(at.Sub(now), 0) }

// seconds is that many, or the longest duration; below zero it is none.
func seconds(n float64) time.Duration {
	if n >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return max(time.Duration(n*float64(time.Second)), 0)
}
