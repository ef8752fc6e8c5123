package gabionhttp

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// exactAfter are the headers that say in milliseconds what Retry-After says in whole
// seconds: of OpenAI, Azure and AWS.
var exactAfter = [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"}

// waitFor is how long, from now on, a failure asks to be left alone. Servers that
// say it in milliseconds round the same time up for Retry-After, so that the exact one
// counts; where the two differ by more than rounding, the longer does. Zero names no
// time: our own back-off then.
func waitFor(h http.Header, now func() time.Time) (time.Duration, bool) {
	var exact, rounded time.Duration
	for _, name := range exactAfter {
		for _, value := range h[name] {
			d, _ := milliseconds(value)
			exact = max(exact, d)
		}
	}
	if h["Retry-After"] != nil {
		rounded, _ = RetryAfter(h, now())
	}
	after := max(exact, rounded)
	if exact > 0 && rounded-exact < time.Second {
		after = exact
	}
	return after, after > 0
}

// milliseconds reads a number of them, which may have a fraction, as some servers
// write it. A fraction of a nanosecond is rounded up.
func milliseconds(value string) (time.Duration, bool) {
	whole, fraction, dotted := strings.Cut(strings.Trim(value, " \t"), ".")
	n, ok := digits(whole)
	if !ok {
		return 0, false
	}
	d := times(n, time.Millisecond)
	if !dotted {
		return d, true
	}
	part, ok := digits(fraction)
	if !ok {
		return 0, false
	}
	if part > 0 && d <= math.MaxInt64-time.Millisecond {
		d += time.Millisecond // never earlier than it says
	}
	return d, true
}
