package bench

import (
	"net/http"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/go-kratos/aegis/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

func servers() []*Contest {
	return []*Contest{{
		Name: "admission", Title: "Server admission", Runs: 1, Floor: "bare",
		About: "A handler is called, without a network, and nothing waits: the limit is 64 or more. The request has the headers of a caller that gabion does not know.",
		Entries: []Entry{
			served("bare", Floor, "the handler alone", func(h http.Handler) http.Handler { return h }),
			served("gabion", Gabion, "gabionhttp.Admission, the limit is learned", func(h http.Handler) http.Handler {
				return &gabionhttp.Admission{Next: h, Min: leastSlots, Max: mostSlots}
			}),
			served("gabion-fixed", Gabion, "the same with a fixed limit", func(h http.Handler) http.Handler {
				return &gabionhttp.Admission{Next: h, Limit: slots}
			}),
			served("hand", Hand, "a buffered channel; it only refuses", channelHandler),
			served("x/sync", Peer, "semaphore.Weighted, by hand; it only refuses", semaphoreHandler),
			served("x/time/rate", Peer, "Limiter.Allow, by hand: a rate of 10⁹ and no concurrency", rateHandler),
			served("failsafehttp", Peer, "its adaptive limiter", func(h http.Handler) http.Handler {
				return failsafehttp.NewHandler(h, failsafeLimiter[*http.Response]())
			}),
			served("aegis", Peer, "BBR, by hand as the middleware of go-kratos does it; its CPU threshold is out of reach", aegisHandler),
		},
	}}
}

// job is a request's body, which no middleware looks into: by it the handler finds whose
// work it does.
type job struct {
	w   *Worker
	v   int
	err error
}

func (*job) Read([]byte) (int, error) { return 0, http.ErrBodyReadAfterClose }
func (*job) Close() error             { return nil }

// unread is a response that is not read.
type unread struct {
	header http.Header
	status int
}

func (a *unread) Header() http.Header         { return a.header }
func (a *unread) Write(b []byte) (int, error) { return len(b), nil }
func (a *unread) WriteHeader(status int)      { a.status = status }

// served is a handler that one goroutine calls with the same request again and again.
func served(name string, kind Kind, note string, around func(http.Handler) http.Handler) Entry {
	return Entry{Name: name, Kind: kind, Note: note, Start: func(r *Run) func(*Worker) func() bool {
		h := around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			j := r.Body.(*job)
			j.v, j.err = j.w.Plain()
		}))
		return func(w *Worker) func() bool {
			req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://shop.test/orders/17", nil)
			if err != nil {
				r.Error(err)
				return func() bool { return false }
			}
			req.Header = http.Header{"Accept": {"*/*"}, "User-Agent": {"bench"}, "X-Forwarded-For": {"192.0.2.7"}}
			j := &job{w: w}
			req.Body = j
			a := &unread{header: http.Header{}}
			return func() bool {
				j.v = 0
				h.ServeHTTP(a, req)
				return a.status == 0 && w.Right(j.v, j.err)
			}
		}
	}}
}

func tooBusy(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }

func channelHandler(next http.Handler) http.Handler {
	free := make(chan struct{}, slots)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next.ServeHTTP(w, r)
		default:
			tooBusy(w)
		}
	})
}

func semaphoreHandler(next http.Handler) http.Handler {
	s := semaphore.NewWeighted(slots)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.TryAcquire(1) {
			tooBusy(w)
			return
		}
		defer s.Release(1)
		next.ServeHTTP(w, r)
	})
}

func rateHandler(next http.Handler) http.Handler {
	l := rate.NewLimiter(1e9, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.Allow() {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func aegisHandler(next http.Handler) http.Handler {
	l := aegisLimiter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, err := l.Allow()
		if err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
		done(ratelimit.DoneInfo{})
	})
}
