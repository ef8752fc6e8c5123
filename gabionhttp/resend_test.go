package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// once allows one attempt, so that whatever arrives twice was sent by net/http.
func once() policy.Policy {
	return with(eager(), func(p *policy.Policy) { p.Retry.Attempts = 1; p.Retry.Budget.Off = false })
}

// net/http sends a request again when a reused connection dies before the answer.
// With a key it would do so for a POST too, once per idle connection: gabion keeps
// it from that (ADR 31). What has no body can't be kept from it; that is counted,
// reported and charged. What is not safe is never sent twice (case 67).
func TestHiddenResends(t *testing.T) {
	tests := []struct {
		name    string
		method  string
		key     string
		arrived int   // of the second call's requests
		hidden  int64 // re-sends
		ok      bool
	}{
		{"GET is sent again by net/http", "GET", "", 2, 1, true},
		{"a keyed POST is left to the policy", "POST", "k-1", 1, 0, false},
		{"a keyed PUT is left to the policy", "PUT", "k-1", 1, 0, false},
		{"POST without a key is never sent again once it was written", "POST", "", 1, 0, false},
		{"PATCH without a key neither", "PATCH", "", 1, 0, false},
		{"PUT is not net/http's to repeat", "PUT", "", 1, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFickle(t, "ad", "a")
			var events gabiontest.Recorder
			c, d := client(t, once(), base(t, nil), gabion.WithObserver(&events))
			warm, err := c.Get(s.url())
			if err != nil {
				t.Fatal(err)
			}
			read(t, warm)
			before := d.Stats().Budget.Sent

			req := request(t, tt.method, s.url(), map[bool]string{true: "charge"}[tt.method != "GET"])
			if tt.key != "" {
				req.Header.Set(gabionhttp.HeaderKey, tt.key)
			}
			resp, err := c.Do(req)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			if err == nil {
				read(t, resp)
			} else if e, ok := errors.AsType[*gabion.Error](err); !ok || e.Effect != policy.UnknownEffect {
				t.Errorf("the request arrived, but the error says %v", err)
			} else if class := lastClass(events.Events()); class != policy.ClassNetwork {
				t.Errorf("the connection broke, and the attempt is of class %v", class)
			}
			got := s.arrived()[1:]
			if len(got) != tt.arrived {
				t.Errorf("arrived: %v, want %d", got, tt.arrived)
			}
			for _, r := range got {
				if r != got[0] || r.key != tt.key {
					t.Errorf("re-sent %v as %v", got[0], r)
				}
			}
			tr := c.Transport.(*gabionhttp.Transport)
			if tr.Hidden() != tt.hidden {
				t.Errorf("hidden = %d, want %d", tr.Hidden(), tt.hidden)
			}
			if charged := d.Stats().Budget.Sent - before; charged != tt.hidden {
				t.Errorf("budget charged with %d, want %d", charged, tt.hidden)
			}
			if n := count(events.Events(), policy.KindResent); n != int(tt.hidden) {
				t.Errorf("%d resent events, want %d", n, tt.hidden)
			}
		})
	}
}

// lastClass is what the last attempt was judged to be.
func lastClass(events []gabion.Event) (c policy.Class) {
	for _, e := range events {
		if e.Kind == policy.KindAttemptSettled {
			c = e.Class
		}
	}
	return c
}

func count(events []gabion.Event, k policy.Kind) (n int) {
	for _, e := range events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// A POST with a body that gabion could repeat gets no GetBody that lets net/http
// do it: without a key net/http does not, with one it is counted.
func TestHiddenResendsOfAStreamWithAKey(t *testing.T) {
	s := newFickle(t, "ad", "a")
	c, _ := client(t, once(), base(t, nil))
	warm, err := c.Get(s.url())
	if err != nil {
		t.Fatal(err)
	}
	read(t, warm)
	req := request(t, "POST", s.url(), "")
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader("charge")), -1
	req.Header.Set(gabionhttp.HeaderKey, "k")
	_, err = c.Do(req)
	if len(s.arrived()) != 2 || !errors.Is(err, policy.AttemptsExhausted) {
		t.Errorf("arrived %v, error %v", s.arrived(), err)
	}
}

