package gabionhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// windowed takes size requests in each window, and refuses the others with 429.
type windowed struct {
	size   int
	window time.Duration
	tells  func(h http.Header, left int, reset time.Duration)
	takes  time.Duration

	mu            sync.Mutex
	ends          time.Time
	used, refused int
	done          int
}

func (w *windowed) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	now := time.Now()
	if now.Sub(w.ends) >= 0 {
		w.ends, w.used = now.Add(w.window), 0
	}
	status := 200
	if w.used == w.size {
		status = 429
		w.refused++
	} else {
		w.used++
		w.done++
	}
	resp := answer(req, status, "")
	if w.tells != nil {
		w.tells(resp.Header, w.size-w.used, w.ends.Sub(now))
	}
	w.mu.Unlock()
	time.Sleep(w.takes)
	return resp, nil
}

func tellsXRateLimit(h http.Header, left int, reset time.Duration) {
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", strconv.FormatFloat(reset.Seconds(), 'f', 3, 64))
}

// load makes perSecond calls a second while lasts is not over, each with three seconds, and returns how many
// were answered well, and the longest of them.
func load(t *testing.T, base http.RoundTripper, perSecond int, lasts time.Duration) (good int, longest time.Duration) {
	c, _ := client(t, policy.Policy{}, base)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range perSecond * int(lasts/time.Second) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://quota.test/", nil)
			begun := time.Now()
			resp, err := c.Do(req)
			if err != nil {
				return
			}
			resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			if resp.StatusCode == 200 {
				good++
				longest = max(longest, time.Since(begun))
			}
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	wg.Wait()
	return good, longest
}

// A quota of forty in eight seconds, and six calls a second for a minute, of which one in six is too many. What the server
// says is obeyed before it has to refuse.
func TestCallsWaitForAQuotaThatIsSaidToBeEmpty(t *testing.T) {
	for name, tells := range map[string]func(http.Header, int, time.Duration){
		"X-RateLimit": tellsXRateLimit,
		"RateLimit": func(h http.Header, left int, reset time.Duration) {
			h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, left, int(reset.Seconds()+0.999)))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			told := &windowed{size: 40, window: 8 * time.Second, tells: tells, takes: 20 * time.Millisecond}
			good, _ := load(t, told, 6, time.Minute)
			silent := &windowed{size: 40, window: 8 * time.Second, takes: 20 * time.Millisecond}
			without, _ := load(t, silent, 6, time.Minute)
			t.Logf("told: %d answered, %d refused; not told: %d and %d", good, told.refused, without, silent.refused)
			if told.refused > 2 || silent.refused < 100 {
				t.Errorf("%d of some %d requests were refused, and %d where the server says nothing", told.refused, told.done, silent.refused)
			}
			if good < 9*without/10 { // a server that rounds its seconds up makes all wait for that
				t.Errorf("%d of some 320 were answered, and %d where the server says nothing", good, without)
			}
		})
	}
}

// A server that says in every answer that nothing is left, and takes all, delays a call by one answer's time.
func TestAFalseWordDoesNoHarm(t *testing.T) {
	for name, reset := range map[string]string{"soon": "2", "in an hour": "3600", "in milliseconds that it calls seconds": "1500"} {
		bubble(t, name, func(t *testing.T) {
			all := &windowed{size: 1 << 30, window: time.Hour, takes: 50 * time.Millisecond, tells: func(h http.Header, _ int, _ time.Duration) {
				h.Set("X-RateLimit-Remaining", "0")
				h.Set("X-RateLimit-Reset", reset)
			}}
			good, longest := load(t, all, 50, 10*time.Second)
			if good != 500 || longest > 130*time.Millisecond {
				t.Errorf("%d of 500 were answered, the slowest in %v", good, longest)
			}
		})
	}
}

// Where one host's quota is empty, calls of another go on.
func TestAnEmptyQuotaIsItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := &windowed{size: 1, window: 4 * time.Second, tells: tellsXRateLimit}
		c, d := client(t, policy.Policy{}, roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "free.test" {
				return answer(req, 200, ""), nil
			}
			return empty.RoundTrip(req)
		}))
		get := func(url string) time.Duration {
			begun := time.Now()
			resp, err := c.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return time.Since(begun)
		}
		get("http://empty.test")
		if held := d.Stats().Partitions[0].Paced; held != 4*time.Second {
			t.Errorf("the partition is held for %v", held)
		}
		if took := get("http://free.test"); took != 0 {
			t.Errorf("the other host's call took %v", took)
		}
		if took := get("http://empty.test"); took < 4*time.Second { // it is the one that tries, is refused, and comes back
			t.Errorf("the call took %v", took)
		}
	})
}

// What the server says where it refuses.
func TestARefusalComesBackWhenTheQuotaIsSaidToHaveRoom(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		header []string
		least  time.Duration
		tries  int
	}{
		{"429 without Retry-After", 429, []string{"RateLimit", `"d";r=0;t=3`}, 3 * time.Second, 2},
		{"Retry-After counts more", 429, []string{"Retry-After", "2", "RateLimit", `"d";r=0;t=9`}, 2 * time.Second, 2},
		{"retry-after-ms", 429, []string{"retry-after-ms", "1500", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "6m0s"}, 1500 * time.Millisecond, 2},
		{"GitHub's 403 with nothing left", 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2"}, 2 * time.Second, 2},
		{"GitHub's 403 of a secondary limit", 403, []string{"X-RateLimit-Remaining", "4000", "Retry-After", "3"}, 3 * time.Second, 2},
		{"a 403 that only forbids", 403, []string{"X-RateLimit-Remaining", "4000"}, 0, 1},
		{"a 403 with nothing but Retry-After", 403, []string{"Retry-After", "3"}, 0, 1},
		{"a reset in an hour is too long", 429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "3600"}, 0, 1},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tries := 0
			c, _ := client(t, policy.Policy{}, roundTripper(func(req *http.Request) (*http.Response, error) {
				if tries++; tries == 1 {
					return answer(req, tt.status, "", tt.header...), nil
				}
				return answer(req, 200, ""), nil
			}))
			begun := time.Now()
			resp, err := c.Do(request(t, "POST", "http://quota.test/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			took := time.Since(begun)
			if tries != tt.tries || took < tt.least || took > tt.least+tt.least/2+time.Second {
				t.Errorf("%d attempts in %v, want %d in %v or a little more; %d", tries, took, tt.tries, tt.least, resp.StatusCode)
			}
		})
	}
}

// Stripe says what its limit is of.
func TestStripesReasonSaysWhoHasToWait(t *testing.T) {
	for reason, paced := range map[string]bool{"resource-specific": false, "global-rate": true, "endpoint-concurrency": true} {
		bubble(t, reason, func(t *testing.T) {
			var set int
			c, _ := client(t, policy.Policy{Retry: policy.Retry{Attempts: 1}}, roundTripper(func(req *http.Request) (*http.Response, error) {
				return answer(req, 429, "", "Stripe-Rate-Limited-Reason", reason), nil
			}), gabion.WithObserver(observer(func(e gabion.Event) {
				if e.Kind == policy.KindPaceSet {
					set++
				}
			})))
			for range 8 {
				if resp, err := c.Get("http://stripe.test"); err == nil {
					resp.Body.Close()
				}
			}
			if (set > 0) != paced {
				t.Errorf("other calls wait: %t", set > 0)
			}
		})
	}
}
