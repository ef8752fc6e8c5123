package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// partBank makes a dependency, a server, and a client whose requests pass the dependency.
func partBank(t *testing.T, p policy.Policy, h http.HandlerFunc) (*gabion.Dependency, *httptest.Server, *http.Client) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	d := gabion.New("bank", p)
	tr := &gabionhttp.Transport{Dependency: d}
	t.Cleanup(tr.CloseIdleConnections)
	return d, s, &http.Client{Transport: tr}
}

var unbounded = policy.Budget{Off: true}

func ask(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return c.Do(req)
}

// Four slots and eight calls that hold one while their Transport asks for another.
func TestARequestWithinAnAttemptTakesNoSecondSlot(t *testing.T) {
	var atOnce sync.WaitGroup
	atOnce.Add(4)
	var first atomic.Int32
	d, s, c := partBank(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 4}}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (string, error) {
				if first.Add(1) <= 4 { // all four slots are taken now
					atOnce.Done()
					atOnce.Wait()
				}
				resp, err := ask(ctx, c, s.URL)
				if err != nil {
					return "", err
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				return string(b), err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := d.Stats().Totals; n.Calls != 8 || n.Attempts != 8 || n.Succeeded != 8 {
		t.Errorf("%d calls, %d attempts, %d succeeded", n.Calls, n.Attempts, n.Succeeded)
	}
}

func TestWhatARequestWithinAnAttemptCameToDecidesAboutTheAttempt(t *testing.T) {
	asError := func(resp *http.Response) error { return fmt.Errorf("the bank says %s", resp.Status) }
	byVerdict := func(resp *http.Response) error {
		if why := gabionhttp.Verdict(resp); why != nil {
			return why
		}
		return nil
	}
	silent := func(*http.Response) error { return nil }
	for _, c := range []struct {
		fact   string
		answer func(http.ResponseWriter)
		method string
		read   func(*http.Response) error
		opts   []gabion.CallOption
		sent   int32
		why    policy.Reason
	}{
		{fact: "a 503 that the work returns as it came", answer: says(503), read: silent, opts: harmless, sent: 3, why: policy.AttemptsExhausted},
		{fact: "a 503 of which the work makes an error", answer: says(503), read: asError, opts: harmless, sent: 3, why: policy.AttemptsExhausted},
		{fact: "a 503 whose verdict the work returns", answer: says(503), read: byVerdict, opts: harmless, sent: 3, why: policy.AttemptsExhausted},
		{fact: "a 404 whose verdict the work returns", answer: says(404), read: byVerdict, opts: harmless, sent: 1, why: policy.NotRetryable},
		{fact: "a POST that got 503 in a call that is not declared safe", answer: says(503), method: http.MethodPost, read: silent, sent: 1, why: policy.NotSafe},
		{fact: "a POST that got 429, which was not carried out", answer: says(429), method: http.MethodPost, read: silent, sent: 3, why: policy.AttemptsExhausted},
		{fact: "a 503 with a time that is too long", answer: func(w http.ResponseWriter) { w.Header().Set("Retry-After", "9000"); w.WriteHeader(503) }, read: asError, opts: harmless, sent: 1, why: policy.RetryAfterTooLong},
		{fact: "a mark that stops retries", answer: func(w http.ResponseWriter) { w.Header().Set("X-Should-Retry", "false"); w.WriteHeader(503) }, read: asError, opts: harmless, sent: 1, why: policy.DoNotRetry},
		{fact: "a 200", answer: says(200), read: byVerdict, opts: harmless, sent: 1, why: policy.None},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var sent atomic.Int32
			d, s, client := partBank(t, policy.Policy{
				Retry: policy.Retry{Budget: unbounded, Backoff: backoff.Const(time.Millisecond)}, Pace: policy.Pace{Off: true},
			}, func(w http.ResponseWriter, r *http.Request) { sent.Add(1); c.answer(w) })
			_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (*http.Response, error) {
				req, err := http.NewRequestWithContext(ctx, c.method, s.URL, nil)
				if err != nil {
					return nil, err
				}
				resp, err := client.Do(req)
				if err != nil {
					return nil, err
				}
				resp.Body.Close()
				return resp, c.read(resp)
			}, c.opts...)
			if sent.Load() != c.sent || gabion.ReasonOf(err) != c.why {
				t.Errorf("%d requests, %v; want %d, %v", sent.Load(), err, c.sent, c.why)
			}
			if n := d.Stats().Totals; n.Calls != 1 || n.Attempts != int64(c.sent) {
				t.Errorf("%d calls, %d attempts", n.Calls, n.Attempts)
			}
		})
	}
}