// net/http wrote the request on a dead connection and then could not dial another:
// its error is the dial's, yet the first request may have been carried out.
func TestADialErrorAfterAHiddenSendIsInDoubt(t *testing.T) {
	s := newFickle(t, "agd")
	c, _ := client(t, once(), base(t, nil))
	warm, err := c.Get(s.url())
	if err != nil {
		t.Fatal(err)
	}
	read(t, warm)
	req := request(t, "GET", s.url(), "")
	_, err = c.Do(req)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		if runtime.GOOS == "linux" {
			t.Fatalf("error %v, want a refused dial", err)
		}
		t.Skipf("%s reports %v and not a refused dial", runtime.GOOS, err)
	}
	if len(s.arrived()) != 2 || gabion.EffectOf(err) != policy.UnknownEffect {
		t.Errorf("arrived %v, and the error says %v", s.arrived(), err)
	}
}

// What never left may be repeated whatever it is, and nothing happened (C66).
func TestNeverSentIsProved(t *testing.T) {
	// net/http lets an abandoned dial run on, until the test is over.
	hang := func(over context.Context) (net.Conn, error) { <-over.Done(); return nil, over.Err() }
	mute := func(over context.Context) (net.Conn, error) { // the other end says nothing
		c, _ := net.Pipe()
		context.AfterFunc(over, func() { c.Close() })
		return c, nil
	}
	tests := []struct {
		name string
		url  string
		dial func(over context.Context) (net.Conn, error)
		base *http.Transport
	}{
		{"the port is closed", "http://" + deserted(t), nil, &http.Transport{}},
		{"the TLS handshake takes too long", "https://x", mute, &http.Transport{TLSHandshakeTimeout: 10 * time.Millisecond}},
		{"the TLS handshake for HTTP/2 takes too long", "https://x", mute, &http.Transport{TLSHandshakeTimeout: 10 * time.Millisecond, ForceAttemptHTTP2: true}},
		{"the attempt ends while dialling", "http://x", hang, &http.Transport{}},
		{"the attempt ends in the TLS handshake", "https://x", mute, &http.Transport{ForceAttemptHTTP2: true}},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			if over := t.Context(); tt.dial != nil {
				tt.base.DialContext = func(context.Context, string, string) (net.Conn, error) { return tt.dial(over) }
			}
			var events gabiontest.Recorder
			p := with(eager(), func(p *policy.Policy) { p.Timeout.Attempt = 50 * time.Millisecond })
			c, d := client(t, p, tt.base, gabion.WithObserver(&events))
			_, err := c.Do(request(t, "POST", tt.url, "charge"))
			events.WantAttempts(t, 3)
			gabiontest.WantReason(t, err, policy.AttemptsExhausted)
			if gabion.EffectOf(err) != policy.NoEffect {
				t.Errorf("nothing was sent, but the error says %v", err)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// An attempt whose time is up before its request is handed on sends nothing either,
// though net/http then looks for no connection. Here the caller's context takes that long
// to look something up; a busy machine may too.
func TestTooLateToBeSentIsProved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events gabiontest.Recorder
		p := with(eager(), func(p *policy.Policy) { p.Timeout.Attempt = 50 * time.Millisecond })
		s := servePiped(t, func(http.ResponseWriter, *http.Request) {})
		c, d := client(t, p, base(t, s), gabion.WithObserver(&events))
		body := &watchedBody{Reader: strings.NewReader("charge")}
		req := request(t, "POST", s.URL, "")
		req.Body, req.ContentLength = body, -1
		_, err := c.Do(req.WithContext(slowValues{t.Context()}))
		events.WantAttempts(t, 3)
		gabiontest.WantReason(t, err, policy.AttemptsExhausted)
		if gabion.EffectOf(err) != policy.NoEffect || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing was sent, but the error says %v", err)
		}
		if body.closed.Load() != 1 || s.requests.Load() != 0 {
			t.Errorf("%d requests, the body was closed %d times", s.requests.Load(), body.closed.Load())
		}
		gabiontest.NothingHeld(t, d)
	})
}

// slowValues takes longer to find a value than an attempt has.
type slowValues struct{ context.Context }

func (c slowValues) Value(key any) any {
	time.Sleep(100 * time.Millisecond)
	return c.Context.Value(key)
}

type observer func(gabion.Event)

// Observe implements gabion.Observer.
func (o observer) Observe(_ context.Context, e gabion.Event) { o(e) }

