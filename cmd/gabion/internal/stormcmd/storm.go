package stormcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
)

// The bounds of a storm: what is beyond would only ever be a slip.
const (
	maxRate     = 10_000
	maxDuration = time.Hour
	maxCalls    = 5_000_000
	maxOpen     = 50_000
)

// The purposes of a storm's draws, away from gabion's own.
const (
	drawMoment chance.Purpose = 200 + iota
	drawKey
)

// storm is what is sent, and when.
type storm struct {
	url, method, body string
	header            http.Header
	rate              float64 // a second
	duration, timeout time.Duration
	keys, poisson     bool
	maxOpen           int
	seed              uint64
}

// moment is when a request is meant to be sent, since the beginning: in a slot of its own,
// at its beginning or at a random moment of it.
func (s *storm) moment(n int) time.Duration {
	at := float64(n)
	if s.poisson {
		at += chance.U(s.seed, uint64(n), 0, drawMoment)
	}
	return time.Duration(at / s.rate * float64(time.Second))
}

// call is what came of one request.
type call struct {
	took time.Duration // since the moment at which it was meant to be sent
	late time.Duration // by how much it was sent later
	what string        // a status, or why it got none
	good bool
	sent bool
}

// send sends the whole storm by client, and returns what came of each request. It calls
// done after each, from many goroutines.
func (s *storm) send(ctx context.Context, client *http.Client) (calls []call, most int) {
	var (
		mu   sync.Mutex // guards calls, open and most
		open int
		all  sync.WaitGroup
	)
	start := time.Now()
	for n := 0; ; n++ {
		at := s.moment(n)
		if at >= s.duration || !pause(ctx, time.Until(start.Add(at))) {
			break
		}
		late := time.Since(start.Add(at))
		mu.Lock()
		calls = append(calls, call{late: late, what: "not sent: too many open"})
		room := open < s.maxOpen
		if room {
			open++
			most = max(most, open)
		}
		mu.Unlock()
		if !room {
			continue
		}
		all.Go(func() {
			c := s.one(ctx, client, n)
			c.took, c.late = time.Since(start.Add(at)), late
			mu.Lock()
			defer mu.Unlock()
			calls[n] = c
			open--
		})
	}
	all.Wait()
	return calls, most
}

// one sends one request.
func (s *storm) one(ctx context.Context, client *http.Client, n int) call {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var body io.Reader
	if s.body != "" {
		body = strings.NewReader(s.body)
	}
	req, err := http.NewRequestWithContext(ctx, s.method, s.url, body)
	if err != nil {
		return call{what: err.Error(), sent: true}
	}
	for name, values := range s.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := s.header.Get("Host"); host != "" {
		req.Host = host
	}
	if s.keys {
		req.Header.Set("Idempotency-Key", s.key(n))
	}
	req.GetBody = nil // this program sends each request once, and so must net/http
	resp, err := client.Do(req)
	if err != nil {
		return call{what: why(err), sent: true}
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return call{what: why(err) + " in the body", sent: true}
	}
	return call{what: strconv.Itoa(resp.StatusCode), good: resp.StatusCode < 400, sent: true}
}

// key is the idempotency key of a request: another for each run of other seeds.
func (s *storm) key(n int) string {
	return fmt.Sprintf("storm-%d-%d-%012x", s.seed, n, uint64(chance.U(s.seed, uint64(n), 0, drawKey)*(1<<48)))
}

// unknownHost is a name that no address belongs to.
const unknownHost = "unknown host"

// why says in few words why there is no answer.
func why(err error) string {
	var timeout net.Error
	var host *net.DNSError
	switch {
	case errors.Is(err, errRemote):
		return errRemote.Error()
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, &host) && host.IsNotFound:
		return unknownHost
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return "broken connection"
	}
	return "no answer"
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errRemote = errors.New("another machine, which needs --remote")

// newClient sends to this machine only, unless remote: whatever names a name has, and
// wherever a server redirects to. It asks no proxy.
func newClient(remote bool, most int) *http.Client {
	dial := net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); !remote && (err != nil || ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("%s: %w", address, errRemote)
		}
		return nil
	}}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial.DialContext, MaxIdleConnsPerHost: most, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