func says(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

var harmless = []gabion.CallOption{gabion.WithIdempotent()}

// The first request was carried out. That the second was refused does not undo it.
func TestARefusedRequestDoesNotSpeakForTheOneBeforeIt(t *testing.T) {
	var charged atomic.Int32
	d, s, c := partBank(t, policy.Policy{Retry: policy.Retry{Budget: unbounded, Backoff: backoff.Const(time.Millisecond)}},
		func(http.ResponseWriter, *http.Request) { charged.Add(1) })
	gone := httptest.NewServer(nil)
	gone.Close()
	post := func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	err := d.Run(t.Context(), func(ctx context.Context) error {
		return errors.Join(post(ctx, s.URL), post(ctx, gone.URL))
	})
	if charged.Load() != 1 || gabion.EffectOf(err) != policy.UnknownEffect {
		t.Errorf("charged %d times: %v", charged.Load(), err)
	}
}

func TestTheBodyOfARequestWithinAnAttempt(t *testing.T) {
	stalls := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	p := policy.Policy{
		Timeout: policy.Timeout{Attempt: 100 * time.Millisecond, Call: 5 * time.Second},
		Retry:   policy.Retry{Attempts: 2, Budget: unbounded, Backoff: backoff.Const(time.Millisecond)},
	}
	t.Run("that is read within Do has the time of the attempt, and is read again", func(t *testing.T) {
		var sent atomic.Int32
		d, s, c := partBank(t, p, func(w http.ResponseWriter, r *http.Request) { sent.Add(1); stalls(w, r) })
		_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (string, error) {
			resp, err := ask(ctx, c, s.URL)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			return string(b), err
		}, harmless...)
		if sent.Load() != 2 || !errors.Is(err, context.DeadlineExceeded) || gabion.ReasonOf(err) != policy.AttemptsExhausted {
			t.Errorf("%d requests: %v", sent.Load(), err)
		}
	})
	t.Run("that outlives Do ends with the attempt", func(t *testing.T) {
		d, s, c := partBank(t, p, stalls)
		resp, err := gabion.Do(t.Context(), d, func(ctx context.Context) (*http.Response, error) { return ask(ctx, c, s.URL) })
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("read: %v", err)
		}
	})
	t.Run("lives until an open attempt is closed", func(t *testing.T) {
		d, s, c := partBank(t, p, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "whole") })
		resp, a, err := gabion.Open(t.Context(), d, func(ctx context.Context) (*http.Response, error) { return ask(ctx, c, s.URL) })
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if string(b) != "whole" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		resp.Body.Close()
		a.Close(err)
		if n := d.Stats(); n.Totals.Calls != 1 || n.Bulkhead.InUse != 0 {
			t.Errorf("%d calls, %d slots in use", n.Totals.Calls, n.Bulkhead.InUse)
		}
	})
}

func TestARequestWithinAnAttemptCarriesItsKeyAndNumber(t *testing.T) {
	t.Run("by itself", func(t *testing.T) { carriesKey(t, "") })
	t.Run("in the header that the work wrote", func(t *testing.T) { carriesKey(t, "order-7") })
}

func carriesKey(t *testing.T, header string) {
	var keys, numbers []string
	var mu sync.Mutex
	d, s, c := partBank(t, policy.Policy{Trust: policy.Internal, Retry: policy.Retry{Budget: unbounded, Backoff: backoff.Const(time.Millisecond)}},
		func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			keys, numbers = append(keys, r.Header.Get(gabionhttp.HeaderKey)), append(numbers, r.Header.Get(gabionhttp.HeaderAttempt))
			w.WriteHeader(503)
		})
	err := d.Run(t.Context(), func(ctx context.Context) error {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader("x"))
		if header != "" {
			req.Header.Set(gabionhttp.HeaderKey, header)
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return gabionhttp.Verdict(resp)
	}, gabion.WithKey("order-7"))
	if fmt.Sprint(keys, numbers) != "[order-7 order-7 order-7] [1 2 3]" {
		t.Errorf("keys %q, attempts %q: %v", keys, numbers, err)
	}
}
