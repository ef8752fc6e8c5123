package idempotency

import "net/http"

// An ending is what a run that ended does to its record.
type ending uint8

const (
	completes ending = iota // Complete: the answer is kept
	releases                // Release: the next request runs
	abandons                // Abandon: nobody knows
	leaves                  // nothing: another holds the record, or will when the lease is over
)

// A manner is how the handler ended.
type manner uint8

const (
	final    manner = iota // 2xx, 3xx, and 4xx that will be the same next time
	backOff                // 408, 425, 429, and 503 with Retry-After: come back later
	broken                 // other 5xx
	panicked               // or runtime.Goexit
	fenced                 // its context was cancelled because the lease was lost
	manners
)

func mannerOf(status int, h http.Header) manner {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return backOff
	case http.StatusServiceUnavailable:
		if h.Get("Retry-After") != "" {
			return backOff
		}
	}
	if status >= 500 {
		return broken
	}
	return final
}

// endings says what a manner means under Hold and Reexecute, and under Hold when
// the handler said that nothing was done ([NoEffect]).
var endings = [manners]struct{ hold, holdNoEffect, reexecute ending }{
	final:    {completes, completes, completes},
	backOff:  {completes, releases, releases},
	broken:   {completes, releases, releases},
	panicked: {abandons, releases, releases},
	fenced:   {abandons, releases, leaves},
}

func (m manner) ending(g Guarantee, noEffect bool) ending {
	switch {
	case g == Reexecute:
		return endings[m].reexecute
	case noEffect:
		return endings[m].holdNoEffect
	}
	return endings[m].hold
}

// verdict is the same for Tx: what was rolled back had no effect for certain. An
// error that will be the same next time is kept without the effects, unless the
// handler asked for them ([CommitError]).
func (m manner) verdict(status int, commitError bool) Verdict {
	switch {
	case m != final:
		return Forget
	case status < 400 || commitError:
		return CommitResult
	}
	return KeepResult
}
