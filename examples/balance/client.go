package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// clients is how many amounts are sent at the same time.
const clients = 8

// patient retries until a server answers that is down most of the time. Real programs
// need a breaker and a budget here, which give up instead of overloading the server.
var patient = policy.Policy{
	Key:     policy.KeyRequired,
	Timeout: policy.Timeout{Call: 2 * time.Minute, Attempt: 10 * time.Second},
	Retry:   policy.Retry{Attempts: 64, Backoff: backoff.Full(20*time.Millisecond, 500*time.Millisecond), MaxAfter: 10 * time.Second, Budget: policy.Budget{Off: true}},
	Breaker: policy.Breaker{Off: true},
}

// addAll adds the amounts, several at once, and returns how many requests that took.
func addAll(ctx context.Context, url string, cents []int) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wire := &counting{RoundTripper: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer wire.RoundTripper.(*http.Transport).CloseIdleConnections()
	web := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("balance", patient), Base: wire}}
	var next atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(cents)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := addOne(ctx, web, url, cents[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return wire.sent.Load(), context.Cause(ctx)
}

// addOne adds an amount once, however often it repeats the request. The key is made here,
// for the intent, and is the same in every attempt.
func addOne(ctx context.Context, web *http.Client, url string, cents int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(strconv.Itoa(cents)))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", gabion.NewKey())
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// counting counts requests.
type counting struct {
	http.RoundTripper
	sent atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.RoundTripper.RoundTrip(r)
}
