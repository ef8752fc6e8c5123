package overload

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// ending is what became of a call.
type ending uint8

// The endings.
const (
	good     ending = iota
	refused         // the server said no
	stopped         // gabion refused it, without an attempt
	timedOut        // nothing came in time
	failed          // anything else, which should not happen
	numEndings
)

// attempts are those of all clients.
type attempts struct {
	start time.Time

	mu   sync.Mutex // guards what follows
	sent []time.Duration
	well []answer
}

// answer is a good one, of an attempt that was sent at a time.
type answer struct{ sent, took time.Duration }

func (a *attempts) send(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = append(a.sent, at.Sub(a.start))
}

func (a *attempts) succeed(sent time.Time, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.well = append(a.well, answer{sent.Sub(a.start), took})
}

// Observe implements gabion.Observer.
func (a *attempts) Observe(_ context.Context, e gabion.Event) {
	switch now := time.Now(); {
	case e.Kind == policy.KindAttemptSent:
		a.send(now)
	case e.Kind == policy.KindAttemptSettled && e.Class == policy.ClassSuccess:
		a.succeed(now.Add(-e.Took), e.Took)
	}
}

// A client makes calls.
type client interface {
	call(ctx context.Context, url string) ending
}

// clients makes those of a case, over a transport that the first of them closes.
func (w *World) clients(c Case, base *http.Transport, seen *attempts) ([]client, error) {
	p, err := policyOf(c.Callers)
	if err != nil {
		return nil, err
	}
	all := make([]client, w.Clients)
	for i := range all {
		switch c.Callers {
		case Plain:
			all[i] = &loop{base, 1, seen}
		case Naive:
			all[i] = &loop{base, 3, seen}
		default:
			d := gabion.New("server", p, gabion.WithSeed(w.Seed+uint64(i)), gabion.WithObserver(seen))
			all[i] = protected{&gabionhttp.Transport{Dependency: d, Base: base}}
		}
	}
	return all, nil
}

// transport dials a server. It keeps every connection: how many there are is up to the
// callers, and bounded by the calls that can be under way.
func transport(on network, to net.Addr) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 10_000, IdleConnTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return on.Dial(ctx, to) },
	}
}

// protected calls through gabion.
type protected struct{ *gabionhttp.Transport }

func (p protected) call(ctx context.Context, url string) ending {
	end, err := get(ctx, p.Transport, url)
	if err == nil {
		return end
	}
	e, ok := errors.AsType[*gabion.Error](err)
	switch {
	case !ok, e.Timeout():
		return ofError(err)
	case e.Attempts == 0:
		return stopped
	case e.Outcome().Class == policy.ClassServer:
		return refused // and there was no time, or no room, for another attempt
	}
	return ofError(err)
}

// loop tries so often, at once.
type loop struct {
	base  http.RoundTripper
	tries int
	seen  *attempts
}

func (l *loop) call(ctx context.Context, url string) ending {
	for try := 1; ; try++ {
		end := l.try(ctx, url)
		if end == good || try == l.tries || ctx.Err() != nil {
			return end
		}
		time.Sleep(time.Millisecond)
	}
}

func (l *loop) try(ctx context.Context, url string) ending {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	sent := time.Now()
	l.seen.send(sent)
	end, err := get(ctx, l.base, url)
	if err != nil {
		return ofError(err)
	}
	if end == good {
		l.seen.succeed(sent, time.Since(sent))
	}
	return end
}

// get makes one request.
func get(ctx context.Context, by http.RoundTripper, url string) (ending, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failed, err
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return failed, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	switch {
	case err != nil:
		return failed, err
	case resp.StatusCode == http.StatusOK:
		return good, nil
	case resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusTooManyRequests:
		return refused, nil
	}
	return failed, nil
}

func ofError(err error) ending {
	if t, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && t.Timeout() {
		return timedOut
	}
	return failed
}
