package bench

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	fsbreaker "github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
)

// The answer of the server and of the stub.
const hello = "hello, world\n"

func clients() []*Contest {
	return []*Contest{
		{
			Name: "http", Title: "HTTP over loopback", Runs: 1, Headline: true, CPU: true,
			About:   "GET of 13 bytes, read to the end and compared, from a server in another process; the server counts the requests. All clients share one http.Transport. The caller's context can be cancelled, as that of a server's request can. Bytes and allocations are the client's, with one request in flight.",
			Floor:   "bare+WithTimeout",
			Modes:   []Mode{{"1", 1}, {"16", 16}},
			Entries: clientEntries(loopback),
		},
		{
			Name: "http-stub", Title: "HTTP without a network", Runs: 1, CPU: true, Floor: "bare+WithTimeout",
			About: "The same against a RoundTripper that answers at once: the client's own cost. Goroutines are those that a request starts in addition to its caller's. " +
				"(Gabion keeps its trace hooks for later use only under net/http's own Transport, so this stub costs it more memory than a real one.)",
			Entries: clientEntries(stubbed),
		},
	}
}

// A get makes one GET and reports whether the answer was right.
type get func(ctx context.Context, url string) bool

// clientEntry makes entries of clients that are pointed at a place.
func clientEntry(on func(*Run) place) func(string, Kind, string, func(http.RoundTripper) get) Entry {
	return func(name string, kind Kind, note string, make func(http.RoundTripper) get) Entry {
		return Entry{Name: name, Kind: kind, Note: note, Start: func(r *Run) func(*Worker) func() bool {
			at := on(r)
			fetch := make(at.base)
			at.ready(fetch)
			return func(*Worker) func() bool {
				ctx, cancel := context.WithCancel(context.Background())
				r.Cleanup(cancel)
				return func() bool { return fetch(ctx, at.url) }
			}
		}}
	}
}

func clientEntries(on func(*Run) place) []Entry {
	entry := clientEntry(on)
	return []Entry{
		entry("bare", Floor, "http.Client", func(base http.RoundTripper) get { return plain(&http.Client{Transport: base}) }),
		entry("bare+WithTimeout", Floor, "and context.WithTimeout: the least that sets a deadline", bareTimeout),
		entry("gabion", Gabion, "gabionhttp.Transport, the full stack, until the body is read", gabionClient),
		entry("hand-usual", Hand, "context.WithTimeout, cenkalti/backoff, gobreaker, x/sync", handClient),
		entry("failsafehttp", Peer, "timeout, retry, breaker, bulkhead; all end when the headers are there", failsafeClient),
		weaker(entry("go-retryablehttp", Peer, "retry only", retryableClient)),
		entry("bare+Client.Timeout", Floor, "", func(base http.RoundTripper) get {
			return plain(&http.Client{Transport: base, Timeout: limit})
		}),
	}
}

func weaker(e Entry) Entry {
	e.Weaker = true
	return e
}

// place is what a client is pointed at.
type place struct {
	base  http.RoundTripper
	url   string
	ready func(get) // before the first measured call
}

var transport = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return t
})

func loopback(r *Run) place {
	s, err := server()
	if err != nil {
		r.Fatal(err)
	}
	before := 0
	r.Counted = func() int { return s.served(r) - before }
	return place{transport(), s.url, func(fetch get) {
		warm(fetch, s.url)
		before = s.served(r)
	}}
}

// warm opens the connections.
func warm(fetch get, url string) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { fetch(context.Background(), url) })
	}
	wg.Wait()
}

// stub answers without a network. Like net/http it asks its context for Done.
type stub struct {
	served atomic.Int64
	routes atomic.Int64 // goroutines seen
}

var header = http.Header{"Content-Type": {"text/plain"}}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.served.Add(1) == 1 {
		s.routes.Store(int64(runtime.NumGoroutine()))
	}
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	default:
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req, Header: header,
		ContentLength: int64(len(hello)), Body: io.NopCloser(strings.NewReader(hello)),
	}, nil
}

func stubbed(r *Run) place {
	s := new(stub)
	r.Counted = func() int { return int(s.served.Load()) - 1 }
	return place{s, "http://stub/", func(fetch get) {
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		fetch(ctx, "http://stub/")
		r.Extra["goroutines"] = float64(s.routes.Load() - int64(before))
	}}
}

// right reads an answer to its end.
func right(resp *http.Response, err error) bool {
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var text [64]byte
	n, err := io.ReadFull(resp.Body, text[:])
	return err == io.ErrUnexpectedEOF && resp.StatusCode == http.StatusOK && string(text[:n]) == hello
}

func plain(c *http.Client) get {
	return func(ctx context.Context, url string) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		return right(c.Do(req))
	}
}

func bareTimeout(base http.RoundTripper) get {
	fetch := plain(&http.Client{Transport: base})
	return func(ctx context.Context, url string) bool {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return fetch(ctx, url)
	}
}

func gabionClient(base http.RoundTripper) get {
	return plain(&http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("bench", whole()), Base: base}})
}

func handClient(base http.RoundTripper) get {
	c := &http.Client{Transport: base}
	b := gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
		Interval: window, BucketPeriod: window / 10, Timeout: openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.Requests >= minCalls && float64(n.TotalFailures) >= failRate*float64(n.Requests)
		},
	})
	s := semaphore.NewWeighted(slots)
	return func(ctx context.Context, url string) bool {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		send := func() (*http.Response, error) {
			if err := s.Acquire(ctx, 1); err != nil {
				return nil, err
			}
			defer s.Release(1)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			return c.Do(req)
		}
		try := func() (*http.Response, error) { return b.Execute(send) }
		return right(cenkalti.Retry(ctx, try, cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}), cenkalti.WithMaxTries(attempts)))
	}
}

func failsafeClient(base http.RoundTripper) get {
	type response = *http.Response
	var policies = []failsafe.Policy[response]{
		timeout.New[response](limit),
		failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(attempts).Build(),
		fsbreaker.NewBuilder[response]().WithFailureRateThreshold(failRate, minCalls, window).WithDelay(openFor).Build(),
		fsbulkhead.New[response](slots),
	}
	return plain(&http.Client{Transport: failsafehttp.NewRoundTripper(base, policies...)})
}

func retryableClient(base http.RoundTripper) get {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport, c.Logger, c.RetryMax = base, nil, attempts-1
	c.RetryWaitMin, c.RetryWaitMax = 0, 0
	return func(ctx context.Context, url string) bool {
		req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		return right(c.Do(req))
	}
}
