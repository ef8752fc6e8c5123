package quota

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gabion-go/gabion/e2e/overload"
)

const (
	sizeHeader     = "X-Size"     // of a request: how many tokens it will use
	estimateHeader = "X-Estimate" // of a request: how many it is thought to use
)

// provider is a server that lets its callers use a number of tokens in a span.
type provider struct {
	*overload.Pipes
	amount float64
	span   time.Duration
	takes  time.Duration // for each answer
	silent bool          // it does not say what is left

	server *http.Server

	mu sync.Mutex // guards all below
	at time.Time
	spell
}

// spell is what was counted until an instant.
type spell struct {
	used, lost      float64 // lost is what came back while all was there
	left            float64
	served, refused int
}

// address is where every provider is, for those who dial it.
const address = "http://provider"

func newProvider(amount float64, span, takes time.Duration, silent bool) *provider {
	p := &provider{Pipes: overload.NewPipes(), amount: amount, span: span, takes: takes, silent: silent, at: time.Now()}
	p.left = amount
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go p.server.Serve(p.Pipes)
	return p
}

// Close waits until nothing is answered any more.
func (p *provider) Close() { _ = p.server.Shutdown(context.Background()) }

// transport is a client's way to the provider.
func (p *provider) transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx, p.Addr()) }}
}

// refill adds what came back since the last time.
func (p *provider) refill() {
	now := time.Now()
	more := p.left + p.amount*now.Sub(p.at).Seconds()/p.span.Seconds()
	p.left = min(more, p.amount)
	p.lost += more - p.left
	p.at = now
}

// take uses size tokens if they are there.
func (p *provider) take(size float64) (ok bool, left float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill()
	if ok = p.left >= size; !ok {
		p.refused++
		return false, p.left
	}
	p.left -= size
	p.used += size
	p.served++
	return true, p.left
}

func (p *provider) counts() spell {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill()
	return p.spell
}

// An api is what the provider says at a path: of what is left, and in its answers.
type api struct {
	left   func(h http.Header, p *provider, left float64)
	wait   func(h http.Header, wait time.Duration)
	answer string // has a place for what was used
}

var apis = map[string]api{
	"/v1/chat/completions": {
		left: func(h http.Header, p *provider, left float64) {
			h.Set("X-Ratelimit-Limit-Tokens", number(p.amount))
			h.Set("X-Ratelimit-Remaining-Tokens", number(left))
			h.Set("X-Ratelimit-Reset-Tokens", p.back(p.amount-left).String())
		},
		wait: func(h http.Header, wait time.Duration) {
			h.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds()+1, 10))
		},
		answer: `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",` +
			`"message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":0,"completion_tokens":%[1]s,"total_tokens":%[1]s}}`,
	},
	"/v1/messages": {
		left: func(h http.Header, p *provider, left float64) {
			h.Set("Anthropic-Ratelimit-Tokens-Limit", number(p.amount))
			h.Set("Anthropic-Ratelimit-Tokens-Remaining", number(math.Round(left/1000)*1000)) // as its page says
			h.Set("Anthropic-Ratelimit-Tokens-Reset", time.Now().Add(p.back(p.amount-left)).UTC().Format(time.RFC3339))
		},
		wait: seconds,
		answer: `{"id":"1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn",` +
			`"usage":{"input_tokens":0,"output_tokens":%s}}`,
	},
	"/tokens": {
		left: func(h http.Header, p *provider, left float64) {
			h.Set("Ratelimit", fmt.Sprintf(`"t";r=%.0f`, left))
			h.Set("Ratelimit-Policy", fmt.Sprintf(`"t";q=%.0f;w=%.0f;qu="tokens"`, p.amount, p.span.Seconds()))
		},
		wait:   seconds,
		answer: `{"usage":{"total_tokens":%s}}`,
	},
}

func seconds(h http.Header, wait time.Duration) {
	h.Set("Retry-After", number(math.Ceil(wait.Seconds())))
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }

// back is how long that much takes to come back.
func (p *provider) back(n float64) time.Duration {
	return time.Duration(n / p.amount * float64(p.span))
}

// ServeHTTP implements http.Handler.
func (p *provider) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	size, err := strconv.ParseFloat(req.Header.Get(sizeHeader), 64)
	api, known := apis[req.URL.Path]
	if err != nil || !known {
		http.Error(w, "no size, or no such path", http.StatusBadRequest)
		return
	}
	ok, left := p.take(size)
	w.Header().Set("Content-Type", "application/json")
	if !p.silent {
		api.left(w.Header(), p, left)
	}
	if !ok {
		api.wait(w.Header(), p.back(size-left))
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"type":"error","error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"too many tokens"}}`)
		return
	}
	time.Sleep(p.takes)
	fmt.Fprintf(w, api.answer, number(size))
}
