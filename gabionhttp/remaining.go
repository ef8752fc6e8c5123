package gabionhttp

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

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

// Remaining returns what an answer says is left of its server's quotas, in all dialects that gabion knows
// (docs/llm.md has the table), at most eight. Now is when it came, and counts where the answer has no Date. What is malformed or
// can't be meant is left out.
func Remaining(h http.Header, now time.Time) []policy.Remaining {
	if !speaks(h) {
		return nil
	}
	return remaining(nil, h, now)
}

// remaining appends to to what an answer says of quotas.
func remaining(to []policy.Remaining, h http.Header, now time.Time) []policy.Remaining {
	if served, err := http.ParseTime(h.Get("Date")); err == nil {
		now = served
	}
	for i := range dialects {
		d := &dialects[i]
		of := len(to)
		tell := func(q policy.Remaining) {
			if q.Reset > mostReset {
				q.Reset = 0
			}
			for j := range to {
				switch have := &to[j]; {
				case have.Unit != q.Unit:
				case j < of:
					return
				case have.Window == q.Window: // as of an organization and of a project: the one with less counts
					if q.Left < have.Left || q.Left == have.Left && q.Reset > have.Reset {
						*have = q
					}
					return
				}
			}
			if len(to) < mostQuotas {
				to = append(to, q)
			}
		}
		if d.read != nil {
			d.read(h, tell)
		}
		for j := range d.quotas {
			if q, ok := d.quotas[j].remaining(h, now); ok {
				tell(q)
			}
		}
	}
	return to
}

func (n *quotaHeaders) remaining(h http.Header, now time.Time) (q policy.Remaining, known bool) {
	if line, ok := firstLine(h, n.left); ok {
		q.Left, known = quantity(line)
	}
	if !known {
		return q, false
	}
	q.Unit, q.Full, q.Window = n.unit, n.full, n.window
	if name, ok := firstLine(h, n.resource); ok && name != "core" && isUnit(name) {
		q.Unit = name
	}
	if line, ok := firstLine(h, n.limit); ok {
		q.Limit, _ = quantity(line)
	}
	line, ok := firstLine(h, n.after)
	if !ok {
		line, ok = firstLine(h, n.reset)
	}
	if ok {
		q.Reset, _ = resetIn(line, now)
	}
	return q, true
}

// emptied is how long, from now on, an answer says that one of the server's quotas but those has nothing left.
func emptied(h http.Header, now func() time.Time, but ...policy.Quota) (longest time.Duration, empty bool) {
	if !speaks(h) {
		return 0, false
	}
	return quota.Emptied(remaining(nil, h, now()), but)
}

// isUnit reports whether a quota can have that unit.
func isUnit(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" && s[0] >= 'a' && s[0] <= 'z'
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

// seconds is that many, or the longest duration, and zero where n is below it.
func seconds(n float64) time.Duration {
	if n >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return max(time.Duration(n*float64(time.Second)), 0)
}
