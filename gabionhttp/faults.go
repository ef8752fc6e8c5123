package gabionhttp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// HeaderFault is the header in which a request asks for faults: see [ParseFaults]. Only a
// [Faults] that says Header believes it.
const HeaderFault = "Gabion-Fault"

// HeaderInjected is on every answer that a [Faults] made or touched, and says by which
// fault.
const HeaderInjected = "Gabion-Injected"

// Faults makes requests fail on purpose, in staging and in tests. As the Base of a
// [Transport] every attempt meets it, and as a handler every request of a server:
//
//	staging, err := gabionhttp.ParseFaults(os.Getenv("STAGING_FAULTS"))
//	client := &gabionhttp.Transport{Dependency: d, Base: &gabionhttp.Faults{Always: staging}}
//
// The zero Faults injects nothing. It is no part of the policy file, so that no file of
// production can turn it on. With Always or Header it says so to Logger when it is first
// used, and every minute in which it injected something. Whatever it says, HeaderFault goes
// no further.
//
// It is safe for concurrent use. Its fields must not change after its first use.
type Faults struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Always are faults that requests meet: of several, the first that strikes.
	Always []Fault

	// Header lets each request ask for faults of its own by [HeaderFault], which are tried
	// before Always. Anybody who can send a request can then make it fail, and hold it for
	// ten minutes. A header that can't be read is an error, and on a server a 400.
	Header bool

	// Draw returns numbers from 0 up to 1, which decide about shares. Nil means random
	// ones. It may be called by several goroutines at once.
	Draw func() float64

	// Injected is called before each fault. Nil means no call.
	Injected func(*http.Request, Fault)

	// Logger gets the warnings. Nil means slog.Default().
	Logger *slog.Logger

	mu    sync.Mutex // guards all below
	count int64
	told  time.Time // of the last warning
	since int64     // count at that time
}

// Count returns how many faults were injected.
func (f *Faults) Count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// CloseIdleConnections closes those of Base.
func (f *Faults) CloseIdleConnections() {
	if c, ok := f.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (f *Faults) base() http.RoundTripper {
	if f.Base == nil {
		return http.DefaultTransport
	}
	return f.Base
}

// warnEvery is how often it says that faults are injected.
const warnEvery = time.Minute

// choose returns the fault that a request meets; its Kind is empty for none.
func (f *Faults) choose(r *http.Request, asked []string) (Fault, error) {
	if len(f.Always) == 0 && !f.Header {
		return Fault{}, nil
	}
	var met Fault
	all := f.Always
	if f.Header && len(asked) > 0 {
		own, err := ParseFaults(strings.Join(asked, ", "))
		if err != nil {
			return Fault{}, err
		}
		all = append(own, all...)
	}
	for _, x := range all {
		if _, known := faultKinds[x.Kind]; !known {
			return Fault{}, fmt.Errorf("gabionhttp: Faults.Always has the unknown kind %.40q", x.Kind)
		}
		if x.Share <= 0 || x.Share >= 1 || f.draw() < x.Share {
			met = x
			break
		}
	}
	f.warn(met.Kind != "")
	if met.Kind != "" && f.Injected != nil {
		f.Injected(r, met)
	}
	return met, nil
}

func (f *Faults) draw() float64 {
	if f.Draw != nil {
		return f.Draw()
	}
	return rand.Float64()
}

// warn counts a fault, and says now and then that there are some.
func (f *Faults) warn(injected bool) {
	now := time.Now()
	f.mu.Lock()
	if injected {
		f.count++
	}
	due := f.told.IsZero() || injected && now.Sub(f.told) >= warnEvery
	count, fresh := f.count, f.count-f.since
	if due {
		f.told, f.since = now, f.count
	}
	f.mu.Unlock()
	if !due {
		return
	}
	log := f.Logger
	if log == nil {
		log = slog.Default()
	}
	var always []string
	for _, x := range f.Always {
		always = append(always, x.String())
	}
	log.Warn("gabionhttp: faults are injected on purpose", "always", strings.Join(always, ", "), "by_header", f.Header, "injected", count, "since_last_warning", fresh)
}

// injectedError is the error of a request that a [Faults] made fail. It wraps the error
// that net/http would have returned.
type injectedError struct {
	Fault Fault
	Err   error
}

// Error implements error.
func (e *injectedError) Error() string {
	return fmt.Sprintf("injected fault (%s): %v", e.Fault, e.Err)
}

// Unwrap returns what net/http would have returned.
func (e *injectedError) Unwrap() error { return e.Err }

// RoundTrip implements http.RoundTripper. It never changes req.
func (f *Faults) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, has := req.Header[HeaderFault]
	met, err := f.choose(req, asked)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if has {
		clean := *req
		clean.Header = req.Header.Clone()
		clean.Header.Del(HeaderFault)
		req = &clean
	}
	if met.Kind == "" {
		return f.base().RoundTrip(req)
	}
	if resp, err := met.before(req); resp != nil || err != nil {
		closeBody(req)
		return resp, err
	}
	resp, err := f.base().RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return met.after(req, resp)
}

