package sdk

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion"
)

// A world is a service in trouble and the memory that leads to it. All of it, and the SDK,
// is in one bubble: its time is virtual, and its faults are a function of the seed, the call
// and the attempt. So all arrangements meet the same ones.
type world struct {
	*bufconn.Listener
	trouble trouble
	seed    uint64
	begun   time.Time

	mu     sync.Mutex
	calls  map[int]*tally
	sent   int
	tokens float64 // of the server's own rate limit
	filled time.Time
}

// tally is what the server saw of one call.
type tally struct{ attempts, effects int }

// trouble is what becomes of attempts.
type trouble struct {
	name   string
	down   func(at time.Duration) bool // the service is out
	denies bool                        // while it is out it answers as if too many had come
	errors float64                     // this share of the attempts fails
	rate   float64                     // the service takes as many calls a second; zero is all
}

const answersIn = 20 * time.Millisecond

func newWorld(trouble trouble, seed uint64) *world {
	return &world{
		Listener: bufconn.Listen(16 << 10), trouble: trouble, seed: seed,
		begun: time.Now(), calls: map[int]*tally{}, tokens: trouble.rate, filled: time.Now(),
	}
}

// out reports whether there is an outage now.
func (w *world) out() bool { return w.trouble.down != nil && w.trouble.down(time.Since(w.begun)) }

// next is the fault of the next attempt of a call. One failed attempt in four was carried out, and its
// answer is lost.
func (w *world) next(call int) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	c := w.calls[call]
	if c == nil {
		c = &tally{}
		w.calls[call] = c
	}
	c.attempts++
	draw := rand.New(rand.NewPCG(w.seed, uint64(call)<<16|uint64(c.attempts)))
	switch {
	case w.out() && w.trouble.denies:
		return tooMany
	case w.out():
		return unavailable
	case draw.Float64() < w.trouble.errors:
		if draw.IntN(4) == 0 {
			return resetAfter
		}
		return failed
	case w.trouble.rate > 0:
		now := time.Now()
		w.tokens = min(w.tokens+now.Sub(w.filled).Seconds()*w.trouble.rate, w.trouble.rate)
		w.filled = now
		if w.tokens < 1 {
			return tooMany
		}
		w.tokens--
	}
	return fine
}

// done counts that a call was carried out.
func (w *world) done(call int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[call].effects++
}

// twice is how many calls were carried out more than once.
func (w *world) twice() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.effects > 1 {
			n++
		}
	}
	return n
}

// dial is refused in an outage.
func (w *world) dial(ctx context.Context) (net.Conn, error) {
	if w.out() && !w.trouble.denies {
		w.mu.Lock()
		w.sent++
		w.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return w.DialContext(ctx)
}

// number is the context of the n-th call, which the header Call tells the server.
type number struct{}

func numbered(ctx context.Context, n int) context.Context { return context.WithValue(ctx, number{}, n) }

func numberOf(ctx context.Context) int { n, _ := ctx.Value(number{}).(int); return n }

// labels writes the number of the call into each request.
type labels struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l labels) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Call", strconv.Itoa(numberOf(req.Context())))
	return l.RoundTripper.RoundTrip(req)
}

// act carries out a request, once for each key.
func (w *world) act(call int, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.calls[call]; c.effects == 0 || r.Header.Get("Idempotency-Key") == "" {
		c.effects++
	}
}

// serves is the service of a subject in this world.
func (w *world) serves(s *subject) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("Call"))
		io.Copy(io.Discard, r.Body)
		time.Sleep(answersIn)
		switch f := w.next(n); {
		case f == fine:
			w.act(n, r)
			s.answer(rw, r)
		case f == resetAfter:
			w.act(n, r)
			panic(http.ErrAbortHandler)
		case f == tooMany && s.throttle != nil:
			s.throttle(rw, r)
		default:
			s.fails(rw, statuses[f])
		}
	})
}

// open makes the subject's client in a world.
func (s *subject) open(t *testing.T, w *world, how int) (call, func()) {
	server := &http.Server{Handler: w.serves(s), ErrorLog: quiet}
	var served sync.WaitGroup
	served.Go(func() { server.Serve(w) })
	rt := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return w.DialContext(ctx) },
	}
	c := s.connect(s.linked("http://service.test", labels{rt}, how, 0, gabion.WithSeed(w.seed)))
	return c, func() {
		rt.CloseIdleConnections()
		server.Close()
		served.Wait()
	}
}
