package gabionhttp

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

var (
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	atNoon = func() time.Time { return noon }
)

// header makes a header of alternating names and values.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"C71 seconds", "2", 2 * time.Second, true},
		{"zero seconds", "0", 0, true},
		{"space around", " 7\t", 7 * time.Second, true},
		{"leading zeros", "0000000000000000000000012", 12 * time.Second, true},
		{"more seconds than a duration holds", "9223372037", math.MaxInt64, true},
		{"more digits than a number holds", strings.Repeat("9", 400), math.MaxInt64, true},
		{"C71 a date five seconds ahead", "Sat, 21 Nov 2026 12:00:05 GMT", 5 * time.Second, true},
		{"a date as in RFC 850", "Saturday, 21-Nov-26 12:00:05 GMT", 5 * time.Second, true},
		{"a date as C writes it", "Sat Nov 21 12:00:05 2026", 5 * time.Second, true},
		{"a date in the far future", "Fri, 31 Dec 9999 23:59:59 GMT", math.MaxInt64, true},
		{"C71 a date gone by", "Sat, 21 Nov 2026 11:59:59 GMT", 0, false},
		{"a date that is now", "Sat, 21 Nov 2026 12:00:00 GMT", 0, false},
		{"C71 garbage", "soon", 0, false},
		{"negative", "-1", 0, false},
		{"signed", "+1", 0, false},
		{"fractional", "1.5", 0, false},
		{"a list", "1, 2", 0, false},
		{"a unit", "10s", 0, false},
		{"digits of another script", "１", 0, false},
		{"empty", "", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := RetryAfter(header("Retry-After", tt.value), noon)
			if got != tt.want || ok != tt.ok {
				t.Errorf("RetryAfter(%q) = %v, %v, want %v, %v", tt.value, got, ok, tt.want, tt.ok)
			}
		})
	}
	if _, ok := RetryAfter(http.Header{}, noon); ok {
		t.Error("a missing header says something")
	}
}