// before is what comes in place of sending; nothing if the request is to be sent.
func (f Fault) before(req *http.Request) (*http.Response, error) {
	switch f.Kind {
	case "down":
		return nil, f.broken("dial", syscall.ECONNREFUSED)
	case "reset":
		return nil, f.broken("read", syscall.ECONNRESET)
	case "black_hole":
		if err := wait(req.Context(), maxAdd); err != nil {
			return nil, &injectedError{f, err}
		}
		return nil, f.broken("read", syscall.ETIMEDOUT)
	case "slow":
		if err := wait(req.Context(), f.Add); err != nil {
			return nil, &injectedError{f, err}
		}
	case "errors":
		if !f.AfterWork {
			return f.response(req), nil
		}
	}
	return nil, nil
}

// after is what becomes of an answer.
func (f Fault) after(req *http.Request, resp *http.Response) (*http.Response, error) {
	switch f.Kind {
	case "errors":
		_ = resp.Body.Close()
		return f.response(req), nil
	case "lost_answers":
		_ = resp.Body.Close()
		return nil, f.broken("read", syscall.ECONNRESET)
	case "cut_body", "slow_body":
		resp.Body = &faultyBody{ReadCloser: resp.Body, ctx: req.Context(), fault: f}
	}
	resp.Header = resp.Header.Clone()
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	resp.Header.Set(HeaderInjected, f.String())
	return resp, nil
}

func (f Fault) broken(op string, cause syscall.Errno) error {
	return &injectedError{f, &net.OpError{Op: op, Net: "tcp", Err: cause}}
}

// response is an error that no server sent.
func (f Fault) response(req *http.Request) *http.Response {
	h := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	f.mark(h)
	text := f.text()
	return &http.Response{
		Status: strconv.Itoa(f.status()) + " " + http.StatusText(f.status()), StatusCode: f.status(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: req,
	}
}

func (f Fault) mark(h http.Header) {
	h.Set(HeaderInjected, f.String())
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
}

func (f Fault) text() string { return "injected fault: " + f.String() + "\n" }

// faultyBody is a body that comes late, or not to its end.
type faultyBody struct {
	io.ReadCloser
	ctx   context.Context
	fault Fault
	begun bool
}

// Read implements io.Reader.
func (b *faultyBody) Read(p []byte) (int, error) {
	switch {
	case b.fault.Kind == "cut_body" && (b.begun || len(p) == 0):
		return 0, &injectedError{b.fault, io.ErrUnexpectedEOF}
	case b.fault.Kind == "cut_body":
		b.begun = true
		n, _ := b.ReadCloser.Read(p[:1])
		return n, nil
	case !b.begun:
		b.begun = true
		if err := wait(b.ctx, b.fault.Add); err != nil {
			return 0, &injectedError{b.fault, err}
		}
	}
	return b.ReadCloser.Read(p)
}

// wait returns why it could not wait for so long.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
