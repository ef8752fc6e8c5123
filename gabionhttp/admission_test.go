package gabionhttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// house is a server behind an Admission whose requests last until the test lets them go.
type house struct {
	*gabionhttp.Admission
	mu    sync.Mutex
	begun []string // the names of requests, in the order in which their work began
	hold  chan struct{}
}

func newHouse(a *gabionhttp.Admission) *house {
	h := &house{Admission: a, hold: make(chan struct{})}
	a.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.begun = append(h.begun, r.Header.Get("Name"))
		h.mu.Unlock()
		<-h.hold
	})
	return h
}

// asked is a request under way.
type asked struct {
	*httptest.ResponseRecorder
	cancel context.CancelFunc
	over   chan struct{}
}

func (h *house) ask(name string, change ...func(*http.Request)) *asked {
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/work", nil)
	r.Header.Set("Name", name)
	for _, f := range change {
		f(r)
	}
	a := &asked{httptest.NewRecorder(), cancel, make(chan struct{})}
	go func() {
		defer close(a.over)
		h.ServeHTTP(a, r)
	}()
	synctest.Wait()
	return a
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// next lets one request go, and waits until the next one has begun.
func (h *house) next() {
	h.hold <- struct{}{}
	synctest.Wait()
}

func (h *house) close() { close(h.hold); synctest.Wait() }

func byName(r *http.Request) string { return r.Header.Get("Tenant") }

// fill puts as many in the queue.
func (h *house) fill(n int) {
	for h.Stats().Queued < n {
		h.ask("filler")
	}
}

// overloaded makes an overload: for one interval every request waits too long.
func (h *house) overloaded(t *testing.T) {
	t.Helper()
	h.ask("filler")
	h.ask("filler")
	for i := 0; i < 40 && !h.Stats().Overloaded; i++ {
		h.ask("filler")
		time.Sleep(50 * time.Millisecond)
		h.next()
	}
	if !h.Stats().Overloaded {
		t.Fatalf("no overload: %+v", h.Stats())
	}
}

func TestWhatARefusalSays(t *testing.T) {
	one := func() *gabionhttp.Admission { return &gabionhttp.Admission{Limit: 1, Queue: 1} }
	for _, c := range []struct {
		fact   string
		is     *gabionhttp.Admission
		before func(*testing.T, *house)
		change func(*http.Request)
		status int
		reason string
		mark   bool
	}{
		{"a full queue has room again soon", one(), func(_ *testing.T, h *house) { h.ask("a"); h.ask("b") }, nil, 503, "queue-full", false},
		{"a full queue in an overload has not", &gabionhttp.Admission{Limit: 1, Queue: 2}, func(t *testing.T, h *house) { h.overloaded(t); h.fill(2) }, nil, 503, "queue-full", true},
		{"its turn does not come in an overload", &gabionhttp.Admission{Limit: 1, Queue: 2}, func(t *testing.T, h *house) { h.overloaded(t) }, nil, 503, "too-long", true},
		{"no queue at all", &gabionhttp.Admission{Limit: 1, Queue: policy.Off}, func(_ *testing.T, h *house) { h.ask("a") }, nil, 503, "queue-full", false},
		{"its turn does not come in an interval", one(), func(_ *testing.T, h *house) { h.ask("a") }, nil, 503, "too-long", false},
		{"a tenant with all that one may have", &gabionhttp.Admission{Limit: 4, Queue: 4, Tenant: byName, TenantShare: 0.25}, func(_ *testing.T, h *house) { h.ask("a"); h.ask("b") }, nil, 503, "over-share", false},
		{"the deadline has passed", one(), nil, header(gabionhttp.HeaderDeadline, "0"), 504, "expired", true},
		{"the deadline passes in the queue", one(), func(_ *testing.T, h *house) { h.ask("a") }, header(gabionhttp.HeaderDeadline, "30"), 504, "expired", true},
		{"less time is left than the work takes", one(), func(_ *testing.T, h *house) {
			for range 30 {
				h.ask("a")
				time.Sleep(20 * time.Millisecond)
				h.next()
			}
			h.ask("tried", header(gabionhttp.HeaderDeadline, "10")) // admitted as a trial: one request in a number, or one each second
			time.Sleep(20 * time.Millisecond)
			h.next()
		}, header(gabionhttp.HeaderDeadline, "10"), 503, "deadline-short", false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(c.is)
				if c.before != nil {
					c.before(t, h)
				}
				if c.change == nil {
					c.change = func(*http.Request) {}
				}
				began := len(h.begun)
				a := h.ask("refused", c.change)
				<-a.over
				head := a.Result().Header
				var body struct {
					Type, Title string
					Status      int
				}
				if err := json.Unmarshal(a.Body.Bytes(), &body); err != nil {
					t.Fatal(err)
				}
				for _, x := range []struct{ what, got, want string }{
					{"status", strconv.Itoa(a.Code), strconv.Itoa(c.status)},
					{"status in the body", strconv.Itoa(body.Status), strconv.Itoa(c.status)},
					{"type", body.Type, "urn:gabion:admission:" + c.reason},
					{"reason", head.Get(gabionhttp.HeaderRefused), c.reason},
					{"kind", head.Get("Content-Type"), "application/problem+json"},
					{"caching", head.Get("Cache-Control"), "no-store"},
					{"mark", head.Get("X-Should-Retry"), map[bool]string{true: "false"}[c.mark]},
				} {
					if x.got != x.want {
						t.Errorf("%s is %q, want %q", x.what, x.got, x.want)
					}
				}
				if after := head.Get("Retry-After"); c.status == 503 && after != "1" && after != "2" || c.status == 504 && after != "" {
					t.Errorf("Retry-After is %q", after)
				}
				if len(h.begun) != began {
					t.Errorf("%v was begun", h.begun[began:])
				}
				h.close()
			})
		})
	}
}

