package gabionhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

func TestEverySlotComesBack(t *testing.T) {
	for _, c := range []struct {
		fact string
		next http.HandlerFunc
	}{
		{"of a handler that returns", func(http.ResponseWriter, *http.Request) {}},
		{"of a handler that panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"of a handler that leaves", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }},
		{"of a handler that gave it back", func(_ http.ResponseWriter, r *http.Request) {
			if !gabionhttp.ReleaseSlot(r.Context()) || gabionhttp.ReleaseSlot(r.Context()) {
				panic("not once")
			}
		}},
	} {
		for _, lasts := range []bool{false, true} {
			if !lasts && c.fact == "of a handler that gave it back" {
				continue
			}
			t.Run(c.fact, func(t *testing.T) {
				a := &gabionhttp.Admission{Next: c.next, Limit: 1, Queue: policy.Off, Lasts: func(*http.Request) bool { return lasts }}
				for range 3 {
					w, over := httptest.NewRecorder(), make(chan struct{})
					go func() {
						defer close(over)
						defer func() { _ = recover() }()
						a.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
					}()
					<-over
					if s := a.Stats(); w.Code != 200 || s.InUse != 0 {
						t.Fatalf("%d, %+v", w.Code, s)
					}
				}
			})
		}
	}
}

// A hook of the user's is asked when there is no slot to lose yet.
func TestAHookThatPanicsCostsNoSlot(t *testing.T) {
	for _, end := range []struct {
		fact string
		call func()
	}{{"panics", func() { panic("a hook") }}, {"leaves", runtime.Goexit}, {"returns", func() {}}} {
		for _, c := range []struct {
			fact string
			set  func(*gabionhttp.Admission)
		}{
			{"Lasts", func(a *gabionhttp.Admission) { a.Lasts = func(*http.Request) bool { end.call(); return true } }},
			{"Tenant", func(a *gabionhttp.Admission) { a.Tenant = func(*http.Request) string { end.call(); return "" } }},
			{"Priority", func(a *gabionhttp.Admission) {
				a.Priority = func(*http.Request) policy.Priority { end.call(); return policy.PriorityHigh }
			}},
			{"Exempt", func(a *gabionhttp.Admission) { a.Exempt = func(*http.Request) bool { end.call(); return false } }},
			{"a value of the context", func(a *gabionhttp.Admission) {
				a.Priority = func(r *http.Request) policy.Priority {
					*r = *r.WithContext(strange{r.Context(), end.call})
					return policy.PriorityHigh
				}
			}},
		} {
			t.Run(c.fact+" "+end.fact, func(t *testing.T) {
				a := &gabionhttp.Admission{Next: http.NotFoundHandler(), Limit: 1, Queue: policy.Off}
				c.set(a)
				ask := end.call
				defer func() { end.call = ask }()
				end.call = func() {
					if s := a.Stats(); s.InUse != 0 && !strings.HasPrefix(c.fact, "a value") {
						t.Error("it is asked with a slot in use")
					}
					ask()
				}
				for range 3 {
					over, returned := make(chan struct{}), false
					go func() {
						defer close(over)
						defer func() { _ = recover() }()
						a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
						returned = true
					}()
					<-over
					if s := a.Stats(); returned != (end.fact == "returns") || s.InUse != 0 {
						t.Fatalf("returned %v, %+v", returned, s)
					}
				}
			})
		}
	}
}

// strange is a context of a user's own.
type strange struct {
	context.Context
	value func()
}

func (s strange) Value(any) any { s.value(); return nil }

// A request that is handed a slot when it is too late for it leaves the slot to others.
func TestASlotThatComesTooLateIsThereForOthers(t *testing.T) {
	for _, c := range []struct {
		fact string
		is   *gabionhttp.Admission
	}{
		{"of a fixed limit", &gabionhttp.Admission{Limit: 1}},
		{"of a learned limit", &gabionhttp.Admission{Max: 1}},
		{"of a tenant", &gabionhttp.Admission{Limit: 1, Tenant: byName}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(c.is)
				h.ask("first")
				late := h.ask("late", header(gabionhttp.HeaderDeadline, "100"), func(r *http.Request) {
					*r = *r.WithContext(dozing{r.Context(), func() {
						h.hold <- struct{}{} // it gets the slot in time …
						time.Sleep(time.Second / 5)
					}}) // … and looks after its deadline
				})
				<-late.over
				if s := h.Stats(); late.Code != 504 || s.InUse != 0 || s.Expired != 1 {
					t.Errorf("%d, %+v", late.Code, s)
				}
				next := h.ask("next", header(gabionhttp.HeaderDeadline, "100"))
				h.close()
				if <-next.over; next.Code != 200 {
					t.Errorf("the next one: %d, %+v", next.Code, h.Stats())
				}
			})
		})
	}
}

