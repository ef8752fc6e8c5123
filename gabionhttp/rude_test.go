package gabionhttp_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// stuck is an answer's body that brings nothing until it is closed, and whose Close does
// what it likes.
type stuck struct {
	closed chan struct{}
	close  func()
}

func (s *stuck) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *stuck) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.close()
	return nil
}

// rises runs f and returns what it panicked with, and whether it came to its end.
func rises(f func()) (value any, returned bool) {
	over := make(chan bool)
	go func() {
		defer func() { value = recover(); over <- true }()
		f()
		returned = true
	}()
	<-over
	return value, returned
}

// TestABodyWhoseCloseDoesNotReturnKeepsNothing: the caller closes an answer whose own Close
// panics or ends the goroutine. The caller gets that, and the slot is free at once.
func TestABodyWhoseCloseDoesNotReturnKeepsNothing(t *testing.T) {
	for how, out := range map[string]func(){"panics": func() { panic("close") }, "ends the goroutine": runtime.Goexit} {
		for what, body := range map[string]io.ReadCloser{
			"not read": rude{close: out}, "stuck": &stuck{make(chan struct{}), out},
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				d := gabion.New("shop", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
				tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					resp := answer(req, 200, "")
					resp.Body, resp.ContentLength = body, -1
					return resp, nil
				})}
				resp, err := tr.RoundTrip(request(t, "GET", "http://shop.test", ""))
				if err != nil {
					t.Fatal(err)
				}
				if v, returned := rises(func() { resp.Body.Close() }); returned || (how == "panics") != (v == "close") {
					t.Errorf("Close: panic %v, returned %v", v, returned)
				}
				gabiontest.NothingHeld(t, d)
				if s := d.Stats(); s.Streams != 0 {
					t.Errorf("%d streams are open", s.Streams)
				}
			})
		}
	}
}

// TestAnAnswerThatIsLetGoAndWhoseClosePanics: a 503 that is retried. Its Close is called by
// gabion: the panic is the caller's, in the caller's goroutine, and nothing is held.
func TestAnAnswerThatIsLetGoAndWhoseClosePanics(t *testing.T) {
	for what, body := range map[string]func() io.ReadCloser{
		"empty": func() io.ReadCloser { return rude{close: func() { panic("close") }} },
		"stuck": func() io.ReadCloser { return &stuck{make(chan struct{}), func() { panic("close") }} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("shop", eager())
				tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					resp := answer(req, 503, "")
					resp.Body, resp.ContentLength = body(), -1
					return resp, nil
				})}
				if v, returned := rises(func() { tr.RoundTrip(request(t, "GET", "http://shop.test", "")) }); returned || v == nil {
					t.Errorf("panic %v, returned %v", v, returned)
				}
				time.Sleep(time.Minute)
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}

// TestABodyThatDoesNotReturnFromReadUnderAClassifier: a goroutine of gabion's reads a body of
// unknown length for the classifier. A panic there is only an error of the next Read.
func TestABodyThatDoesNotReturnFromReadUnderAClassifier(t *testing.T) {
	for how, out := range map[string]func(){"panics": func() { panic("read") }, "ends the goroutine": runtime.Goexit} {
		t.Run(how, func(t *testing.T) {
			look := func(result any, _ error) policy.Outcome {
				if resp, ok := result.(*http.Response); ok {
					resp.Body.Read(make([]byte, 10))
				}
				return policy.Outcome{}
			}
			d := gabion.New("shop", policy.Policy{}, gabion.WithClassify(look))
			tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				resp := answer(req, 200, "")
				resp.Body, resp.ContentLength = rude{read: out}, -1
				return resp, nil
			})}
			resp, err := tr.RoundTrip(request(t, "GET", "http://shop.test", ""))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Error("half an answer is read without an error")
			}
			resp.Body.Close()
			gabiontest.NothingHeld(t, d)
		})
	}
}

// TestARequestBodyWhoseClosePanicsWhenTheCallerLeaves: the caller leaves while the body is
// read ahead, and gabion closes it on another goroutine: its panic ends nothing there.
func TestARequestBodyWhoseClosePanicsWhenTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := gabion.New("shop", policy.Policy{})
		tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200, ""), nil })}
		req := request(t, "PUT", "http://shop.test", "").WithContext(ctx)
		req.Body, req.ContentLength = &stuck{make(chan struct{}), func() { panic("close") }}, 5
		time.AfterFunc(time.Second, cancel)
		if _, err := tr.RoundTrip(req); gabion.ReasonOf(err) != policy.Canceled {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		gabiontest.NothingHeld(t, d)
	})
}
