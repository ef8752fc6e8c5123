package gabionhttp_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// A server that keeps keys says of a run under way to come back in up to 5 s. That is
// waited for also where waits of the call's own are shorter, and the call gets the
// answer of the first run.
func TestIssue10_ARunUnderWayIsWaitedForLongerThanTheBackOff(t *testing.T) {
	tests := []struct {
		name     string
		run      time.Duration
		maxAfter time.Duration
		want     string
		reason   gabion.Reason
		requests int32
		least    time.Duration
		most     time.Duration
	}{
		{"a run of 6 s", 6 * time.Second, 0, "ch_1", 0, 3, 6 * time.Second, 10 * time.Second},
		{"a run of 10 s is asked for twice", 10 * time.Second, 0, "ch_1", 0, 4, 10 * time.Second, 16 * time.Second},
		{"unless the policy waits for no such time", 6 * time.Second, time.Second, "", policy.RetryAfterTooLong, 2, 0, 4 * time.Second},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			var ran atomic.Int32
			s := servePiped(t, provider(t, idempotency.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				ran.Add(1)
				time.Sleep(tt.run) // the bubble's time
				io.WriteString(w, "ch_1")
			}).ServeHTTP)
			p := policy.Policy{
				Timeout: policy.Timeout{Call: time.Minute, Attempt: 2 * time.Second},
				Retry: policy.Retry{
					Attempts: 6, Backoff: backoff.Full(100*time.Millisecond, time.Second),
					MaxAfter: tt.maxAfter, Budget: policy.Budget{Off: true},
				},
			}
			c, d := client(t, p, base(t, s))
			start := time.Now()
			resp, err := c.Do(keyedPost(t, s.URL, "k", "charge"))
			took := time.Since(start)
			switch {
			case err != nil:
				t.Fatal(err)
			case tt.reason == 0 && (resp.StatusCode != 200 || resp.Header.Get("Idempotent-Replayed") != "true"):
				t.Errorf("ended with %d %v", resp.StatusCode, resp.Header)
			case tt.reason != 0 && (resp.StatusCode != 409 || gabionhttp.Verdict(resp).Reason != tt.reason):
				t.Errorf("ended with %d %v", resp.StatusCode, resp.Header)
			}
			if got := read(t, resp); tt.want != "" && got != tt.want {
				t.Errorf("the answer is %q", got)
			}
			if took < tt.least || took > tt.most || s.requests.Load() != tt.requests || ran.Load() != 1 {
				t.Errorf("took %v and %d requests, ran %d times", took, s.requests.Load(), ran.Load())
			}
			time.Sleep(time.Minute) // whatever an attempt left behind has ended
			synctest.Wait()
			gabiontest.NothingHeld(t, d)
		})
	}
}
