package gabionhttp

import (
	"context"
	"sync"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
)

// LastVerdict is what became of the last request that was made with a context of
// [WithVerdict], also under SDKs that make an error of every failed answer and keep
// the answer to themselves:
//
//	var v gabionhttp.LastVerdict
//	msg, err := client.Messages.New(gabionhttp.WithVerdict(ctx, &v), params)
//	// v.Reason(), v.Attempts()
//
// The zero value has seen no request. It is safe for concurrent use, but of requests
// that are made at once only one is the last: give each call its own.
type LastVerdict struct {
	mu                      sync.Mutex
	why                     *gabion.Error
	calls, attempts, status int
}

// WithVerdict returns a context whose requests through a [Transport] tell v what
// became of them.
func WithVerdict(ctx context.Context, v *LastVerdict) context.Context {
	return context.WithValue(ctx, adapter.VerdictKey{}, v)
}

// Err returns why the last request ended without success, as [Verdict] does, or nil. It
// is of the type error, unlike Verdict's, so that nil is nil.
func (v *LastVerdict) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why == nil {
		return nil
	}
	return v.why
}

// Reason returns why the last request ended without success, or policy.None if it succeeded or no
// request was made.
func (v *LastVerdict) Reason() gabion.Reason { return gabion.ReasonOf(v.Err()) }

// Attempts returns how many attempts the last request took: all that were sent if it
// failed, and for a success the number of the one that succeeded.
func (v *LastVerdict) Attempts() int { v.mu.Lock(); defer v.mu.Unlock(); return v.attempts }

// Status returns the status of the answer that was handed up last, 0 if none was.
func (v *LastVerdict) Status() int { v.mu.Lock(); defer v.mu.Unlock(); return v.status }

// Calls returns how many requests were made with the context. More than one means that
// something above the Transport repeats them too, or follows redirects.
func (v *LastVerdict) Calls() int { v.mu.Lock(); defer v.mu.Unlock(); return v.calls }

// tell writes how the exchange ended into the context's LastVerdict, if it has one.
func (c *exchange) tell(why *gabion.Error, attempts, status int) {
	v, _ := c.req.Context().Value(adapter.VerdictKey{}).(*LastVerdict)
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if why != nil {
		attempts = why.Attempts
	}
	v.calls++
	v.why, v.attempts, v.status = why, attempts, status
}