// C3: "never earlier than it says" means by the clock of who says it.
func TestADateIsReckonedByTheServersClock(t *testing.T) {
	const date = "Sat, 21 Nov 2026 12:00:05 GMT"
	tests := []struct {
		name, served string
		now          time.Time
		want         time.Duration
		ok           bool
	}{
		{"our clock is an hour ahead", "Sat, 21 Nov 2026 12:00:00 GMT", noon.Add(time.Hour), 5 * time.Second, true},
		{"our clock is an hour behind", "Sat, 21 Nov 2026 12:00:00 GMT", noon.Add(-time.Hour), 5 * time.Second, true},
		{"passed by the server's clock alone", "Sat, 21 Nov 2026 12:00:06 GMT", noon, 0, false},
		{"the server's date is garbage", "noon", noon, 5 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := header("Retry-After", date)
			h.Set("Date", tt.served)
			if got, ok := RetryAfter(h, tt.now); got != tt.want || ok != tt.ok {
				t.Errorf("%v, %v, want %v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// C3, C72: milliseconds are the same time said more exactly.
func TestTheExactTimeCounts(t *testing.T) {
	tests := []struct {
		name   string
		header []string
		want   time.Duration
	}{
		{"milliseconds alone", []string{"Retry-After-Ms", "350"}, 350 * time.Millisecond},
		{"OpenAI's, with the seconds that it rounds up to", []string{"Retry-After-Ms", "350", "Retry-After", "1"}, 350 * time.Millisecond},
		{"exactly whole seconds", []string{"Retry-After-Ms", "2000", "Retry-After", "2"}, 2 * time.Second},
		{"seconds that were rounded down", []string{"Retry-After-Ms", "2400", "Retry-After", "2"}, 2400 * time.Millisecond},
		{"seconds that are more than rounding", []string{"Retry-After-Ms", "100", "Retry-After", "60"}, time.Minute},
		{"C72 AWS's", []string{"X-Amz-Retry-After", "1500"}, 1500 * time.Millisecond},
		{"Azure's", []string{"X-Ms-Retry-After-Ms", "20"}, 20 * time.Millisecond},
		{"the longest of several", []string{"X-Ms-Retry-After-Ms", "20", "Retry-After-Ms", "30", "Retry-After-Ms", "10"}, 30 * time.Millisecond},
		{"a fraction is rounded up", []string{"Retry-After-Ms", "12.25"}, 13 * time.Millisecond},
		{"a fraction of nothing", []string{"Retry-After-Ms", "12.0"}, 12 * time.Millisecond},
		{"C72 zero", []string{"Retry-After-Ms", "0"}, 0},
		{"zero with seconds", []string{"Retry-After-Ms", "0", "Retry-After", "3"}, 3 * time.Second},
		{"C72 garbage", []string{"Retry-After-Ms", "invalid"}, 0},
		{"C72 negative", []string{"Retry-After-Ms", "-100"}, 0},
		{"garbage after the point", []string{"Retry-After-Ms", "1.x"}, 0},
		{"garbage with seconds", []string{"Retry-After-Ms", "soon", "Retry-After", "3"}, 3 * time.Second},
		{"more than a duration holds", []string{"Retry-After-Ms", strings.Repeat("9", 30) + ".9"}, math.MaxInt64},
		{"nothing", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := waitFor(header(tt.header...), atNoon); got != tt.want || ok != (tt.want > 0) {
				t.Errorf("%v, %v, want %v", got, ok, tt.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"2", "-1", "1.5", "99999999999999999999", "Sat, 21 Nov 2026 12:00:05 GMT"} {
		f.Add(s, noon.Unix())
	}
	f.Fuzz(func(t *testing.T, s string, now int64) {
		d, ok := RetryAfter(header("Retry-After", s), time.Unix(now, 0))
		if d < 0 || !ok && d != 0 {
			t.Errorf("RetryAfter(%q) = %v, %v", s, d, ok)
		}
		if ok && d%time.Second != 0 && d != math.MaxInt64 {
			t.Errorf("RetryAfter(%q) = %v, which no header says", s, d)
		}
	})
}

func TestStatuses(t *testing.T) {
	server := policy.Failed(policy.ClassServer)
	once, busy := server, server
	once.Once, busy.Busy = true, true
	wrong := policy.Outcome{Class: policy.ClassClient}
	want := map[int]policy.Outcome{
		408: {Class: policy.ClassTimeout, Effect: policy.UnknownEffect},
		429: {Class: policy.ClassThrottled, Undone: true},
		501: {Class: policy.ClassClient, Effect: policy.UnknownEffect},
		502: server,
		503: busy,
		504: {Class: policy.ClassTimeout, Effect: policy.UnknownEffect},
		505: {Class: policy.ClassClient, Effect: policy.UnknownEffect},
		529: busy, // overloaded: not a bug, so that it may be tried more than once
	}
	for code := 100; code < 600; code++ {
		w, ok := want[code]
		switch {
		case ok:
		case code < 400:
			w = policy.Succeeded()
		case code < 500:
			w = wrong
		default:
			w = once
		}
		if got := outcomeOf(&http.Response{StatusCode: code}, 0, new(policy.HTTP), atNoon); got != w {
			t.Errorf("%d = %+v, want %+v", code, got, w)
		}
	}
	for _, code := range []int{0, 42, 600, 999} {
		if got := outcomeOf(&http.Response{StatusCode: code}, 0, new(policy.HTTP), atNoon); got.Class != policy.ClassUnclassified {
			t.Errorf("%d = %+v", code, got)
		}
	}
}

func TestHints(t *testing.T) {
	keyed := &http.Request{Header: header("Idempotency-Key", "k")}
	in2s := []string{"Retry-After", "2"}
	with := func(o policy.Outcome, change func(*policy.Outcome)) policy.Outcome { change(&o); return o }
	wrong := policy.Outcome{Class: policy.ClassClient}
	unsure := policy.Failed(policy.ClassClient)
	alone := policy.Outcome{Class: policy.ClassThrottled, Effect: policy.UnknownEffect, Alone: true}
	server := policy.Failed(policy.ClassServer)
	once := with(server, func(o *policy.Outcome) { o.Once = true })
	wait := func(o *policy.Outcome) { o.HasAfter, o.After = true, 2*time.Second }
	stop := func(o *policy.Outcome) { o.Stop = true }
	tests := []struct {
		name   string
		code   int
		req    *http.Request
		header []string
		said   gabion.KeyProblem
		rules  policy.HTTP
		want   policy.Outcome
	}{
		{"429 with a time", 429, nil, in2s, 0, policy.HTTP{}, with(policy.Refused(policy.ClassThrottled), wait)},
		{"503 with a time", 503, nil, in2s, 0, policy.HTTP{}, with(server, wait)},
		{"503 with no time to wait", 503, nil, []string{"Retry-After", "0"}, 0, policy.HTTP{}, server},
		{"C3 502 with a time", 502, nil, in2s, 0, policy.HTTP{}, with(server, wait)},
		{"C3 500 with a time", 500, nil, in2s, 0, policy.HTTP{}, with(once, wait)},
		{"C3 529 with a time", 529, nil, in2s, 0, policy.HTTP{}, with(server, wait)},
		{"C3 408 with a time", 408, nil, in2s, 0, policy.HTTP{}, with(policy.Failed(policy.ClassTimeout), wait)},
		{"C3 a status that the policy makes transient, with a time", 404, nil, in2s, 0, policy.HTTP{Transient: []int{404}}, with(policy.Outcome{Class: policy.ClassServer}, wait)},
		{"what is not retried needs no time", 404, nil, in2s, 0, policy.HTTP{}, wrong},
		{"C3 a time in milliseconds", 503, nil, []string{"Retry-After-Ms", "2000"}, 0, policy.HTTP{}, with(server, wait)},
		{"409 is a conflict", 409, nil, in2s, 0, policy.HTTP{}, wrong},
		{"409 for no key of ours is a conflict", 409, &http.Request{}, in2s, 0, policy.HTTP{}, wrong},
		{"409 for a key is a conflict, and in doubt", 409, keyed, nil, 0, policy.HTTP{}, unsure},
		{"409 for a key that is being worked on", 409, keyed, in2s, 0, policy.HTTP{}, with(policy.Outcome{Class: policy.ClassThrottled, Effect: policy.UnknownEffect, Alone: true}, wait)},
		{"C75 the server says no", 503, nil, []string{"X-Should-Retry", "False"}, 0, policy.HTTP{}, with(server, stop)},
		{"C75 Stripe says no", 500, nil, []string{"Stripe-Should-Retry", "false"}, 0, policy.HTTP{}, with(once, stop)},
		{"C75 Envoy is overloaded", 503, nil, []string{"x-envoy-overloaded", "true"}, 0, policy.HTTP{}, with(server, stop)},
		{"Stripe says yes", 409, nil, []string{"Stripe-Should-Retry", "true"}, 0, policy.HTTP{}, policy.Outcome{Class: policy.ClassServer}},
		{"Stripe says yes to a 500 more than once", 500, nil, []string{"Stripe-Should-Retry", "true"}, 0, policy.HTTP{}, server},
		{"Stripe's yes beats no success", 200, nil, []string{"Stripe-Should-Retry", "true"}, 0, policy.HTTP{}, policy.Succeeded()},
		{"a replayed 500 stays one", 500, nil, []string{"Idempotent-Replayed", "true"}, 0, policy.HTTP{}, with(once, stop)},
		{"a replayed 400 is just a 400", 400, nil, []string{"Idempotent-Replayed", "true"}, 0, policy.HTTP{}, wrong},
		{"a success needs no hints", 200, nil, []string{"X-Should-Retry", "false"}, 0, policy.HTTP{}, policy.Succeeded()},
		{"listed transient", 404, nil, nil, 0, policy.HTTP{Transient: []int{404}}, policy.Outcome{Class: policy.ClassServer}},
		{"listed transient lifts once", 500, nil, nil, 0, policy.HTTP{Transient: []int{500}}, server},
		{"listed transient keeps a class", 429, nil, nil, 0, policy.HTTP{Transient: []int{429}}, policy.Refused(policy.ClassThrottled)},
		{"a success listed transient", 202, nil, nil, 0, policy.HTTP{Transient: []int{202}}, server},
		{"listed permanent", 503, nil, nil, 0, policy.HTTP{Permanent: []int{503}}, policy.Failed(policy.ClassClient)},
		{"C62 permanent beats transient", 503, nil, nil, 0, policy.HTTP{Permanent: []int{503}, Transient: []int{503}}, policy.Failed(policy.ClassClient)},
		{"59 the outcome is unknown", 409, keyed, in2s, gabion.KeyOutcomeUnknown, policy.HTTP{}, unsure},
		{"59 the answer was not kept", 409, keyed, in2s, gabion.KeyAnswerNotKept, policy.HTTP{}, unsure},
		{"60 the key was reused", 422, keyed, nil, gabion.KeyReused, policy.HTTP{}, unsure},
		{"60 whatever status says so, and whatever the policy makes of it", 409, keyed, in2s, gabion.KeyReused, policy.HTTP{Transient: []int{409}}, unsure},
		{"60 the server can't read the key", 400, keyed, nil, gabion.KeyMalformed, policy.HTTP{}, wrong},
		{"58 in progress with no time", 409, keyed, nil, gabion.KeyInFlight, policy.HTTP{}, alone},
		{"58 in progress with a time", 409, keyed, in2s, gabion.KeyInFlight, policy.HTTP{}, with(alone, wait)},
		{"58 in progress, and the policy does not wait for 409", 409, keyed, nil, gabion.KeyInFlight, policy.HTTP{Permanent: []int{409}}, with(alone, func(o *policy.Outcome) { o.Class = policy.ClassClient })},
		{"61 in progress, and replayed: it would be for ever", 409, keyed, []string{"Idempotent-Replayed", "true"}, gabion.KeyInFlight, policy.HTTP{}, with(alone, stop)},
		{"62 a 500 that is not replayed", 500, keyed, []string{"Idempotent-Replayed", "false"}, 0, policy.HTTP{}, once},
		{"the policy beats Stripe", 409, nil, []string{"Stripe-Should-Retry", "true"}, 0, policy.HTTP{Permanent: []int{409}}, wrong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tt.code, Request: tt.req, Header: header(tt.header...)}
			tt.want.Busy = tt.want.Class == policy.ClassServer && (tt.code == 503 || tt.code == 529)
			if got := outcomeOf(resp, tt.said, &tt.rules, atNoon); got != tt.want {
				t.Errorf("outcomeOf = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestOutcomesCostNothing(t *testing.T) {
	resp := &http.Response{StatusCode: 200, Header: header("Content-Type", "text/plain")}
	if n := testing.AllocsPerRun(100, func() { outcomeOf(resp, 0, new(policy.HTTP), atNoon) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOutcomeOfError(t *testing.T) {
	good, _ := http.NewRequest("GET", "http://x", nil)
	odd, _ := http.NewRequest("GET", "gopher://x", nil)
	hostless, _ := http.NewRequest("GET", "/path", nil)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	_, mismatch := http.Get("https" + strings.TrimPrefix(plain.URL, "http"))
	_, unsupported := http.DefaultTransport.RoundTrip(odd)
	_, noHost := http.DefaultTransport.RoundTrip(hostless)
	tests := []struct {
		name string
		req  *http.Request
		err  error
		want policy.Outcome
	}{
		{"a connection that ended", good, io.EOF, policy.Failed(policy.ClassNetwork)},
		{"a server without TLS", good, mismatch, policy.Unsent(policy.ClassClient)},
		{"a server without TLS, and another that broke off", good, errors.Join(mismatch, io.ErrUnexpectedEOF), policy.Failed(policy.ClassNetwork)},
		{"a server without TLS, and an unknown error", good, errors.Join(mismatch, os.ErrNotExist), policy.Failed(policy.ClassUnclassified)},
		{"an unsupported protocol", odd, unsupported, policy.Unsent(policy.ClassClient)},
		{"no host", hostless, noHost, policy.Unsent(policy.ClassClient)},
		{"a deadline", good, context.DeadlineExceeded, policy.Failed(policy.ClassTimeout)},
		{"a file error is nothing that we know", good, os.ErrNotExist, policy.Failed(policy.ClassUnclassified)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := outcomeOfError(tt.req, tt.err); got != tt.want {
				t.Errorf("outcome of %v = %+v, want %+v", tt.err, got, tt.want)
			}
		})
	}
}
