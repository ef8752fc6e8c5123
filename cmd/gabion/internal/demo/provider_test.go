package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// providerWith starts a provider that stays in one phase.
func providerWith(t *testing.T, phase Phase) *provider {
	t.Helper()
	phase.End = time.Hour
	plan := Plan{Total: time.Hour, Phases: []Phase{phase}}
	p, err := startProvider(t.TempDir(), "it", plan, Settings{Seed: 1}, func() time.Duration { return 0 })
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
		phase   Phase
		status  int // 0 means that the connection is reset
		charged int
	}{
		{"a healthy provider charges", Phase{Kind: Healthy}, 201, 1},
		{"an unavailable one answers 503 and does nothing", Phase{Kind: Unavailable, Share: 1}, 503, 0},
		{"who is not hit gets through", Phase{Kind: Unavailable, Share: 1e-9}, 201, 1},
		{"a slow one charges", Phase{Kind: Slow, Factor: 2}, 201, 1},
		{"a reset comes before the work", Phase{Kind: Reset, Share: 1}, 0, 0},
		{"a lost answer comes after the work", Phase{Kind: Lost, Share: 1}, 0, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := providerWith(t, c.phase)
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
			if requests, doubles := p.sofar(); requests != 1 || doubles != 0 {
				t.Errorf("so far %d requests and %d doubles", requests, doubles)
			}
			if seen := p.seen(); len(seen) != 1 || seen[0] != (arrival{0, 5, 1}) {
				t.Errorf("the provider saw %v", seen)
			}
		})
	}
}

func TestRateLimitSaysWhenToComeBack(t *testing.T) {
	p := providerWith(t, Phase{Kind: RateLimited, Rate: 2})
	var codes []int
	for n := range 3 {
		resp, err := post(t, p, n, "")
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, resp.StatusCode)
		if resp.StatusCode == 429 && resp.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
		}
	}
	if !slices.Equal(codes, []int{201, 201, 429}) {
		t.Errorf("got %v", codes)
	}
}

func TestBucket(t *testing.T) {
	b := bucket{rate: 10, burst: 2}
	for _, c := range []struct {
		fact string
		now  time.Duration
		ok   bool
		wait time.Duration
	}{
		{"it starts full", 0, true, 0},
		{"down to the last token", 0, true, 0},
		{"then it says when", 0, false, 100 * time.Millisecond},
		{"time that goes back fills nothing", -time.Second, false, 100 * time.Millisecond},
		{"a token comes every tenth of a second", 100 * time.Millisecond, true, 0},
		{"it never holds more than the burst", time.Hour, true, 0},
		{"the second of the burst", time.Hour, true, 0},
		{"and no third", time.Hour, false, 100 * time.Millisecond},
	} {
		if ok, wait := b.take(c.now); ok != c.ok || wait != c.wait {
			t.Errorf("%s: got %v, %s", c.fact, ok, wait)
		}
	}
	if retryAfter(1001*time.Millisecond) != 2 || retryAfter(0) != 1 {
		t.Error("Retry-After is not rounded up")
	}
}

func TestKeyIsChargedOnce(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
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
	p := providerWith(t, Phase{Kind: Healthy})
	for range 2 {
		if _, err := post(t, p, 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := charges(t, p, 1); got != 2 {
		t.Errorf("%d charges", got)
	}
	if _, doubles := p.sofar(); doubles != 1 {
		t.Errorf("%d doubles so far", doubles)
	}
}

func TestRepeatsOfARunningKeyWaitForIt(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
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
	p := providerWith(t, Phase{Kind: Lost, Share: 1})
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
	p := providerWith(t, Phase{Kind: Healthy})
	if _, err := post(t, p, 1, "k"); err != nil {
		t.Fatal(err)
	}
	if resp, err := post(t, p, 2, "k"); err != nil || resp.StatusCode != 422 {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestKeyOfWorkThatWasNotDoneIsFree(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
	for range cap(p.queue) {
		p.queue <- struct{}{}
	}
	for range 2 {
		if resp, err := post(t, p, 1, "k"); err != nil || resp.StatusCode != 503 || resp.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got %v, %v", resp, err)
		}
	}
	for range cap(p.queue) {
		<-p.queue
	}
	if resp, err := post(t, p, 1, "k"); err != nil || resp.StatusCode != 201 {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestKeysAreOnDisk(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
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

func TestQueueIsBounded(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
	for range cap(p.queue) {
		p.queue <- struct{}{}
	}
	resp, err := post(t, p, 1, "")
	if err != nil || resp.StatusCode != 503 {
		t.Errorf("got %v, %v", resp, err)
	}
	for range cap(p.queue) {
		<-p.queue
	}
}

func TestWorkGoesOnWhenTheCallerLeaves(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	ctx, leave := context.WithCancel(context.Background())
	req, err := newRequest(ctx, p.url(), Order{Number: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error)
	go func() { _, err := new(http.Transport).RoundTrip(req); gone <- err }()
	await(func() bool { return len(p.queue) == 1 }) // it waits for a slot
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for range cap(p.slots) {
		<-p.slots
	}
	await(func() bool { return len(p.queue) == 0 })
	if got := charges(t, p, 1); got != 1 {
		t.Errorf("%d charges", got)
	}
}

// await yields until it is so; the test's own timeout ends it if it never is.
func await(so func() bool) {
	for !so() {
		runtime.Gosched()
	}
}

func TestSameSeedSameFate(t *testing.T) {
	a, b := providerWith(t, Phase{Kind: Slow, Factor: 3}), providerWith(t, Phase{Kind: Slow, Factor: 3})
	differ := false
	for n := range 50 {
		if a.takes(n, 1) != b.takes(n, 1) {
			t.Fatalf("order %d takes %s and %s", n, a.takes(n, 1), b.takes(n, 1))
		}
		differ = differ || a.takes(n, 1) != a.takes(n, 2)
	}
	if !differ {
		t.Error("all attempts are alike")
	}
}

func TestMalformedRequestIsNoOrder(t *testing.T) {
	p := providerWith(t, Phase{Kind: Healthy})
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
