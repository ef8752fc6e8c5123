package gabionhttp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

func init() {
	adapter.IsAnswer = func(result any) bool {
		resp, ok := result.(*http.Response)
		return ok && resp != nil
	}
}

// deliver hands an answer to the caller, with the attempt that brought it open
// until its body is done.
func (c *exchange) deliver(f *httpAttempt, attempt *gabion.Attempt, err error) *http.Response {
	b, resp := &c.answer, f.resp
	b.call, b.body, b.attempt, b.from = c, resp.Body, attempt, f
	b.why, _ = err.(*gabion.Error)
	resp.Request = c.req
	if len(c.ways) > 0 {
		f.located(resp)
	}
	if b.why != nil {
		mark(resp, b.why)
		if f.said != nil {
			b.why.Err = because(f.said, b.why.Err)
		}
		c.explain(b.why)
	}
	c.tell(b.why, gabion.AttemptNumber(attempt.Context()), resp.StatusCode)
	if c.meter.reads() && resp.StatusCode < 300 {
		b.usage = &usageReader{packed: resp.Header["Content-Encoding"] != nil}
		if endless(resp.Header) && !b.usage.packed {
			b.stream = new(streamError)
		}
	}
	if rw, ok := resp.Body.(io.ReadWriteCloser); ok {
		attempt.Outlive()
		resp.Body = upgrade(b, rw)
		return resp
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		b.body = http.NoBody
		b.end(nil)
		if b.why == nil {
			resp.Body = http.NoBody
			return resp
		}
	}
	switch {
	case bodiless(resp):
		b.body.Close() // HTTP/2 has one of its own, that may not have come to its end
		b.body = http.NoBody
		b.end(nil)
	case endless(resp.Header):
		attempt.Outlive()
	}
	resp.Body = b
	return resp
}

// bodiless reports whether an answer can have no body (RFC 9110, 6.4.1).
func bodiless(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified ||
		resp.ContentLength == 0 && resp.ProtoMajor == 2 || resp.Request.Method == http.MethodHead
}

// endless reports whether an answer says that it is a stream of events, which is work
// in flight at no time.
func endless(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) == 0 {
		return false
	}
	kind, _, _ := strings.Cut(values[0], ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// responseBody keeps its attempt open while it is read, and has its silence and its
// whole bounded by the policy. It ends the attempt when it is closed, read to its end,
// or broken, whichever comes first.
type responseBody struct {
	call    *exchange
	body    io.ReadCloser
	attempt *gabion.Attempt
	why     *gabion.Error
	from    *httpAttempt
	usage   *usageReader // nil without prices, and where the answer is a failure
	stream  *streamError // nil where there is no usage, and for what is no stream of events
	closed  atomic.Bool
	done    atomic.Bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	b.attempt.Expect()
	n, err := b.body.Read(p)
	b.attempt.Arrived()
	if b.usage != nil && !b.done.Load() {
		b.usage.see(p[:n])
		if b.stream != nil {
			b.stream.see(p[:n])
		}
	}
	if rpc := b.from.rpc; rpc != nil && !rpc.judged && rpc.body.flag != 0 {
		rpc.body.see(p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && !b.closed.Load():
		b.end(b.from.rpcBroke())
		return n, err
	case err == io.EOF || b.closed.Load(): // closing is no failure, also under a reader's feet
		b.end(nil)
		return n, err
	}
	b.call.heed()
	err = b.explain(err)
	b.end(err)
	return n, err
}

// explain says which limit was hit, if that is why the body broke.
func (b *responseBody) explain(err error) error {
	ctx := b.attempt.Context()
	why, ok := context.Cause(ctx).(policy.Reason)
	if !ok || adapter.IsPart(b.attempt) { // the attempt around it has the verdict
		return timedOut(ctx, err)
	}
	return &gabion.Error{
		Dependency: b.call.t.Dependency.Name(), Reason: why, Effect: policy.UnknownEffect,
		Attempts: gabion.AttemptNumber(ctx), Err: timedOut(ctx, err),
	}
}

// Close lets the connection go before the slot, because the next holder of the slot may use the
// connection. The slot goes back also when the body's own Close panics.
func (b *responseBody) Close() error {
	b.closed.Store(true)
	defer b.end(nil)
	return b.body.Close()
}

func (b *responseBody) end(broke error) {
	if b.done.Swap(true) {
		return
	}
	if b.usage != nil {
		b.call.spent(b.attempt.Context(), b.usage.total())
	}
	if broke == nil && b.stream != nil && b.stream.found.Load() {
		broke = errStreamSaid
	}
	b.attempt.Close(broke)
	b.call.body.close()
	b.call.over()
}

func (b *responseBody) verdict() *gabion.Error { return b.why }

// Verdict returns what gabion thought of an answer that it gave back although it
// was a failure: why the call ended, after how many attempts, and, as a [*KeyError]
// in it, what the server said of the idempotency key. It is nil for a success, and
// for an answer that did not come from a [Transport]. Ask before the body is replaced
// by a wrapper; http.Client does that when its Timeout is set. Don't assign it to a
// variable of type error before it was compared with nil: an error that holds a nil
// [*gabion.Error] is not nil.
func Verdict(resp *http.Response) *gabion.Error {
	if resp == nil {
		return nil
	}
	if b, ok := resp.Body.(interface{ verdict() *gabion.Error }); ok {
		return b.verdict()
	}
	return nil
}
