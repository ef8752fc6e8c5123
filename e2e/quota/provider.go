package quota

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const sizeHeader = "X-Size" // of a request: how many tokens it will use

// provider is a server whose callers may use so many tokens in a span.
type provider struct {
	URL    string
	amount float64
	span   time.Duration
	takes  time.Duration // for each answer

	server *http.Server

	mu              sync.Mutex // guards all below
	left            float64
	at              time.Time
	used            float64
	served, refused int
}

func newProvider(amount float64, span, takes time.Duration) (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{URL: "http://" + l.Addr().String(), amount: amount, span: span, takes: takes, left: amount, at: time.Now()}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go p.server.Serve(l)
	return p, nil
}

func (p *provider) Close() { p.server.Close() }

// take uses so many tokens if they are there.
func (p *provider) take(size float64) (ok bool, left float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.left = min(p.amount, p.left+p.amount*now.Sub(p.at).Seconds()/p.span.Seconds())
	p.at = now
	if ok = p.left >= size; !ok {
		p.refused++
		return false, p.left
	}
	p.left -= size
	p.used += size
	p.served++
	return true, p.left
}

// spell is what was counted in a time.
type spell struct {
	used            float64
	served, refused int
}

func (p *provider) counts() spell {
	p.mu.Lock()
	defer p.mu.Unlock()
	return spell{p.used, p.served, p.refused}
}

// ServeHTTP implements http.Handler, with the headers of platform.openai.com/docs/guides/rate-limits.
func (p *provider) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	size, err := strconv.ParseFloat(req.Header.Get(sizeHeader), 64)
	if err != nil {
		http.Error(w, "no size", http.StatusBadRequest)
		return
	}
	ok, left := p.take(size)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Ratelimit-Limit-Tokens", strconv.FormatFloat(p.amount, 'f', 0, 64))
	h.Set("X-Ratelimit-Remaining-Tokens", strconv.FormatFloat(left, 'f', 0, 64))
	h.Set("X-Ratelimit-Reset-Tokens", time.Duration((p.amount-left)/p.amount*float64(p.span)).String())
	if !ok {
		wait := time.Duration((size - left) / p.amount * float64(p.span))
		h.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds()+1, 10))
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"too many tokens"}}`)
		return
	}
	time.Sleep(p.takes)
	fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",`+
		`"message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":0,"completion_tokens":%.0f,"total_tokens":%.0f}}`, size, size)
}