func TestWhoIsServedNext(t *testing.T) {
	low, high := header(gabionhttp.HeaderPriority, "low"), header(gabionhttp.HeaderPriority, "high")
	of := func(tenant string) func(*http.Request) { return header("Tenant", tenant) }
	for _, c := range []struct {
		fact string
		is   *gabionhttp.Admission
		come []func(*http.Request)
		want string // the names are 0, 1, …; 0 is served at once
	}{
		{"the first one", &gabionhttp.Admission{Limit: 1}, []func(*http.Request){low, low, low}, "012"},
		{"a low priority is last", &gabionhttp.Admission{Limit: 1}, []func(*http.Request){low, low, header("X", "")}, "021"},
		{"a caller can't raise its own priority", &gabionhttp.Admission{Limit: 1}, []func(*http.Request){low, header("X", ""), high}, "012"},
		{"unless the operator lets them", &gabionhttp.Admission{Limit: 1, TrustPriority: true}, []func(*http.Request){low, header("X", ""), high}, "021"},
		{"an unknown priority is a normal one", &gabionhttp.Admission{Limit: 1, TrustPriority: true}, []func(*http.Request){low, header(gabionhttp.HeaderPriority, "urgent!"), low, header("X", "")}, "0132"},
		{"the tenant with the fewest slots", &gabionhttp.Admission{Limit: 1, Tenant: byName}, []func(*http.Request){of("a"), of("a"), of("b")}, "012"},
		{"the operator's own function", &gabionhttp.Admission{Limit: 1, Priority: func(r *http.Request) policy.Priority {
			n, _ := strconv.Atoi(r.Header.Get("Name"))
			return policy.Priority(n)
		}}, []func(*http.Request){low, low, low}, "012"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(c.is)
				for i, change := range c.come {
					h.ask(strconv.Itoa(i), change)
				}
				got := ""
				for range c.come {
					h.next()
				}
				for _, name := range h.begun {
					got += name
				}
				if got != c.want {
					t.Errorf("served %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestTheNewestIsServedFirstInAnOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(&gabionhttp.Admission{Limit: 1, Queue: 8, NewestFirst: true})
		h.overloaded(t)
		h.begun = nil
		for _, name := range []string{"1", "2", "3"} {
			h.ask(name)
		}
		h.next()
		if len(h.begun) != 1 || h.begun[0] != "3" {
			t.Errorf("served %v", h.begun)
		}
		h.close()
	})
}

// A request whose caller has left is not begun, and its place is free for others.
func TestAbandonedWorkIsNotBegun(t *testing.T) {
	for _, c := range []struct {
		fact   string
		change func(*http.Request)
		until  func(*asked)
		want   gabionhttp.AdmissionStats
	}{
		{"the caller is gone", nil, func(a *asked) { a.cancel() }, gabionhttp.AdmissionStats{Gone: 1}},
		{"the deadline of the context has passed", func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
			context.AfterFunc(ctx, cancel)
			*r = *r.WithContext(ctx)
		}, func(*asked) { time.Sleep(10 * time.Millisecond) }, gabionhttp.AdmissionStats{Expired: 1}},
		{"the deadline of the header has passed", header(gabionhttp.HeaderDeadline, "10"), func(*asked) { time.Sleep(10 * time.Millisecond) }, gabionhttp.AdmissionStats{Expired: 1}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(&gabionhttp.Admission{Limit: 1, Queue: 1})
				h.ask("first")
				if c.change == nil {
					c.change = func(*http.Request) {}
				}
				a := h.ask("in vain", c.change)
				c.until(a)
				<-a.over
				h.ask("third")
				h.next()
				if h.begun[len(h.begun)-1] != "third" || len(h.begun) != 2 {
					t.Errorf("begun: %v", h.begun)
				}
				h.close()
				s := h.Stats()
				if s.Gone != c.want.Gone || s.Expired != c.want.Expired || s.Saved() != 1 || s.InUse != 0 || s.Queued != 0 || s.Refused() != 0 {
					t.Errorf("stats: %+v", s)
				}
			})
		})
	}
	t.Run("the caller is gone before it comes", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a := &gabionhttp.Admission{Next: http.NotFoundHandler(), Limit: 1}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		if s := a.Stats(); w.Code != 503 || s.Gone != 1 || s.Admitted != 0 {
			t.Errorf("%d, %+v", w.Code, s)
		}
	})
}

