package overload

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/gabionhttp"
)

// A pool is the workers of a server and the queue before them, as a pool of threads or of
// connections to a database is one.
type pool struct {
	work  time.Duration
	room  int // of the queue
	limit int // the workers

	mu      sync.Mutex // guards what follows
	busy    int
	waiting []chan time.Time
}

// errFull is the error of a queue without room.
var errFull = errors.New("the queue is full")

// enter takes a worker, or waits for one in turn, and returns when the work begins. Who is
// next begins when the work before was due to end. So a machine that is late does not
// serve less, and the capacity of a queue that does not run empty is exact. Callers who
// have gone wait on: a pool does not know of them.
func (p *pool) enter() (begin time.Time, err error) {
	p.mu.Lock()
	if p.busy < p.limit {
		p.busy++
		p.mu.Unlock()
		return time.Now(), nil
	}
	if len(p.waiting) >= p.room {
		p.mu.Unlock()
		return begin, errFull
	}
	turn := make(chan time.Time, 1)
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	return <-turn, nil
}

// leave gives the worker to who waits longest.
func (p *pool) leave(ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.busy--
		return
	}
	p.waiting[0] <- ended
	p.waiting = p.waiting[1:]
}

// A service does work in a pool. It does the work of callers who have gone too, as most
// servers do: they learn of it when they write the answer.
type service struct {
	pool
	served, wasted atomic.Int64 // pieces of work done, and those whose caller had left
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin, err := s.enter()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	end := begin.Add(s.work)
	time.Sleep(time.Until(end))
	s.leave(end)
	s.served.Add(1)
	if r.Context().Err() != nil {
		s.wasted.Add(1)
	}
	_, _ = io.WriteString(w, "done\n")
}

// A network is where a server listens and clients dial.
type network interface {
	Listen() (net.Listener, error)
	Dial(ctx context.Context, to net.Addr) (net.Conn, error)
}

// A site is a server at work.
type site struct {
	*service
	server   *http.Server
	listener net.Listener
	requests atomic.Int64 // that arrived, admitted or not
	ended    chan error
}

// open starts the server of a case.
func (w *World) open(c Case, on network) (*site, error) {
	s := &site{service: &service{pool: pool{work: w.Work, room: w.Queue, limit: w.Workers}}, ended: make(chan error, 1)}
	guarded, err := w.guard(c.Server, s.service)
	if err != nil {
		return nil, err
	}
	if s.listener, err = on.Listen(); err != nil {
		return nil, err
	}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		guarded.ServeHTTP(rw, r)
	})}
	go func() { s.ended <- s.server.Serve(s.listener) }()
	return s, nil
}

// forget begins to count anew.
func (s *site) forget() {
	s.requests.Store(0)
	s.served.Store(0)
	s.wasted.Store(0)
}

// guard puts what protects a server before it.
func (w *World) guard(by Server, next http.Handler) (http.Handler, error) {
	switch by {
	case Bare:
		return next, nil
	case Fixed:
		return &gabionhttp.Admission{Next: next, Limit: w.Workers}, nil
	case Learned:
		return &gabionhttp.Admission{Next: next}, nil
	}
	return nil, errors.New("no such server: " + string(by))
}

// close waits for the work that is under way, callers or not.
func (s *site) close() error {
	patient, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.server.Shutdown(patient); err != nil {
		return err
	}
	if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
