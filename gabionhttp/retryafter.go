package gabionhttp

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// RetryAfter reads how long, from now on, a response asks to be left alone, in either form of
// RFC 9110, section 10.2.3: whole seconds or a date, in any of HTTP's three formats. A date is
// compared with the response's own Date, so that the two clocks may differ, and with now if the
// response has no Date. More seconds than a [time.Duration] holds are its maximum. It reports
// false if the header is missing or malformed, or the date has passed. Of several lines, as a
// proxy adds its own, the longest counts.
func RetryAfter(h http.Header, now time.Time) (longest time.Duration, ok bool) {
	for _, value := range h["Retry-After"] {
		d, good := oneRetryAfter(strings.Trim(value, " \t"), h, now)
		longest, ok = max(longest, d), ok || good
	}
	return longest, ok
}

func oneRetryAfter(value string, h http.Header, now time.Time) (time.Duration, bool) {
	if n, ok := digits(value); ok {
		return times(n, time.Second), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if served, err := http.ParseTime(h.Get("Date")); err == nil {
		now = served
	}
	d := at.Sub(now)
	return max(d, 0), d > 0
}

// digits reads a number of nothing but digits, as HTTP's grammar has it: no sign,
// no fraction. Numbers too large for an int64 are its maximum.
func digits(s string) (int64, bool) {
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + d
	}
	return n, s != ""
}

// times returns n units, or the longest duration if that is too much.
func times(n int64, unit time.Duration) time.Duration {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
