package flaky

import (
	"hash/fnv"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// CountsPath is where a [Server] tells what reached it: see [Counts]. GET reads them as
// JSON, and DELETE begins anew, as [Server.Restart] does. These requests count nowhere.
const CountsPath = "/_flaky"

// Options say how a [Server] plays a plan. The zero Options are of use.
type Options struct {
	// Seed is what all randomness comes from. Zero means 1.
	Seed uint64

	// Handler answers requests whose work was done, in place of a few bytes of JSON. What
	// it answers is lost or changed as the plan says. Its requests have their bodies, of at
	// most 10 MiB. It runs when the time of the work is over, so it should be quick. It also
	// runs when the caller has left by then, and its requests' contexts do not end with that.
	Handler http.Handler
}

// Server is an http.Handler that fails by plan. Time begins with the first request. It is
// safe for concurrent use.
//
// A request is worked on to its end, whether or not its caller is still there, as most
// servers do. Connections are refused only by [Server.Serve]: a handler can't, and breaks
// them before it answers.
type Server struct {
	plan    *Plan
	seed    uint64
	handler http.Handler
	quit    chan struct{}
	name    func(key string) uint64 // of a call in the draws

	mu     sync.Mutex // guards all below
	live   *sim.Live
	start  time.Time // zero before the first request
	timer  *time.Timer
	open   map[*asked]struct{} // requests without a reply
	doors  map[*door]struct{}
	deaf   bool
	closed bool
	tally
}

// asked is a request that waits for its reply.
type asked struct {
	*sim.Asked
	reply chan sim.Reply // one fits in
	gone  bool           // its caller has left
}

// New returns a server. The error is that the plan can't be played: a service below has no
// policy.
func New(p *Plan, o Options) (*Server, error) {
	s := &Server{plan: p, seed: max(o.Seed, 1), handler: o.Handler, quit: make(chan struct{}), name: nameOf, open: map[*asked]struct{}{}, doors: map[*door]struct{}{}}
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.timer.Stop()
	return s, s.Restart()
}

// Restart begins anew with the next request: the plan's time, its draws and all counts.
// Requests that are under way get no answer.
func (s *Server) Restart() error {
	live, err := s.plan.file.Live(s.plan.service, s.seed)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.open {
		a.reply <- sim.Reply{}
	}
	clear(s.open)
	s.timer.Stop()
	s.live, s.start, s.tally = live, time.Time{}, newTally()
	s.listening()
	return nil
}

// Start begins the plan's time now, unless it has begun.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.Advance(s.now())
	s.schedule()
}

// Close ends all requests that are under way without an answer. It may be called more than
// once.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.quit)
		s.timer.Stop()
	}
	return nil
}

// now is the plan's time, which it begins.
func (s *Server) now() time.Duration {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	return time.Since(s.start)
}

// tick makes happen what is due.
func (s *Server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start.IsZero() || s.closed {
		return
	}
	s.live.Advance(s.now())
	s.schedule()
}

// schedule wakes the server when something happens next, and opens or shuts its doors.
func (s *Server) schedule() {
	s.listening()
	if at, ok := s.live.Next(); ok && !s.closed {
		s.timer.Reset(max(at-time.Since(s.start), 0))
	}
}

// listening lets connections in, or refuses them.
func (s *Server) listening() {
	if deaf := !s.start.IsZero() && s.live.Deaf(); deaf != s.deaf { // the first request must be able to come
		s.deaf = deaf
		for d := range s.doors {
			d.shut(deaf)
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == CountsPath {
		s.serveCounts(w, r)
		return
	}
	if !s.readBody(w, r) {
		return
	}
	key := r.Header.Get(gabionhttp.HeaderKey)
	a := s.ask(r, key)
	if a == nil {
		reset(w)
		return
	}
	select {
	case reply := <-a.reply:
		s.play(w, r, reply)
	case <-r.Context().Done():
		if s.leave(a) {
			s.finish(a, r)
		}
	case <-s.quit:
		s.leave(a)
		reset(w)
	}
}

// finish lets the handler do the work for a caller who has left.
func (s *Server) finish(a *asked, r *http.Request) {
	select {
	case reply := <-a.reply:
		if reply.Worked {
			s.work(&answer{header: http.Header{}}, r, reply)
		}
	case <-s.quit:
	}
}

// ask brings a request to the service. It returns nil when that is closed.
func (s *Server) ask(r *http.Request, key string) *asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	now := s.now()
	req := sim.Request{Who: caller(r), Priority: serving.ReadPriority(r.Header[gabionhttp.HeaderPriority], true)}
	if left, ok, _ := gabionhttp.TimeLeft(r.Header); ok {
		req.Expires = max(now+left, 1)
	}
	if key != "" {
		req.Call, req.Keyed = s.name(key), true
	}
	a := &asked{reply: make(chan sim.Reply, 1)}
	s.open[a] = struct{}{}
	of := s.asked(key)
	a.Asked = s.live.Ask(now, req, func(reply sim.Reply) {
		if _, waits := s.open[a]; waits {
			delete(s.open, a)
			a.reply <- reply
		}
		if !a.gone {
			s.replied(of, &reply)
		}
	})
	s.schedule()
	return a
}

// leave is a caller who waits no longer. It reports whether the handler is to do the work
// nevertheless, when the reply comes.
func (s *Server) leave(a *asked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := s.open[a]; !waits {
		return s.handler != nil // it was answered in the same moment, or the server began anew
	}
	s.gone++
	a.gone = true
	told := s.live.Gone(s.now(), a.Asked)
	s.schedule()
	if told && s.handler != nil {
		return true
	}
	delete(s.open, a)
	return false
}

// nameOf is the name of a call in the draws.
func nameOf(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return max(h.Sum64(), 1)
}

// caller tells clients apart, for limits that are per caller: by their address.
func caller(r *http.Request) int {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return int(uint32(nameOf(host)))
}
