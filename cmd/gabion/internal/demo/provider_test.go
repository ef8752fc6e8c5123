package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// healthy is a plan in which nothing goes wrong.
const healthy = "service: {workers: 4, queue: 400, time: 1ms}"

// always is a plan in which one thing is wrong all the time.
func always(fault string) string {
	return healthy + "\nfaults: [{at: 0s, for: 1h, kind: " + fault + "}]"
}

// providerWith starts a provider that plays a plan.
func providerWith(t *testing.T, plan string) *provider {
	t.Helper()
	p, err := startProvider(t.TempDir(), "it", Settings{Seed: 1, Outage: outageOf(t, plan)}, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// post charges an order and returns what came of it.
func post(t *testing.T, p *provider, order int, key string) (*http.Response, error) {
	t.Helper()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	req, err := newRequest(context.Background(), p.url(), Order{Number: order, Amount: 100}, false)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	resp, err := transport.RoundTrip(req)
	finish(resp)
	return resp, err
}

func charges(t *testing.T, p *provider, order int) int {
	t.Helper()
	all, err := readLedger(p.path)
	if err != nil {
		t.Fatal(err)
	}
	return all[orderID(order)]
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fact    string
		plan    string
		status  int // 0 means that the connection is reset
		charged int
	}{
		{"a healthy provider charges", healthy, 201, 1},
		{"an unavailable one answers 503 and does nothing", always("errors"), 503, 0},
		{"nor does it when failing costs as much", always("errors, costs_work: true"), 503, 0},
		{"who is not hit gets through", always("errors, share: 0.0001%"), 201, 1},
		{"a throttled one answers 429", always("errors, status: 429"), 429, 0},
		{"a reset comes before the work", always("reset"), 0, 0},
		{"a lost answer comes after the work", always("lost_answers"), 0, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := providerWith(t, c.plan)
			resp, err := post(t, p, 5, "")
			switch {
			case c.status == 0 && !errors.Is(err, syscall.ECONNRESET):
				t.Errorf("got %v, want a reset", err)
			case c.status != 0 && (err != nil || resp.StatusCode != c.status):
				t.Errorf("got %v, %v", resp, err)
			}
			if got := charges(t, p, 5); got != c.charged {
				t.Errorf("%d charges, want %d", got, c.charged)
			}
			if seen := p.seen(); len(seen) != 1 || seen[0] != (arrival{0, 5, 1}) {
				t.Errorf("the provider saw %v", seen)
			}
		})
	}
}

func TestKeyIsChargedOnce(t *testing.T) {
	p := providerWith(t, healthy)
	first, err := post(t, p, 1, "k")
	if err != nil {
		t.Fatal(err)
	}
	again, err := post(t, p, 1, "k")
	if err != nil {
		t.Fatal(err)
	}
	if first.Header.Get("Idempotent-Replayed") != "" || again.Header.Get("Idempotent-Replayed") != "true" || again.StatusCode != 201 {
		t.Errorf("got %v, then %v", first, again)
	}
	if got := charges(t, p, 1); got != 1 {
		t.Errorf("%d charges", got)
	}
}

func TestWithoutKeyEachRequestIsACharge(t *testing.T) {
	p := providerWith(t, healthy)
	for range 2 {
		if _, err := post(t, p, 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := charges(t, p, 1); got != 2 {
		t.Errorf("%d charges", got)
	}
	line := newTimeline(Plan{Phases: []Phase{{End: time.Minute}}})
	p.mark(&line)
	if c := line.cells[0]; c.requests != 2 || c.doubles != 1 {
		t.Errorf("shown are %d requests and %d doubles", c.requests, c.doubles)
	}
}

func TestRepeatsOfARunningKeyWaitForIt(t *testing.T) {
	p := providerWith(t, healthy)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if resp, err := post(t, p, 1, "k"); err != nil || resp.StatusCode != 201 {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	all.Wait()
	if got := charges(t, p, 1); got != 1 {
		t.Errorf("%d charges", got)
	}
}

func TestKeyOfALostAnswerIsNotChargedAgain(t *testing.T) {
	p := providerWith(t, always("lost_answers"))
	for range 3 {
		if _, err := post(t, p, 1, "k"); err == nil {
			t.Fatal("the answer was not lost")
		}
	}
	if got := charges(t, p, 1); got != 1 {
		t.Errorf("%d charges", got)
	}
}

func TestKeyOfAnotherOrderIsRefused(t *testing.T) {
	p := providerWith(t, healthy)
	if _, err := post(t, p, 1, "k"); err != nil {
		t.Fatal(err)
	}
	if resp, err := post(t, p, 2, "k"); err != nil || resp.StatusCode != 422 {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestKeysAreOnDisk(t *testing.T) {
	p := providerWith(t, healthy)
	if _, err := post(t, p, 1, "k"); err != nil {
		t.Fatal(err)
	}
	r, err := p.keys.store.Get(t.Context(), idempotency.IDOf(idempotency.Global(nil), "k"))
	if err != nil || r.State != idempotency.StateDone || !p.keys.store.Caps().Durable {
		t.Errorf("the record is %v, %v", r.State, err)
	}
	if _, err := os.Stat(strings.TrimSuffix(p.path, ".ledger") + ".keys"); err != nil {
		t.Error(err)
	}
}

func TestMalformedRequestIsNoOrder(t *testing.T) {
	p := providerWith(t, healthy)
	resp, err := http.Post(p.url(), "application/json", strings.NewReader("{"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 400 || len(p.seen()) != 0 {
		t.Errorf("got %d, and the provider saw %v", resp.StatusCode, p.seen())
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// The money of a caller who has left is taken nevertheless, and the book says so.
func TestWorkGoesOnWhenTheCallerLeaves(t *testing.T) {
	p := providerWith(t, "service: {workers: 1, queue: 1, time: 300ms}")
	ctx, leave := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer leave()
	req, err := newRequest(ctx, p.url(), Order{Number: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(http.Transport).RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := post(t, p, 2, ""); err != nil { // the one worker does it after the first
		t.Fatal(err)
	}
	if got := charges(t, p, 1); got != 1 {
		t.Errorf("%d charges", got)
	}
}
