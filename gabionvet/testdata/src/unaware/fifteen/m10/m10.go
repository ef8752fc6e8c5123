package m10

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// crmTransport waits out the CRM's rate limit; a GET goes on until its context ends.
type crmTransport struct {
	next http.RoundTripper
	wait func(*http.Response) time.Duration
}

func newCRMClient(wait func(*http.Response) time.Duration) *http.Client {
	return &http.Client{Timeout: 2 * time.Minute, Transport: &crmTransport{next: http.DefaultTransport, wait: wait}}
}

func (t *crmTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		resp, err := t.next.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || req.Method != http.MethodGet || req.Body != nil {
			return resp, err
		}
		wait := t.wait(resp)
		if end, ok := req.Context().Deadline(); ok && time.Until(end) < wait {
			return resp, nil // no use waiting
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		resp.Body.Close()
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-req.Context().Done():
			pause.Stop()
			return nil, fmt.Errorf("rate limited: %w", context.Cause(req.Context()))
		}
	}
}

const crmDefaultWait = 5 * time.Second

func retryAfter(resp *http.Response) time.Duration {
	h := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(h); err == nil && n > 0 {
		// WRONG: "30" becomes 30 nanoseconds; the client hammers the API that asked for rest and gets the whole company's key banned
		return time.Duration(n)
	}
	if at, err := http.ParseTime(h); err == nil {
		if d := time.Until(at); d > 0 {
			return d
		}
	}
	return crmDefaultWait
}

// RIGHT
func retryAfterSeconds(resp *http.Response) time.Duration {
	jitter := rand.N(time.Second)
	h := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(h); err == nil && n > 0 {
		return time.Duration(min(n, 3600))*time.Second + jitter
	}
	if at, err := http.ParseTime(h); err == nil {
		if d := time.Until(at); d > 0 {
			return d + jitter
		}
	}
	return crmDefaultWait + jitter
}

var (
	crmHasty   = newCRMClient(retryAfter)
	crmPatient = newCRMClient(retryAfterSeconds)
)
