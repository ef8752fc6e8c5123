package ratelimitservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gabion-go/gabion/classify"
)

// method is what is called.
const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// Limiter asks a rate limit service at Conn about the limits of Domain. The zero Limiter, which has no Conn, limits nothing. It is
// safe for concurrent use; its fields must not change after its first use.
type Limiter struct {
	// Conn leads to the service. Calls of it should not be limited by the same Limiter. Nil means that nothing is
	// limited.
	Conn grpc.ClientConnInterface

	// Domain is that of the service's configuration, such as "shop".
	Domain string

	// Wait is how long a call waits for an answer where none is known. Zero means that it does not wait: it is
	// let through, and the answer counts for those that follow. While the service is away, only those calls wait
	// that come while it is asked whether it is back, once a second.
	Wait time.Duration

	// Timeout is how long a question may take. Zero means a second.
	Timeout time.Duration

	asked, failed, refused atomic.Int64

	mu    sync.Mutex // guards all below
	keys  map[string]*allowance
	swept time.Time
}

// Entry is one part of a descriptor.
type Entry struct{ Key, Value string }

// Descriptor names what is limited, as Envoy's rate limit actions do: the entries from the most general to
// the most special.
type Descriptor []Entry

// Stats are what a [Limiter] did since it was made.
type Stats struct {
	Asked   int64 // questions to the service
	Failed  int64 // of these, how many were not answered
	Refused int64 // calls
}

// OverLimit is the error of a call that the service does not allow.
type OverLimit struct {
	Domain     string
	RetryAfter time.Duration // until the limit is whole again, as the service says
}

// Error implements error.
func (e *OverLimit) Error() string {
	return fmt.Sprintf("over the limit of the rate limit service, domain %s: come back after %s", e.Domain, e.RetryAfter.Round(time.Millisecond))
}

// Stats returns what the limiter did.
func (l *Limiter) Stats() Stats {
	return Stats{Asked: l.asked.Load(), Failed: l.failed.Load(), Refused: l.refused.Load()}
}

// The bounds of what is kept.
const (
	mostKeys = 10_000      // combinations of descriptors; what goes beyond is not limited
	sweeps   = time.Second // how often it is looked whether one of them can go
	pause    = time.Second // after a question that failed, before the next
	unsaid   = time.Second // how long an answer counts that names no time
	longest  = 366 * 24 * time.Hour
)

// Ask says whether an attempt may be sent, for which hits are counted: one, or what it costs. It is nil where the
// service allows that, or nothing is known. Otherwise it is an [OverLimit], marked by classify.Throttled, so that
// a function that gabion calls can return it as it is: nothing was sent, and the call comes back after that time if it
// may. Hits of less than one count as one. An end of ctx ends a wait, and the attempt may be sent then.
func (l *Limiter) Ask(ctx context.Context, hits int, descriptors ...Descriptor) error {
	if l == nil || l.Conn == nil || len(descriptors) == 0 {
		return nil
	}
	now, n := time.Now(), uint64(max(hits, 1))
	l.mu.Lock()
	a := l.of(keyOf(descriptors), now)
	if a == nil {
		l.mu.Unlock()
		return nil
	}
	verdict, after := a.admit(now, n)
	if verdict == refused {
		l.mu.Unlock()
		return l.over(after)
	}
	if a.ask(now) {
		go l.question(a, descriptors)
	}
	var w *waiter
	if verdict == unknown && l.Wait > 0 {
		w = a.wait(n)
	}
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	return l.await(ctx, w)
}

// await waits for the next answer.
func (l *Limiter) await(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(l.Wait)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return nil
	}
	if w.after > 0 {
		return l.over(w.after)
	}
	return nil
}

func (l *Limiter) over(after time.Duration) error {
	l.refused.Add(1)
	return classify.Throttled(&OverLimit{Domain: l.Domain, RetryAfter: after}, after)
}

// of returns what is known of descriptors, or nil where there are too many.
func (l *Limiter) of(key string, now time.Time) *allowance {
	if a := l.keys[key]; a != nil {
		return a
	}
	if len(l.keys) >= mostKeys {
		if now.Sub(l.swept) < sweeps {
			return nil
		}
		l.swept = now
		for k, a := range l.keys {
			if a.idle(now) {
				delete(l.keys, k)
			}
		}
		if len(l.keys) >= mostKeys {
			return nil
		}
	}
	if l.keys == nil {
		l.keys = map[string]*allowance{}
	}
	a := &allowance{}
	l.keys[key] = a
	return a
}

// question asks until all hits are told, or there is no answer. It is of many calls, so it has the context of none: what a caller
// sends to others, such as a token, is not for the service.
func (l *Limiter) question(a *allowance, descriptors []Descriptor) {
	for {
		l.mu.Lock()
		hits := a.take()
		l.mu.Unlock()
		if hits == 0 {
			return
		}
		l.asked.Add(1)
		got, err := l.shouldLimit(hits, descriptors)
		l.mu.Lock()
		if err != nil {
			l.failed.Add(1)
			a.fail(time.Now()) // before a call can ask for more
			l.mu.Unlock()
			return
		}
		a.learn(time.Now(), got)
		l.mu.Unlock()
	}
}

var errUnknownCode = errors.New("the rate limit service answered neither OK nor OVER_LIMIT")

func (l *Limiter) shouldLimit(hits uint64, descriptors []Descriptor) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(l.Timeout, time.Second))
	defer cancel()
	got := answer{}
	err := l.Conn.Invoke(ctx, method, &request{l.Domain, descriptors, hits}, &got, grpc.ForceCodec(wire{}))
	if err == nil && got.code != codeOK && got.code != codeOver {
		err = errUnknownCode
	}
	return got, err
}

// keyOf is the same for the same descriptors only.
func keyOf(descriptors []Descriptor) string {
	var b strings.Builder
	put := func(s string) { b.WriteString(strconv.Itoa(len(s))); b.WriteByte(':'); b.WriteString(s) }
	for _, d := range descriptors {
		for _, e := range d {
			put(e.Key)
			put(e.Value)
		}
		b.WriteByte('/')
	}
	return b.String()
}