// deserted returns an address where nothing listens, nor can while the test runs: it is the
// address of the caller's end of a connection.
func deserted(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// A server that goes away closes connections on which nothing was asked yet. net/http
// says so in a text alone, and to some callers even where it repeats the request itself.
func TestAConnectionThatIsClosedBeforeItIsUsedIsABrokenOne(t *testing.T) {
	tests := []struct {
		name   string
		method string
		key    string
		sent   int
	}{
		{"a safe method is repeated", "GET", "", 3},
		{"so is what has a key", "POST", "order-7", 3},
		{"what has none is not", "POST", "", 1},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			dead := func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				return here, there.Close()
			}
			var events gabiontest.Recorder
			c, d := client(t, eager(), &http.Transport{DialContext: dead}, gabion.WithObserver(&events))
			// It is seen before the request is written.
			late := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { time.Sleep(time.Second) }}
			req := keyedPost(t, "http://shop", tt.key, "charge")
			req.Method = tt.method
			_, err := c.Do(req.WithContext(httptrace.WithClientTrace(t.Context(), late)))
			events.WantAttempts(t, tt.sent)
			if err == nil || !strings.Contains(err.Error(), "closed idle") || gabion.EffectOf(err) != policy.UnknownEffect {
				t.Errorf("ended with %v", err)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// Once the headers went out nothing is proved, on either protocol.
func TestSentWithoutAnAnswerIsInDoubt(t *testing.T) {
	for name, start := range map[string]func(testing.TB, http.HandlerFunc) *site{"HTTP/1": servePiped, "HTTP/2": servePipedH2} {
		for how, h := range map[string]http.HandlerFunc{
			"hung": func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			},
			"aborted": func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		} {
			bubble(t, name+" "+how, func(t *testing.T) {
				s := start(t, h)
				p := with(eager(), func(p *policy.Policy) { p.Timeout.Attempt = 100 * time.Millisecond })
				c, _ := client(t, p, base(t, s))
				_, err := c.Do(request(t, "POST", s.URL, "charge"))
				if n := s.requests.Load(); n != 1 || gabion.EffectOf(err) != policy.UnknownEffect {
					t.Errorf("%d requests, %v", n, err)
				}
				if how == "hung" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("not a deadline: %v", err)
				}
				if reason := gabion.ReasonOf(err); reason != policy.NotSafe && reason != policy.UnclassifiedError {
					t.Errorf("ended with %v", err)
				}
			})
		}
	}
}

// The trace that counts is shared among attempts; the caller's own still works.
func TestTheCallersTraceStillWorks(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	c, _ := client(t, once(), base(t, s))
	for range 3 {
		var seen []string
		req := request(t, "GET", s.URL, "")
		req = req.WithContext(traced(req.Context(), &seen))
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if !slices.Equal(seen, []string{"get", "got", "wrote"}) {
			t.Errorf("the caller's trace saw %v", seen)
		}
	}
	if n := c.Transport.(*gabionhttp.Transport).Hidden(); n != 0 {
		t.Errorf("hidden = %d", n)
	}
}

// What has no type is a broken connection if the request's headers were written, and
// otherwise nothing that we know: it may be a refusal to send it.
func TestErrorsWithoutATypeAfterTheRequestWasWritten(t *testing.T) {
	for _, tt := range []struct {
		method string
		wrote  bool
		sent   int
		reason gabion.Reason
	}{
		{"GET", true, 3, policy.AttemptsExhausted},
		{"PUT", true, 3, policy.AttemptsExhausted},
		{"POST", true, 1, policy.NotSafe},
		{"GET", false, 1, policy.UnclassifiedError},
		{"POST", false, 1, policy.UnclassifiedError},
	} {
		sent := 0
		c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			trace := httptrace.ContextClientTrace(req.Context())
			trace.GetConn("shop.test")
			trace.GotConn(httptrace.GotConnInfo{})
			if tt.wrote {
				trace.WroteHeaders()
			}
			return nil, errors.New("http2: client connection lost")
		}))
		_, err := c.Do(request(t, tt.method, "http://shop.test/", ""))
		if sent != tt.sent || gabion.ReasonOf(err) != tt.reason || gabion.EffectOf(err) != policy.UnknownEffect {
			t.Errorf("%s, written %v: sent %d times, %v", tt.method, tt.wrote, sent, err)
		}
	}
}

