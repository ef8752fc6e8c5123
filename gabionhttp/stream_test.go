package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// overBoth runs a test over HTTP/1.1 and HTTP/2, in a bubble.
func overBoth(t *testing.T, name string, h http.HandlerFunc, f func(*testing.T, *site)) {
	for proto, start := range map[string]func(testing.TB, http.HandlerFunc) *site{"HTTP/1": servePiped, "HTTP/2": servePipedH2} {
		bubble(t, name+", "+proto, func(t *testing.T) { f(t, start(t, h)) })
	}
}

// events writes n lines, one every so often, and says what they are.
func events(n int, every time.Duration, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.(http.Flusher).Flush()
		for i := range n {
			time.Sleep(every)
			fmt.Fprintf(w, "{\"event\":%d}\n", i)
			w.(http.Flusher).Flush()
		}
	}
}

// open gets an answer and leaves its body open.
func open(t testing.TB, c *http.Client, url string) *http.Response {
	t.Helper()
	resp, err := c.Do(request(t, "GET", url, ""))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func laneOf(d *gabion.Dependency) breaker.Snapshot { return d.Stats().Partitions[0].Breaker }

func laneName(d *gabion.Dependency) string { return d.Stats().Partitions[0].Name }

// An attempt is bounded to the response headers: what comes later arrives whole under
// the zero policy, and is neither a failure nor slow.
func TestStreamsArriveWhole(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		lines int
		takes time.Duration
	}{
		{"events for 6 s", events(12, 500*time.Millisecond, "text/event-stream"), 12, 6 * time.Second},
		{"a watch of 10 events in 25 s", events(10, 2500*time.Millisecond, "application/json"), 10, 25 * time.Second},
		{"a watch of an hour with silences of 29 s", events(120, 29*time.Second, "application/json"), 120, 120 * 29 * time.Second},
		{"a download of known length", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "120")
			events(10, 2*time.Second, "application/octet-stream")(w, r)
		}, 10, 20 * time.Second},
	} {
		overBoth(t, c.name, c.serve, func(t *testing.T, s *site) {
			client, d := client(t, policy.Policy{}, base(t, s))
			start := time.Now()
			resp := open(t, client, s.URL)
			body, err := io.ReadAll(resp.Body)
			if want := c.lines * len("{\"event\":0}\n"); err != nil || len(body) < want {
				t.Errorf("%d bytes, at least %d expected: %v", len(body), want, err)
			}
			if took := time.Since(start); took != c.takes {
				t.Errorf("it took %s, want %s", took, c.takes)
			}
			if b := laneOf(d); b.Counts.Failures != 0 || b.Counts.Slow != 0 {
				t.Errorf("the breaker heard %+v", b.Counts)
			}
			resp.Body.Close()
			gabiontest.NothingHeld(t, d)
		})
	}
}

// A stream that brings nothing ends after the idle time, with its connection, and is
// one failure; the whole may be bounded too.
func TestALimitEndsABody(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout policy.Timeout
		serve   http.HandlerFunc
		why     gabion.Reason
		after   time.Duration
	}{
		{"a stalled download", policy.Timeout{}, stall, policy.IdleTimeout, 30 * time.Second},
		{"a stalled stream", policy.Timeout{}, func(w http.ResponseWriter, r *http.Request) {
			events(3, time.Second, "text/event-stream")(w, r)
			<-r.Context().Done()
		}, policy.IdleTimeout, 33 * time.Second},
		{"a short idle time", policy.Timeout{Idle: 100 * time.Millisecond}, stall, policy.IdleTimeout, 100 * time.Millisecond},
		{"a stream that trickles for too long", policy.Timeout{Body: time.Minute},
			events(1000, time.Second, "application/json"), policy.BodyTimeout, time.Minute},
	} {
		gone := make(chan struct{}, 1)
		overBoth(t, c.name, func(w http.ResponseWriter, r *http.Request) {
			defer func() { <-r.Context().Done(); gone <- struct{}{} }()
			c.serve(w, r)
		}, func(t *testing.T, s *site) {
			gone = make(chan struct{}, 1)
			client, d := client(t, policy.Policy{Timeout: c.timeout, Breaker: policy.Breaker{Window: time.Hour}}, base(t, s))
			start := time.Now()
			resp := open(t, client, s.URL)
			err := drain(resp)
			if took := time.Since(start); took != c.after {
				t.Errorf("it took %s, want %s", took, c.after)
			}
			if gabion.ReasonOf(err) != c.why || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("the reader got %v, want %v", err, c.why)
			}
			if b := laneOf(d).Counts; b.Calls != 1 || b.Failures != 1 {
				t.Errorf("the breaker heard %+v", b)
			}
			<-gone // before the body is closed
			resp.Body.Close()
			gabiontest.NothingHeld(t, d)
		})
	}
}

