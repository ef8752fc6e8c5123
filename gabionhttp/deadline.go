package gabionhttp

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
)

// The headers in which the time that is left travels, as a span and not as a
// date, because clocks differ.
const (
	HeaderDeadline     = "X-Request-Deadline-Ms"          // whole milliseconds; what gabion reads and writes unless told otherwise
	HeaderEnvoyTimeout = "X-Envoy-Expected-Rq-Timeout-Ms" // whole milliseconds, from Envoy
	HeaderGRPCTimeout  = "Grpc-Timeout"                   // up to eight digits and a unit, from gRPC over HTTP/2
)

var ownHeader = []string{HeaderDeadline}

// TimeLeft reads the time that the caller has left from the named headers; with
// no names, from [HeaderDeadline]. All but [HeaderGRPCTimeout] hold whole
// milliseconds. Of several headers, and of several lines of one, as a proxy adds
// its own, the least counts. A value that does not follow the grammar is as good
// as absent; bad counts those.
func TimeLeft(h http.Header, names ...string) (left time.Duration, ok bool, bad int) {
	left = math.MaxInt64
	for _, name := range orOwn(names) {
		name = canonical(name)
		for _, value := range h[name] {
			d, good := parseLeft(name, value)
			if !good {
				bad++
				continue
			}
			left, ok = min(left, d), true
		}
	}
	if !ok {
		return 0, false, bad
	}
	return left, true, bad
}

// SetTimeLeft writes the time that is left into the named headers of a request; with no names,
// into [HeaderDeadline]. It rounds down to whole units, so a server downstream never has more
// time than its caller. When less than a millisecond is left it writes nothing, removes the
// headers, and reports false: such a request must not be sent.
func SetTimeLeft(h http.Header, left time.Duration, names ...string) bool {
	enough := left >= time.Millisecond
	for _, name := range orOwn(names) {
		name = canonical(name)
		switch {
		case !enough:
			delete(h, name)
		case name == HeaderGRPCTimeout:
			h[name] = []string{formatGRPC(left)}
		default:
			h[name] = []string{strconv.FormatInt(left.Milliseconds(), 10)}
		}
	}
	return enough
}

func orOwn(names []string) []string {
	if len(names) == 0 {
		return ownHeader
	}
	return names
}

// canonical is the name as a header has it. It need not look at each letter of the known
// names.
func canonical(name string) string {
	switch name {
	case HeaderDeadline, HeaderEnvoyTimeout, HeaderGRPCTimeout:
		return name
	}
	return http.CanonicalHeaderKey(name)
}

func parseLeft(name, value string) (time.Duration, bool) {
	if name == HeaderGRPCTimeout {
		return parseGRPC(value)
	}
	n, ok := digits(value)
	return times(n, time.Millisecond), ok
}

// usualMargin is policy's default of Timeout.HopMargin.
const usualMargin = 100 * time.Millisecond

// NextHop returns the time to pass on: what a hop may use of its own, or what it
// was given less a margin, whichever is less. Own that is not positive means no
// bound of one's own. A margin of 100 ms, which is the default, or less is at most
// half of left: a caller with little time wants a quick answer, and a server may
// well have one. A longer margin is kept. The result is always less than left, by a millisecond at
// least, since that is what headers can tell; it is 0 when nothing is left, and
// then the request must not be sent.
func NextHop(own, left, margin time.Duration) time.Duration {
	if margin <= usualMargin {
		margin = min(margin, left/2)
	}
	rest := left - max(margin, time.Millisecond)
	if rest > left { // an absurdly negative left wrapped round
		return 0
	}
	if own > 0 {
		rest = min(rest, own)
	}
	return max(rest, 0)
}

// units are gRPC's, finest first (PROTOCOL-HTTP2 of the gRPC specification).
var units = [...]struct {
	sign byte
	time.Duration
}{
	{'n', time.Nanosecond}, {'u', time.Microsecond}, {'m', time.Millisecond},
	{'S', time.Second}, {'M', time.Minute}, {'H', time.Hour},
}

// maxGRPC is the largest of gRPC's eight digits.
const maxGRPC = 99_999_999

func parseGRPC(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	n, ok := digits(s[:len(s)-1])
	if !ok {
		return 0, false
	}
	for _, u := range units {
		if u.sign == s[len(s)-1] {
			return times(n, u.Duration), true
		}
	}
	return 0, false
}

// formatGRPC writes d in the finest unit in which it fits, rounded down. Hours
// always fit.
func formatGRPC(d time.Duration) string {
	d = max(d, 0)
	last := units[len(units)-1]
	for _, u := range units {
		if d/u.Duration <= maxGRPC {
			last = u
			break
		}
	}
	return strconv.FormatInt(int64(d/last.Duration), 10) + string(last.sign)
}

// Deadline is server middleware that honours the caller's deadline. It hands the time that is
// left to Next in the request's context. It refuses a request that has too little time before
// any work is done, as [Admission] refuses one that came too late: with 504, [HeaderRefused] and "X-Should-Retry: false".
//
// It passes the ResponseWriter on untouched, so streaming, flushing and hijacking
// work as without it. The context ends when Next returns. The fields must not
// change once requests are served; ServeHTTP, Saved and Malformed are safe for
// concurrent use.
type Deadline struct {
	// Next does the work. Nil means http.DefaultServeMux, as in [http.Server].
	Next http.Handler

	// Margin is the least time that must be left for work to be worth starting.
	// Zero means any. A Margin or Max that is negative, or below 1 µs, can't be meant,
	// and every request is answered with a 500 that says so.
	Margin time.Duration

	// Max bounds the time of every request, also of those that bring no deadline.
	// Zero means no bound.
	Max time.Duration

	// Headers are the headers to read. Nil means [HeaderDeadline] alone.
	Headers []string

	saved     atomic.Int64
	malformed atomic.Int64
}

// errDeadline is the cause with which the context that Next sees ends.
var errDeadline = fmt.Errorf("gabionhttp: the request's deadline is over: %w", context.DeadlineExceeded)

// ServeHTTP implements [http.Handler].
func (d *Deadline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if problem := serving.DeadlineProblem(d.Margin, d.Max); problem != "" {
		http.Error(w, "gabionhttp: "+problem, http.StatusInternalServerError)
		return
	}
	left, ok, bad := TimeLeft(r.Header, d.Headers...)
	if bad > 0 {
		d.malformed.Add(int64(bad))
	}
	if ok && (left <= 0 || left < d.Margin) {
		d.saved.Add(1)
		new(Admission).refuse(w, serving.Result{Answer: admission.Expired})
		return
	}
	if d.Max > 0 && (!ok || left > d.Max) {
		left, ok = d.Max, true
	}
	if !ok {
		d.next().ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), left, errDeadline)
	defer cancel()
	d.next().ServeHTTP(w, r.WithContext(ctx))
}

func (d *Deadline) next() http.Handler {
	if d.Next == nil {
		return http.DefaultServeMux
	}
	return d.Next
}

// Saved returns how many requests were refused because their time was over: work
// that was not done in vain.
func (d *Deadline) Saved() int64 { return d.saved.Load() }

// Malformed returns how many deadline headers could not be read and were ignored.
func (d *Deadline) Malformed() int64 { return d.malformed.Load() }
