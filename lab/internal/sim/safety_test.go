package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// asked is how a call is made: by a method of HTTP, or by gabion.Do if the method is empty.
type asked struct {
	method string
	keyed  bool
}

// careful is a policy of three tries, each of which might be hedged.
func careful(safe bool, key policy.KeyMode) policy.Policy {
	return policy.Policy{
		Safe: safe, Key: key,
		Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: 2 * time.Second, Margin: policy.Off},
		Retry:   policy.Retry{Attempts: 3, Backoff: backoff.Const(time.Millisecond), Budget: policy.Budget{Off: true}},
		Hedge:   policy.Hedge{Max: 1, Delay: time.Second},
		Breaker: policy.Breaker{Off: true}, Pace: policy.Pace{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
}

// TestSafetyIsProductions makes calls whose connections break, so that it is unknown whether the
// work was done, in the lab, over HTTP and by gabion.Do: what is repeated and what is refused for
// want of a key is the same.
func TestSafetyIsProductions(t *testing.T) {
	for _, key := range []policy.KeyMode{policy.KeyDeclared, policy.KeyMade, policy.KeyRequired} {
		for _, safe := range []bool{false, true} {
			for _, method := range []string{"", "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"} {
				for _, keyed := range []bool{false, true} {
					p, a := careful(safe, key), asked{method, keyed}
					lab, live := a.inLab(t, p), a.overHTTP(t, p, cut)
					if method == "" {
						live = a.byDo(t, p)
					}
					if !slices.Equal(lab, live) {
						t.Errorf("key mode %d, safe %v, %+v:\nlab\n\t%s\nlive\n\t%s", key, safe, a, strings.Join(lab, "\n\t"), strings.Join(live, "\n\t"))
					}
				}
			}
		}
	}
}

func (a asked) inLab(t *testing.T, p policy.Policy) (log []string) {
	w := at(rules(t, p), Service{}, 0)
	w.Faults = []Fault{always(Fault{Kind: Reset})}
	*w.edge() = Edge{Rules: w.edge().Rules, Method: a.method, Keyed: a.keyed}
	RunWatched(w, 1, &Watch{Tell: func(_ uint64, _ int, e policy.Event) { log = append(log, decided(e)) }})
	return log
}

func (a asked) overHTTP(t *testing.T, p policy.Policy, server http.HandlerFunc) []string {
	if a.method == "" {
		return nil
	}
	listening := httptest.NewServer(server)
	defer listening.Close()
	var seen decisions
	transport := &gabionhttp.Transport{
		Dependency: gabion.New("server", p, gabion.WithObserver(&seen)), Base: &http.Transport{DisableKeepAlives: true},
	}
	req, err := http.NewRequest(a.method, listening.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.keyed {
		req.Header.Set("Idempotency-Key", "one")
	}
	if resp, err := transport.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	gabiontest.NothingHeld(t, transport.Dependency)
	return seen.all()
}

func (a asked) byDo(t *testing.T, p policy.Policy) []string {
	var seen decisions
	synctest.Test(t, func(t *testing.T) {
		var opts []gabion.CallOption
		if a.keyed {
			opts = append(opts, gabion.WithKey("one"))
		}
		d := gabion.New("server", p, gabion.WithObserver(&seen))
		_, _ = gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			gabion.Key(ctx) // goes along
			return 0, fmt.Errorf("cut: %w", io.ErrUnexpectedEOF)
		}, opts...)
	})
	return seen.all()
}

// TestWhatIsHedgedIsProductions makes slow calls in the lab and over HTTP, and counts
// the requests.
func TestWhatIsHedgedIsProductions(t *testing.T) {
	for _, safe := range []bool{false, true} {
		for _, method := range []string{"GET", "POST"} {
			for _, keyed := range []bool{false, true} {
				p, a := careful(safe, policy.KeyDeclared), asked{method, keyed}
				p.Timeout.Attempt, p.Hedge.Delay, p.Retry.Attempts = 200*time.Millisecond, 10*time.Millisecond, 1
				count := func(log []string) (n int) {
					for _, l := range log {
						n += strings.Count(l, policy.KindAttemptSent.String())
					}
					return n
				}
				w := at(rules(t, p), Service{}, 0)
				w.Faults = []Fault{always(Fault{Kind: BlackHole})}
				w.edge().Method, w.edge().Keyed = method, keyed
				var lab []string
				RunWatched(w, 1, &Watch{Tell: func(_ uint64, _ int, e policy.Event) { lab = append(lab, decided(e)) }})
				want := 1
				if safe || method == "GET" {
					want = 2
				}
				if live := a.overHTTP(t, p, hang); count(lab) != want || count(live) != want {
					t.Errorf("safe %v, %+v: %d requests in the lab, %d over HTTP, want %d", safe, a, count(lab), count(live), want)
				}
			}
		}
	}
}