// A request that ends while its answer arrives takes the connection along, which
// net/http may have lent to the next one by then. The next one's caller gave up
// nothing, and no time of its is up: its connection broke.
func TestAnothersEndIsABrokenConnection(t *testing.T) {
	for _, why := range []error{context.Canceled, policy.AttemptTimeout} {
		tests := []struct {
			method string
			sent   int32
			ok     bool
		}{
			{"GET", 2, true},
			{"PUT", 2, true},
			{"POST", 1, false},
		}
		for _, tt := range tests {
			t.Run(why.Error()+", "+tt.method, func(t *testing.T) {
				var sent atomic.Int32
				c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
					if sent.Add(1) == 1 {
						return nil, why
					}
					return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
				}))
				resp, err := c.Do(request(t, tt.method, "http://shop.test/", ""))
				if sent.Load() != tt.sent || (err == nil) != tt.ok {
					t.Fatalf("%d attempts, %v", sent.Load(), err)
				}
				if err == nil {
					read(t, resp)
					return
				}
				var e *gabion.Error
				if !errors.As(err, &e) || e.Reason != policy.NotSafe || e.Effect != policy.UnknownEffect {
					t.Errorf("%v", err)
				}
				if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v: this call was not canceled, and no time was up", err)
				}
			})
		}
	}
}

func TestAnothersEndBreaksABody(t *testing.T) {
	c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(iotest.ErrReader(context.Canceled)), Request: req}, nil
	}))
	resp, err := c.Do(request(t, "GET", "http://shop.test/", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the body broke with %v", err)
	}
}

// What a call's own end brings stays what it is.
func TestTheCallersOwnEndStaysACancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
		cancel()
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}))
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://shop.test/", nil)
	_, err := c.Do(req)
	var e *gabion.Error
	if !errors.As(err, &e) || e.Reason != policy.Canceled || e.Attempts != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Every idle connection may have died, and net/http would try them all with what has no
// body. An attempt ends after the second re-send, and the policy decides.
func TestHiddenResendsOfOneAttemptAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		key    string
		budget bool // there is one, and nothing in it
		sent   int
		says   string
	}{
		{"GET", "GET", "", false, 3, "sent the request 3 times"},
		{"POST with a key", "POST", "k", false, 3, "sent the request 3 times"},
		{"GET without a budget left", "GET", "", true, 1, "the retry budget has nothing left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const idle = 6
			scripts := make([]string, idle)
			for i := range scripts {
				scripts[i] = "ad"
			}
			s := newFickle(t, scripts...)
			p := with(once(), func(p *policy.Policy) {
				p.Retry.Budget.Off = !tt.budget
				p.Retry.Budget.Floor, p.Retry.Budget.Ratio = policy.Off, policy.Off
			})
			c, _ := client(t, p, base(t, nil))
			var all sync.WaitGroup
			meet := make(chan struct{})
			var here atomic.Int32
			trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				if here.Add(1) == idle {
					close(meet)
				}
				<-meet
			}}
			for range idle {
				all.Go(func() {
					req := request(t, "POST", s.url(), "")
					resp, err := c.Do(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
					if err != nil {
						t.Error(err)
						return
					}
					read(t, resp)
				})
			}
			all.Wait()
			req := keyedPost(t, s.url(), tt.key, "")
			req.Method = tt.method
			_, err := c.Do(req)
			if n := len(s.arrived()) - idle; n != tt.sent || gabion.EffectOf(err) != policy.UnknownEffect || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%d requests of one attempt arrived, want %d: %v", n, tt.sent, err)
			}
		})
	}
}

// An attempt does not look for connections for ever.
func TestAnAttemptLooksForSomeConnections(t *testing.T) {
	looked := 0
	c, _ := client(t, once(), roundTripper(func(req *http.Request) (*http.Response, error) {
		for looked < 1000 && req.Context().Err() == nil {
			looked++
			httptrace.ContextClientTrace(req.Context()).GetConn("shop:443")
		}
		return nil, req.Context().Err()
	}))
	_, err := c.Do(request(t, "POST", "http://shop.test/", "charge"))
	if looked != 17 || gabion.ReasonOf(err) != policy.AttemptsExhausted || errors.Is(err, context.Canceled) || gabion.EffectOf(err) != policy.NoEffect {
		t.Errorf("looked %d times: %v", looked, err)
	}
}
