package gabionproxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// ingress makes the handler of a listener before a program: deadlines outside, which cost nothing to check;
// then admission; then keys, so that what was refused for lack of room never claims one. b is the listener at that address before, or nil.
func (p *Proxy) ingress(t, before *tree, l, b *listener) error {
	c := l.config.Ingress
	to, err := p.program(c)
	if err != nil {
		return err
	}
	var h http.Handler = to
	if c.Idempotency.Store != "" {
		if h, err = p.keyed(t, before, c.Idempotency, to); err != nil {
			return err
		}
	}
	if c.Admission != (config.ProxyAdmission{}) {
		l.behind = &behind{h, c.Admission}
		if b != nil && b.gate != nil && sameRoom(b.config.Ingress.Admission, c.Admission) {
			l.gate = b.gate
		} else {
			l.gate = newGate(l.behind)
		}
		h = l.gate
	}
	if c.Deadlines {
		h = &gabionhttp.Deadline{Next: h, Headers: leftHeaders}
	}
	l.handler = arrival{spoken{p, h}}
	return nil
}

// gate is the admission of an address. It outlives configurations, with those whom it has let in and the limit that it has learned.
type gate struct {
	gabionhttp.Admission
	behind atomic.Pointer[behind]
}

// behind is what a configuration has behind a gate, also for those who waited while it was put into force.
type behind struct {
	next      http.Handler
	admission config.ProxyAdmission
}

func newGate(to *behind) *gate {
	g := new(gate)
	g.behind.Store(to)
	a := to.admission
	g.Limit, g.Queue, g.TenantShare, g.Headers = a.Limit, a.Queue, a.TenantShare, leftHeaders
	g.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.behind.Load().next.ServeHTTP(w, r) })
	g.Priority = func(r *http.Request) policy.Priority {
		return serving.ReadPriority(r.Header[gabionhttp.HeaderPriority], g.behind.Load().admission.TrustPriority)
	}
	if a.TenantHeader != "" {
		g.Tenant = func(r *http.Request) string { return r.Header.Get(g.behind.Load().admission.TenantHeader) }
	}
	return g
}

// sameRoom reports whether one gate is right for both: slots, queue and shares are made once.
func sameRoom(a, b config.ProxyAdmission) bool {
	return a.Limit == b.Limit && a.Queue == b.Queue && a.TenantShare == b.TenantShare && (a.TenantHeader == "") == (b.TenantHeader == "")
}

// arrival notes when a request came, since the time that it has left begins then.
type arrival struct{ next http.Handler }

// ServeHTTP implements [http.Handler].
func (a arrival) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e := exchangeOf(r.Context()); e != nil {
		e.came = time.Now()
	}
	a.next.ServeHTTP(w, r)
}

// keyed makes the handler that runs each key once.
func (p *Proxy) keyed(t, before *tree, c config.ProxyIdempotency, to http.Handler) (http.Handler, error) {
	if p.options.Store == nil {
		return nil, fmt.Errorf("this program has no stores, and %s is one", shown(c.Store))
	}
	k := &routed{match: http.NewServeMux(), others: to, proxy: p}
	var methods []string
	for _, route := range c.Routes {
		method, _, _ := strings.Cut(route, " ")
		methods = append(methods, method)
		if err := k.add(route); err != nil {
			return nil, err
		}
	}
	store, err := p.stored(t, before, c.Store)
	if err != nil {
		return nil, fmt.Errorf("idempotency.store: %w", err)
	}
	scope := idempotency.Global
	if c.ScopeHeader != "" {
		name := http.CanonicalHeaderKey(c.ScopeHeader)
		scope = func(r *http.Request) string {
			if lines := r.Header[name]; len(lines) == 1 { // of two, one may be the caller's own: that is no scope, and refused
				return lines[0]
			}
			return ""
		}
	}
	guarantee := idempotency.GuaranteeHold
	if c.RepeatLost {
		guarantee = idempotency.GuaranteeReexecute
	}
	log := p.options.Log
	if t.dry { // what is in memory in its place is not durable
		log = slog.New(slog.DiscardHandler)
	}
	runs, err := idempotency.New(scope, store.Store, to, idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{
			Guarantee: guarantee, Retention: c.Retention, MaxExecution: c.MaxExecution, Observer: idempotency.LogTo(log), Stream: p.options.Keys,
		},
		Methods: slices.Compact(slices.Sorted(slices.Values(methods))), Optional: c.Optional,
	})
	if err != nil {
		return nil, err
	}
	k.keyed = store.during(p, runs)
	return k, nil
}

// handle adds a pattern. http.ServeMux panics where two contradict each other.
func handle(m *http.ServeMux, pattern string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("idempotency.routes: %v", v)
		}
	}()
	m.Handle(pattern, http.NotFoundHandler())
	return nil
}
