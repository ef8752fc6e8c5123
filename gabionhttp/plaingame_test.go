package gabionhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// A Transport's plain calls and those that an observer of all events keeps from being plain come to the same, whatever goes wrong.
func TestPlainAndObservedTransportComeToTheSame(t *testing.T) {
	for seed := range uint64(80) {
		plain, observed := playTransport(t, seed, false), playTransport(t, seed, true)
		for i := range max(len(plain), len(observed)) {
			if i >= len(plain) || i >= len(observed) || plain[i] != observed[i] {
				at := max(i-6, 0)
				t.Fatalf("seed %d, line %d:\n%q\nand observed\n%q", seed, i, plain[at:min(i+2, len(plain))], observed[at:min(i+2, len(observed))])
			}
		}
	}
}

// transportGame makes calls that go wrong, and writes down what became of them.
type transportGame struct {
	r      *rand.Rand
	d      *gabion.Dependency
	cancel context.CancelFunc // of the call that is out
	log    []string
	open   []io.Closer // bodies that are closed later
}

func (g *transportGame) say(format string, args ...any) {
	g.log = append(g.log, fmt.Sprintf(format, args...))
}

func (g *transportGame) upTo(most time.Duration) time.Duration {
	return 1 + time.Duration(g.r.Int64N(int64(most)))
}

func playTransport(t *testing.T, seed uint64, observed bool) []string {
	g := &transportGame{r: rand.New(rand.NewPCG(seed, 27))}
	synctest.Test(t, func(t *testing.T) {
		p := policy.Policy{
			Timeout:  policy.Timeout{Call: 2 * time.Second, Attempt: 300 * time.Millisecond, Idle: 200 * time.Millisecond},
			Retry:    policy.Retry{Attempts: 3, Backoff: backoff.Full(20*time.Millisecond, 200*time.Millisecond)},
			Breaker:  policy.Breaker{Window: 3 * time.Second, MinCalls: 10, FailureRate: 0.4, Open: 500 * time.Millisecond},
			Bulkhead: policy.Bulkhead{Limit: 4, Queue: 1, QueueTimeout: 30 * time.Millisecond},
		}
		switch g.r.IntN(5) {
		case 0:
			p.Retry.Budget = policy.Budget{Floor: 3}
		case 1:
			p.Timeout.Last = time.Second
		case 2:
			p.Timeout.Body = 400 * time.Millisecond
		case 3:
			p.Trust = policy.Internal
		}
		opts := []gabion.Option{gabion.WithSeed(seed), gabion.WithLogger(slog.New(slog.DiscardHandler))}
		if observed {
			opts = append(opts, gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) {})))
		}
		g.d = gabion.New("game", p, opts...)
		transport := &gabionhttp.Transport{Dependency: g.d, Base: g}
		for range 80 {
			time.Sleep(g.upTo(40 * time.Millisecond))
			done := make(chan struct{})
			go func() {
				defer close(done)
				g.call(transport)
			}()
			<-done
			if len(g.open) > 3 || len(g.open) > 0 && g.r.IntN(3) == 0 {
				g.say("closed %v", g.open[0].Close())
				g.open = g.open[1:]
			}
		}
		for _, b := range g.open {
			b.Close()
		}
		time.Sleep(5 * time.Second)
		g.say("%+v", g.d.Stats())
	})
	return g.log
}

// call makes one call and reads some of its answer.
func (g *transportGame) call(transport *gabionhttp.Transport) {
	ctx, cancel := context.WithCancel(context.Background())
	if g.r.IntN(4) == 0 { // no deadline: it would be the attempt's, too, and of two timers at one time either is first
		time.AfterFunc(g.upTo(400*time.Millisecond), cancel)
	}
	g.cancel = cancel
	req := g.request(ctx)
	defer func() { g.say("left %v", recover()) }()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		g.say("failed %v, effect %v", err, gabion.EffectOf(err))
		return
	}
	g.say("answered %d, verdict %v", resp.StatusCode, gabionhttp.Verdict(resp))
	switch g.r.IntN(8) {
	case 0:
		g.open = append(g.open, resp.Body)
		return
	case 1:
	case 2:
		cancel()
		fallthrough
	case 3:
		n, err := resp.Body.Read(make([]byte, 3))
		g.say("read %d, %v", n, err)
	default:
		text, err := io.ReadAll(resp.Body)
		g.say("read %q, %v", text, err)
	}
	g.say("closed %v", resp.Body.Close())
}

func (g *transportGame) request(ctx context.Context) *http.Request {
	method, body := http.MethodGet, io.Reader(nil)
	switch g.r.IntN(6) {
	case 0:
		method, body = http.MethodPost, bytes.NewReader([]byte("charge"))
	case 1:
		method, body = http.MethodPut, io.MultiReader(strings.NewReader("of unknown"), strings.NewReader(" length"))
	case 2:
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://game.test/", body)
	if err != nil {
		panic(err)
	}
	if g.r.IntN(5) == 0 {
		req.Header.Set(gabionhttp.HeaderKey, "key")
	}
	return req
}

var errGame = errors.New("connection lost")

// RoundTrip implements http.RoundTripper, and goes wrong in every way.
func (g *transportGame) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	end, _ := ctx.Deadline()
	text := ""
	if req.Body != nil {
		defer req.Body.Close()
		b, err := io.ReadAll(req.Body)
		text = fmt.Sprintf("%q %v", b, err)
	}
	g.say("attempt %d until %v: %s %v %s", gabion.AttemptNumber(ctx), time.Until(end), req.Method, req.Header, text)
	took := g.upTo(60 * time.Millisecond)
	if g.r.IntN(12) == 0 {
		took *= 10
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(took):
	}
	switch g.r.IntN(30) {
	case 0:
		panic("base")
	case 1:
		runtime.Goexit()
	case 2:
		g.cancel()
		return nil, ctx.Err()
	case 3:
		g.cancel()
	case 4, 5, 6:
		return nil, errGame
	}
	resp := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, Request: req, Header: http.Header{}, ContentLength: -1}
	switch g.r.IntN(12) {
	case 0:
		resp.StatusCode = http.StatusNoContent
	case 1:
		resp.StatusCode = http.StatusServiceUnavailable
		resp.Header.Set("Retry-After", "1")
	case 2:
		resp.StatusCode = http.StatusInternalServerError
	case 3:
		resp.StatusCode = http.StatusConflict
	case 4:
		resp.Header.Set("X-Ratelimit-Remaining", "0")
		resp.Header.Set("X-Ratelimit-Reset", "1")
	case 5:
		resp.Header.Set("Content-Type", "text/event-stream")
	}
	resp.Body = &gameBody{g: g, ctx: ctx, parts: g.r.IntN(4)}
	return resp, nil
}

// gameBody comes in parts, and breaks sometimes.
type gameBody struct {
	g     *transportGame
	ctx   context.Context
	parts int
}

func (b *gameBody) Read(p []byte) (int, error) {
	took := b.g.upTo(80 * time.Millisecond)
	if b.g.r.IntN(8) == 0 {
		took *= 5
	}
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-time.After(took):
	}
	if b.parts--; b.parts < 0 {
		return 0, io.EOF
	}
	if b.g.r.IntN(12) == 0 {
		return 0, errGame
	}
	return copy(p, "part"), nil
}

func (b *gameBody) Close() error { return nil }
