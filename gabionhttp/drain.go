package gabionhttp

import (
	"io"
	"net/http"
	"time"
)

// Limits on draining an abandoned response so that its connection can serve the next attempt.
// Past either, a new connection is cheaper.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// discard reads the rest of an abandoned attempt's response, if that is little
// and comes at once, and closes it.
func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	defer resp.Body.Close()
	if resp.Body == http.NoBody || resp.ContentLength > drainBytes {
		return
	}
	// Closing is what frees a reader; the timer costs no goroutine until it fires. If it
	// panics there, it does so again below, where the caller hears it.
	timer := time.AfterFunc(drainTime, func() {
		defer func() { _ = recover() }()
		resp.Body.Close()
	})
	defer timer.Stop()
	// One byte more than the limit would be needed to see the end of a body that
	// is just as long, unless its length is known, when the end comes with it.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, drainBytes))
}
