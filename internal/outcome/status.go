package outcome

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// The statuses of HTTP that don't mean what their hundreds mean. Overloaded is what model
// providers answer when all of their service is too busy. It is not registered, and says
// nothing of what was done.
const (
	requestTimeout      = 408
	tooManyRequests     = 429
	notImplemented      = 501
	badGateway          = 502
	unavailable         = 503
	gatewayTimeout      = 504
	versionNotSupported = 505
	overloaded          = 529
)

// meanings are what they mean, all of them failures. What may have happened is known only where the server says
// that it did not begin.
var meanings = map[int]policy.Outcome{
	requestTimeout:      {Class: policy.ClassTimeout, Effect: policy.UnknownEffect},
	tooManyRequests:     {Class: policy.ClassThrottled, Undone: true},
	notImplemented:      {Class: policy.ClassClient, Effect: policy.UnknownEffect},
	badGateway:          {Class: policy.ClassServer, Effect: policy.UnknownEffect},
	unavailable:         {Class: policy.ClassServer, Effect: policy.UnknownEffect, Busy: true},
	gatewayTimeout:      {Class: policy.ClassTimeout, Effect: policy.UnknownEffect},
	versionNotSupported: {Class: policy.ClassClient, Effect: policy.UnknownEffect},
	overloaded:          {Class: policy.ClassServer, Effect: policy.UnknownEffect, Busy: true},
}

// byHundred is what all other statuses mean. A 500 may be a bug and not a blip,
// so it is tried once more and no more.
var byHundred = [...]policy.Outcome{
	1: {Class: policy.ClassSuccess}, 2: {Class: policy.ClassSuccess}, 3: {Class: policy.ClassSuccess},
	4: {Class: policy.ClassClient},
	5: {Class: policy.ClassServer, Effect: policy.UnknownEffect, Once: true},
}

// ByStatus is what a status of HTTP means by itself.
func ByStatus(code int) policy.Outcome {
	if code >= 400 {
		if o, ok := meanings[code]; ok {
			return o
		}
	}
	if h := code / 100; h >= 1 && h < len(byHundred) {
		return byHundred[h]
	}
	return policy.Failed(policy.ClassUnclassified)
}

// Listed lets the policy have the last word on a status. A status in both lists
// is permanent: the list that retries less wins.
func Listed(code int, p *policy.HTTP, o policy.Outcome) policy.Outcome {
	no, yes := slices.Contains(p.Permanent, code), slices.Contains(p.Transient, code)
	if (no || yes) && code < 400 {
		o.Effect = policy.UnknownEffect // a failure dressed as a success
	}
	switch {
	case no:
		o.Class, o.Busy = policy.ClassClient, false
	case yes:
		return Retryable(o)
	}
	return o
}

// Retryable is o where something says that it is worth any number of retries.
func Retryable(o policy.Outcome) policy.Outcome {
	if !o.Class.Transient() {
		o.Class = policy.ClassServer
	}
	o.Once = false
	return o
}

// Declined is what the refusal of an Admission means. Nothing was done. The server works
// and has no room, so that the breaker stays closed, and calls are spaced instead; unless
// only this tenant or this priority had too many, and others may come: then it does not say stop.
func Declined(code int, o policy.Outcome, stop bool) policy.Outcome {
	o.Effect, o.Undone = policy.NoEffect, true
	if code == unavailable && o.Class == policy.ClassServer {
		o.Class = policy.ClassThrottled
		o.Alone, o.Busy = !stop, stop
	}
	return o
}

// statusDigits are the three digits of every status that has three.
var statusDigits = func() string {
	var b strings.Builder
	for code := 100; code < 1000; code++ {
		b.WriteString(strconv.Itoa(code))
	}
	return b.String()
}()

// StatusText is a status as [policy.Outcome.Code] says it, without an allocation.
func StatusText(code int) string {
	if code < 100 || code > 999 {
		return "" // no status
	}
	at := 3 * (code - 100)
	return statusDigits[at : at+3]
}
