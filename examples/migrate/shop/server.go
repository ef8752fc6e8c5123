package shop

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Step is what the shop does with one request. The zero Step answers it.
type Step struct {
	Status     int    // of the answer; zero means 200
	RetryAfter string // the header; "date" stands for a date in two seconds
	Lost       bool   // the work is done, and the connection ends without an answer
	Hang       bool   // nothing happens until the caller goes
	Takes      time.Duration
}

// Closed is what the shop writes into answers that are failures.
const Closed = "closed for stocktaking"

// Server is the shop's side. It follows its plan and counts. It is safe for concurrent
// use.
type Server struct {
	mu       sync.Mutex
	plan     []Step // of the requests to come; the last one stays
	requests []time.Time
	keys     map[string]bool
	charged  int
	conns    int
}

// Plan says what is done with the requests from now on. The last step repeats.
func (s *Server) Plan(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = steps
}

// Requests returns when each request came.
func (s *Server) Requests() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.requests...)
}

// Charged returns the number of charges.
func (s *Server) Charged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.charged
}

// Connections returns how many connections were made.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) //nolint:errcheck // what counts is that it was sent
	step := s.next(r)
	if step.Takes > 0 {
		pause(r.Context(), step.Takes)
	}
	switch {
	case step.Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case step.Lost:
		panic(http.ErrAbortHandler)
	case step.RetryAfter == "date":
		w.Header().Set("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
	case step.RetryAfter != "":
		w.Header().Set("Retry-After", step.RetryAfter)
	}
	if step.Status != 0 {
		w.WriteHeader(step.Status)
		io.WriteString(w, Closed)
		return
	}
	io.WriteString(w, "5 EUR")
}

// next takes the next step, and does the work if there is any.
func (s *Server) next(r *http.Request) (step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, time.Now())
	if len(s.plan) > 0 {
		step = s.plan[0]
	}
	if len(s.plan) > 1 {
		s.plan = s.plan[1:]
	}
	if r.Method == http.MethodPost && step.Status == 0 && !step.Hang {
		key := r.Header.Get("Idempotency-Key")
		if key == "" || !s.keys[key] {
			s.charged++
		}
		s.keys[key] = true
	}
	return step
}

// Open serves the shop on a listener. Close ends it, with its connections.
func Open(on net.Listener) (s *Server, closeIt func()) {
	s = &Server{keys: map[string]bool{}}
	web := &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.mu.Lock()
				s.conns++
				s.mu.Unlock()
			}
		},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		web.Serve(on) //nolint:errcheck // it ends by Close
	}()
	return s, func() {
		web.Close() //nolint:errcheck // its listener is closed, and no caller is left to get the error
		<-served
	}
}

// Pipes is a network in memory, so that a whole program can run in virtual time
// (testing/synctest). Its zero value is no network: use NewPipes.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes makes a network.
func NewPipes() *Pipes {
	return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// DialContext is for http.Transport.
func (p *Pipes) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
	case <-ctx.Done():
	}
	here.Close()
	there.Close()
	return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return strings.Repeat("p", 4) }