// dozing is a context whose request does something else first when it begins to wait.
type dozing struct {
	context.Context
	first func()
}

func (d dozing) Done() <-chan struct{} { d.first(); return d.Context.Done() }

// A stream gives its slot back when it has begun, and goes on.
func TestAStreamNeedsNoSlotForLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		a := &gabionhttp.Admission{Limit: 1, Queue: policy.Off, Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" && !gabionhttp.ReleaseSlot(r.Context()) {
				t.Error("there was no slot to give back")
			}
			if r.URL.Path == "/work" && gabionhttp.ReleaseSlot(r.Context()) {
				t.Error("a request that does not last gave its slot back")
			}
			if r.URL.Path == "/events" {
				<-hold
			}
		})}
		var all sync.WaitGroup
		for _, kind := range []func(*http.Request){header("Accept", "text/event-stream"), header("Upgrade", "websocket")} {
			all.Go(func() {
				r := httptest.NewRequest("GET", "/events", nil)
				kind(r)
				a.ServeHTTP(httptest.NewRecorder(), r)
			})
			synctest.Wait()
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest("GET", "/work", nil))
		low := httptest.NewRequest("GET", "/work", nil)
		low.Header.Set(gabionhttp.HeaderPriority, "low") // it has a context of its own, but does not last either
		a.ServeHTTP(httptest.NewRecorder(), low)
		close(hold)
		all.Wait()
		if s := a.Stats(); w.Code != 200 || s.Admitted != 4 || s.InUse != 0 {
			t.Errorf("%d, %+v", w.Code, s)
		}
	})
}

func TestHealthChecksTakeNoSlot(t *testing.T) {
	only := func(r *http.Request) bool { return r.URL.Path == "/status" }
	for _, c := range []struct {
		method, path string
		exempt       func(*http.Request) bool
		want         int
	}{
		{"GET", "/healthz", nil, 200},
		{"HEAD", "/readyz", nil, 200},
		{"GET", "/livez", nil, 200},
		{"GET", "/health", nil, 200},
		{"GET", "/ready", nil, 200},
		{"GET", "/live", nil, 200},
		{"POST", "/healthz", nil, 503},
		{"GET", "/healthz/deep", nil, 503},
		{"GET", "/status", nil, 503},
		{"GET", "/status", only, 200},
		{"GET", "/healthz", only, 503},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			hold, in := make(chan struct{}), make(chan struct{})
			a := &gabionhttp.Admission{Limit: 1, Queue: policy.Off, Exempt: c.exempt, Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hold" {
					close(in)
					<-hold
				}
			})}
			go a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/hold", nil))
			<-in
			defer close(hold)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
			if s := a.Stats(); w.Code != c.want || s.Exempt != int64(200/w.Code) {
				t.Errorf("%d, %+v", w.Code, s)
			}
		})
	}
}

// A request that need not wait, and a handler that does nothing.
func BenchmarkAdmission(b *testing.B) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name string
		is   *gabionhttp.Admission
	}{
		{"fixed", &gabionhttp.Admission{Next: next, Limit: 1000}},
		{"learned", &gabionhttp.Admission{Next: next}},
		{"fair", &gabionhttp.Admission{Next: next, Limit: 1000, Tenant: func(*http.Request) string { return "a" }}},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/work", nil)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.is.ServeHTTP(w, r)
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.is.ServeHTTP(w, r)
				}
			})
		})
	}
}