// While the caller is busy, the server owes nothing.
func TestASlowReaderIsNobodysFailure(t *testing.T) {
	overBoth(t, "a megabyte", func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 1<<20)) }, func(t *testing.T, s *site) {
		client, d := client(t, policy.Policy{Breaker: policy.Breaker{Window: time.Hour}}, base(t, s))
		resp := open(t, client, s.URL)
		buf := make([]byte, 1<<16)
		n, err := 0, error(nil)
		for err == nil {
			time.Sleep(40 * time.Second)
			m := 0
			m, err = io.ReadFull(resp.Body, buf)
			n += m
		}
		if n != 1<<20 || laneOf(d).Counts.Failures != 0 {
			t.Errorf("%d bytes, %v, %+v", n, err, laneOf(d).Counts)
		}
		resp.Body.Close()
		gabiontest.NothingHeld(t, d)
	})
}

// A long-lived response does not fill a bulkhead for good: an event stream holds no slot, and a
// body that is never closed holds one for as long as its attempt might have taken.
func TestStreamsLeaveRoom(t *testing.T) {
	quiet := func(kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				w.Header().Set("Content-Type", kind)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		per   policy.Per
		open  int           // at once
		rest  time.Duration // until there is room again
	}{
		{"150 event streams", quiet("text/event-stream; charset=utf-8"), policy.PerAttempt, 150, 0},
		{"100 bodies that stay open", quiet("application/json"), policy.PerAttempt, 100, 4 * time.Second},
		{"100 bodies, and a slot is for a whole call", quiet("application/json"), policy.PerCall, 100, 4 * time.Second},
	} {
		overBoth(t, c.name, c.serve, func(t *testing.T, s *site) {
			var log gabiontest.Recorder
			client, d := client(t, policy.Policy{Bulkhead: policy.Bulkhead{Per: c.per}}, base(t, s), gabion.WithObserver(&log))
			var all []*http.Response
			for range c.open {
				all = append(all, open(t, client, s.URL))
			}
			if in := d.Stats().Bulkhead.InUse; c.rest > 0 && in != c.open {
				t.Errorf("%d in flight", in)
			}
			time.Sleep(c.rest)
			synctest.Wait()
			st := d.Stats()
			if st.Bulkhead.InUse != 0 || st.Streams != int64(c.open) {
				t.Errorf("%d slots in use, %d streams", st.Bulkhead.InUse, st.Streams)
			}
			read(t, open(t, client, s.URL+"/short"))
			said := 0
			for _, e := range log.Events() {
				if e.Kind == policy.KindOutlived {
					said++
				}
			}
			if said != c.open {
				t.Errorf("%d events", said)
			}
			for _, resp := range all {
				resp.Body.Close()
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// Twelve healthy streams of 6 s are no slowness.
func TestHealthyStreamsKeepTheBreakerClosed(t *testing.T) {
	overBoth(t, "12 at a time", events(12, 500*time.Millisecond, "application/json"), func(t *testing.T, s *site) {
		client, d := client(t, policy.Policy{Breaker: policy.Breaker{MinCalls: 1}}, base(t, s))
		for range 3 {
			var all []*http.Response
			for range 12 {
				all = append(all, open(t, client, s.URL))
			}
			for _, resp := range all {
				read(t, resp)
			}
		}
		if b := laneOf(d); b.State != breaker.Closed || b.Counts.Slow != 0 {
			t.Errorf("%+v", b)
		}
		gabiontest.NothingHeld(t, d)
	})
}

// A service that cuts every answer after the headers is down: neither do its headers
// keep the breaker closed, nor do those of a probe close it.
func TestCutAnswersOpenTheBreaker(t *testing.T) {
	cut := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name    string
		rules   policy.Breaker
		refused int // of 200 calls in 10 s
	}{
		{"by the defaults, which wait for slow answers", policy.Breaker{}, 30},
		{"open for 15 s at half", policy.Breaker{FailureRate: 0.5, Open: 15 * time.Second}, 160},
	} {
		overBoth(t, c.name, cut, func(t *testing.T, s *site) {
			log := &gabiontest.Recorder{}
			client, d := client(t, policy.Policy{Breaker: c.rules}, base(t, s), gabion.WithObserver(log))
			refused := 0
			for range 200 {
				resp, err := client.Do(request(t, "GET", s.URL, ""))
				if err == nil {
					drain(resp)
					resp.Body.Close()
				} else if errors.Is(err, policy.BreakerOpen) {
					refused++
				}
				time.Sleep(time.Second / 20)
			}
			if refused < c.refused {
				t.Errorf("the breaker is %v, and refused %d", laneOf(d).State, refused)
			}
			for _, e := range log.Events() {
				if e.Kind == policy.KindBreakerMoved && e.To == breaker.Closed {
					t.Errorf("closed: %v", e)
				}
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// A probe whose answer is a stream decides when it has gone on for the attempt's time,
// and a short one when it ends.
func TestAProbeThatStreamsClosesTheBreaker(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int // half-seconds of the stream
		closes time.Duration
	}{
		{"for 20 s", 40, 4 * time.Second},
		{"for 2 s", 4, 2 * time.Second},
	} {
		overBoth(t, c.name, events(c.n, 500*time.Millisecond, "application/json"), func(t *testing.T, s *site) {
			client, d := client(t, policy.Policy{}, base(t, s))
			read(t, open(t, client, s.URL+"/short"))
			b, _ := d.Breaker(laneName(d))
			b.Trip()
			if err := b.HalfOpen(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			resp := open(t, client, s.URL)
			done := make(chan struct{})
			go func() {
				defer close(done)
				read(t, resp)
			}()
			time.Sleep(c.closes - time.Millisecond)
			synctest.Wait()
			if b := laneOf(d); b.State != breaker.HalfOpen || b.Probes != 1 {
				t.Errorf("after %s: %+v", time.Since(start), b)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if b := laneOf(d); b.State != breaker.Closed {
				t.Errorf("after %s: %+v", time.Since(start), b)
			}
			<-done
			gabiontest.NothingHeld(t, d)
		})
	}
}

// After the headers the caller's own context cuts, and says nothing of the dependency.
func TestTheCallersContextCutsABody(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Second, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Second)
		},
	} {
		overBoth(t, name, stall, func(t *testing.T, s *site) {
			client, d := client(t, policy.Policy{Breaker: policy.Breaker{Window: time.Hour}}, base(t, s))
			ctx, cancel := end(t.Context())
			defer cancel()
			start := time.Now()
			resp, err := client.Do(request(t, "GET", s.URL, "").WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if err = drain(resp); !errors.Is(err, ctx.Err()) || time.Since(start) != 10*time.Second {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
			resp.Body.Close()
			if b := laneOf(d).Counts; b.Calls != 1 || b.Failures != 0 {
				t.Errorf("the breaker heard %+v", b)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// An answer without a body holds nothing once it is there.
func TestAnswersWithoutABodyHoldNothing(t *testing.T) {
	overBoth(t, "HEAD and 204", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, func(t *testing.T, s *site) {
		client, d := client(t, policy.Policy{}, base(t, s))
		for _, method := range []string{"HEAD", "GET"} {
			resp, err := client.Do(request(t, method, s.URL, ""))
			if err != nil {
				t.Fatal(err)
			}
			gabiontest.NothingHeld(t, d)
			resp.Body.Close()
		}
	})
}