// The two can stand in either order: what the handler has left never includes the wait.
func TestAdmissionAndDeadlineInEitherOrder(t *testing.T) {
	for _, c := range []struct {
		fact string
		make func(a *gabionhttp.Admission, next http.Handler) http.Handler
	}{
		{"the deadline outside", func(a *gabionhttp.Admission, next http.Handler) http.Handler {
			a.Next = next
			return &gabionhttp.Deadline{Next: a}
		}},
		{"the deadline inside", func(a *gabionhttp.Admission, next http.Handler) http.Handler {
			a.Next = &gabionhttp.Deadline{Next: next}
			return a
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &gabionhttp.Admission{Limit: 1}
				hold, left := make(chan struct{}), time.Duration(0)
				server := c.make(a, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					at, _ := r.Context().Deadline()
					left = time.Until(at)
					<-hold
				}))
				var all sync.WaitGroup
				ask := func(ms string) {
					all.Go(func() {
						r := httptest.NewRequest("GET", "/", nil)
						r.Header.Set(gabionhttp.HeaderDeadline, ms)
						server.ServeHTTP(httptest.NewRecorder(), r)
					})
					synctest.Wait()
				}
				ask("500")
				ask("500")
				ask("100")
				time.Sleep(200 * time.Millisecond)
				hold <- struct{}{}
				synctest.Wait()
				if left != 300*time.Millisecond {
					t.Errorf("%v left after 200 ms of 500", left)
				}
				close(hold)
				all.Wait()
				if s := a.Stats(); s.Admitted != 2 || s.Expired != 1 || s.InUse != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestAdmissionThatCannotBeMeant(t *testing.T) {
	for _, c := range []struct {
		fact string
		is   *gabionhttp.Admission
		ok   bool
	}{
		{"the zero Admission", &gabionhttp.Admission{}, true},
		{"one that learns between bounds", &gabionhttp.Admission{Limit: policy.Learned, Min: 2, Max: 20}, true},
		{"a limit below nothing", &gabionhttp.Admission{Limit: -7}, false},
		{"bounds of a limit that stays", &gabionhttp.Admission{Limit: 7, Max: 9}, false},
		{"bounds the wrong way round", &gabionhttp.Admission{Min: 7, Max: 3}, false},
		{"a queue below nothing", &gabionhttp.Admission{Queue: -9}, false},
		{"a time without its unit", &gabionhttp.Admission{Target: 5}, false},
		{"a negative time", &gabionhttp.Admission{RetryAfter: -time.Second}, false},
		{"a target above the interval", &gabionhttp.Admission{Target: 2 * time.Second}, false},
		{"a share without tenants", &gabionhttp.Admission{TenantShare: 0.5}, false},
		{"a share that is a percentage", &gabionhttp.Admission{Tenant: byName, TenantShare: 50}, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			c.is.Next = http.NotFoundHandler()
			w := httptest.NewRecorder()
			c.is.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if got := w.Code == 404; got != c.ok {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			c.is.Stats()
		})
	}
}

// The writer is the server's own, so that nothing is lost that it can do.
func TestTheWriterIsPassedOnUntouched(t *testing.T) {
	w := httptest.NewRecorder()
	for _, kind := range []func(*http.Request){header("X", ""), header("Upgrade", "h2c"), header(gabionhttp.HeaderPriority, "low")} {
		a := &gabionhttp.Admission{Next: http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
			if got != http.ResponseWriter(w) {
				t.Errorf("another writer: %T", got)
			}
		})}
		r := httptest.NewRequest("GET", "/", nil)
		kind(r)
		a.ServeHTTP(w, r)
	}
}

func TestARequestThatNeedNotWaitCostsNoAllocation(t *testing.T) {
	for _, c := range []struct {
		fact string
		is   *gabionhttp.Admission
	}{
		{"fixed", &gabionhttp.Admission{Limit: 10}},
		{"learned", &gabionhttp.Admission{}},
		{"fair", &gabionhttp.Admission{Limit: 10, Tenant: byName, TenantShare: 0.5}},
	} {
		c.is.Next = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/work", nil)
		r.Header.Set(gabionhttp.HeaderDeadline, "1000")
		if n := testing.AllocsPerRun(200, func() { c.is.ServeHTTP(w, r) }); n != 0 {
			t.Errorf("%s: %v allocations", c.fact, n)
		}
	}
}
