package sdk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// A provider is a model provider over real sockets. Each request takes the next of its turns; the last is
// for all that follow.
type provider struct {
	turns []turn

	mu       sync.Mutex
	requests int
	at       []time.Time
}

// A turn is what becomes of one request.
type turn struct {
	status int
	header []string
	first  time.Duration // from the headers to the first token
	tokens int           // that come before a stall
	stalls bool
	silent time.Duration // before the headers
}

const gapOfTokens = 60 * time.Millisecond

// whole is how many tokens a stream has.
const whole = 12

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	t := p.turns[min(p.requests, len(p.turns)-1)]
	p.requests++
	p.at = append(p.at, time.Now())
	p.mu.Unlock()
	pause(r, t.silent)
	for i := 0; i < len(t.header); i += 2 {
		w.Header().Set(t.header[i], t.header[i+1])
	}
	switch stream := bytes.Contains(body, []byte(`"stream":true`)); {
	case t.status != 200:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(t.status)
		io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)
	case stream:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		pause(r, t.first)
		write := openAIEvents
		if strings.HasSuffix(r.URL.Path, "/messages") {
			write = anthropicEvents
		}
		write(t, func(event string) {
			io.WriteString(w, event)
			http.NewResponseController(w).Flush()
		}, func() { pause(r, gapOfTokens) })
		if t.stalls {
			pause(r, 10*time.Second)
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	}
}

func pause(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func openAIEvents(t turn, send func(string), wait func()) {
	n := whole
	if t.stalls {
		n = t.tokens
	}
	for range n {
		wait()
		send(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n")
	}
	if !t.stalls {
		send(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":12,"total_tokens":15}}` + "\n\n")
		send("data: [DONE]\n\n")
	}
}

func anthropicEvents(t turn, send func(string), wait func()) {
	event := func(name, data string) { send("event: " + name + "\ndata: " + data + "\n\n") }
	event("message_start", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`)
	event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	n := whole
	if t.stalls {
		n = t.tokens
	}
	for range n {
		wait()
		event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`)
	}
	if !t.stalls {
		event("content_block_stop", `{"type":"content_block_stop","index":0}`)
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}`)
		event("message_stop", `{"type":"message_stop"}`)
	}
}

// A streamer makes one call that is streamed, and returns how many tokens came.
type streamer struct {
	name string
	make func(url string, client *http.Client, retries int) func(ctx context.Context) (int, error)
}

var streamers = []streamer{
	{"openai-go", func(url string, client *http.Client, retries int) func(ctx context.Context) (int, error) {
		c := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("k"), option.WithHTTPClient(client), option.WithMaxRetries(retries))
		return func(ctx context.Context) (n int, err error) {
			s := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
			defer s.Close()
			for s.Next() {
				n += len(s.Current().Choices)
			}
			return n, s.Err()
		}
	}},
	{"anthropic-sdk-go", func(url string, client *http.Client, retries int) func(ctx context.Context) (int, error) {
		c := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(retries))
		return func(ctx context.Context) (n int, err error) {
			s := c.Messages.NewStreaming(ctx, anthropic.MessageNewParams{Model: "m", MaxTokens: 64, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}})
			defer s.Close()
			for s.Next() {
				if s.Current().Type == "content_block_delta" {
					n++
				}
			}
			return n, s.Err()
		}
	}},
	{"net/http", func(url string, client *http.Client, _ int) func(ctx context.Context) (int, error) {
		return func(ctx context.Context) (n int, err error) {
			req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true}`))
			if err != nil {
				return 0, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			if resp.StatusCode != 200 {
				return 0, errors.New(resp.Status)
			}
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"content"`) {
					n++
				}
			}
			return n, lines.Err()
		}
	}},
}

// quick is the preset with its times shortened, so that a test need not wait for minutes: an attempt has 600 ms until the
// headers, and a stream may be silent for 400 ms.
func quick(t *testing.T) policy.Policy {
	p, ok := policy.Preset("llm")
	if !ok {
		t.Fatal("there is no preset llm")
	}
	p.Timeout.Call, p.Timeout.Attempt, p.Timeout.Last, p.Timeout.Idle = 8*time.Second, 600*time.Millisecond, 600*time.Millisecond, 400*time.Millisecond
	p.Retry.Backoff.Base, p.Retry.Backoff.Cap = 10*time.Millisecond, 40*time.Millisecond
	return p
}

// What the preset llm makes of a provider's troubles, under each SDK with its retries off and with two of its own, which
// gabion's marks hold back.
func TestThePresetForModels(t *testing.T) {
	ok := turn{status: 200}
	tests := []struct {
		name     string
		turns    []turn
		tokens   int
		fails    error         // nil: the stream ends well
		requests int           // that the provider saw
		least    time.Duration // between the first two
		most     time.Duration // for the whole; zero: no matter
	}{
		{name: "a stream that flows for longer than an attempt and a silence have is whole", turns: []turn{ok}, tokens: whole, requests: 1},
		{name: "the first token may take a silence", turns: []turn{{status: 200, first: 250 * time.Millisecond}}, tokens: whole, requests: 1},
		{name: "529, and then it works", turns: []turn{{status: 529}, ok}, tokens: whole, requests: 2},
		{name: "503 and 529, and then it works", turns: []turn{{status: 503}, {status: 529}, ok}, tokens: whole, requests: 3},
		{name: "429 comes back after retry-after-ms", turns: []turn{{status: 429, header: []string{"retry-after-ms", "300"}}, ok}, tokens: whole, requests: 2, least: 300 * time.Millisecond, most: 2 * time.Second},
		{name: "429 comes back when the quota is said to have room", turns: []turn{{status: 429, header: []string{
			"anthropic-ratelimit-requests-limit", "2", "anthropic-ratelimit-requests-remaining", "0", "anthropic-ratelimit-requests-reset", "900ms",
		}}, ok}, tokens: whole, requests: 2, least: 450 * time.Millisecond, most: 3 * time.Second},
		{name: "no headers in time: once more", turns: []turn{{status: 200, silent: 5 * time.Second}, ok}, tokens: whole, requests: 2, most: 4 * time.Second},
		{name: "a stall before the first token ends the call, and is not repeated", turns: []turn{{status: 200, stalls: true}, ok}, fails: policy.IdleTimeout, requests: 1, most: 3 * time.Second},
		{name: "a stall midway ends the call, and is not repeated", turns: []turn{{status: 200, tokens: 4, stalls: true}, ok}, tokens: 4, fails: policy.IdleTimeout, requests: 1, most: 3 * time.Second},
	}
	for i, s := range streamers {
		for _, retries := range []int{0, 2} {
			for j, tt := range tests {
				if testing.Short() && (retries == 0 || j%3 != i) {
					continue // long: each is nearly a second of real time
				}
				t.Run(fmt.Sprintf("%s, %d retries of its own/%s", s.name, retries, tt.name), func(t *testing.T) {
					t.Parallel()
					p := &provider{turns: tt.turns}
					server := httptest.NewServer(p)
					t.Cleanup(server.Close)
					d := gabion.New("models", quick(t))
					call := s.make(server.URL, &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Partition: gabionhttp.ByModel}}, retries)
					begun := time.Now()
					n, err := call(t.Context())
					if took := time.Since(begun); tt.most > 0 && took > tt.most {
						t.Errorf("the call took %v", took)
					}
					if n != tt.tokens || (err == nil) != (tt.fails == nil) || tt.fails != nil && !errors.Is(err, tt.fails) {
						t.Errorf("%d tokens and the error %v, want %d and %v", n, err, tt.tokens, tt.fails)
					}
					p.mu.Lock()
					defer p.mu.Unlock()
					if p.requests != tt.requests || tt.least > 0 && p.at[1].Sub(p.at[0]) < tt.least {
						t.Errorf("%d requests, at %v; want %d", p.requests, p.at, tt.requests)
					}
				})
			}
		}
	}
}

// Each key and each model has a breaker of its own: one that is down refuses no call of the others.
func TestAModelThatIsDownRefusesNoOther(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"down"`) {
			w.WriteHeader(503)
			return
		}
		io.WriteString(w, `{}`)
	}))
	defer server.Close()
	p := quick(t)
	p.Breaker = policy.Breaker{Consecutive: 3, ConsecutiveFor: policy.Off, Open: time.Minute}
	p.Retry = policy.Retry{Attempts: 1}
	d := gabion.New("models", p)
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Partition: gabionhttp.ByModel}}
	ask := func(model, key string) error {
		req, err := http.NewRequest("POST", server.URL+"/v1/messages", strings.NewReader(`{"model":"`+model+`"}`))
		if err != nil {
			return err
		}
		req.Header.Set("X-Api-Key", key)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for range 4 {
		ask("down", "a")
	}
	if err := ask("down", "a"); !errors.Is(err, policy.BreakerOpen) {
		t.Errorf("the model that is down: %v", err)
	}
	if err := ask("up", "a"); err != nil {
		t.Errorf("another model: %v", err)
	}
	if err := ask("down", "b"); errors.Is(err, policy.BreakerOpen) {
		t.Errorf("another key: %v", err)
	}
}

// The policy has the provider's quota, and 12 callers want three times as much: they wait for their turn, and the provider refuses none,
// under each SDK and alone.
func TestAQuotaIsKeptBeforeItIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("long: seconds of real time")
	}
	for _, s := range streamers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const size, span, callers, each = 12, 1500 * time.Millisecond, 12, 3
			var mu sync.Mutex
			level, filled, refused := float64(size), time.Now(), 0
			p := &provider{turns: []turn{{status: 200}}}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				now := time.Now()
				level = min(size, level+now.Sub(filled).Seconds()*size/span.Seconds())
				filled = now
				full := level < 1
				if full {
					refused++
				} else {
					level--
				}
				w.Header().Set("x-ratelimit-limit-requests", fmt.Sprint(size))
				w.Header().Set("x-ratelimit-remaining-requests", fmt.Sprint(int(level)))
				w.Header().Set("x-ratelimit-reset-requests", time.Duration((size-level)/size*float64(span)).String())
				mu.Unlock()
				if full {
					w.WriteHeader(429)
					return
				}
				p.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			rules := quick(t)
			rules.RateLimit.Quotas = []policy.Quota{{Unit: policy.Requests, Amount: size, Span: span}}
			d := gabion.New("models", rules)
			call := s.make(server.URL, &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Partition: gabionhttp.ByModel}}, 0)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range each {
						if n, err := call(t.Context()); err != nil || n != whole {
							t.Errorf("%d tokens, %v", n, err)
						}
					}
				})
			}
			wg.Wait()
			if refused > 1 { // the clocks of both differ by what a request takes
				t.Errorf("the provider refused %d of %d requests", refused, callers*each+refused)
			}
		})
	}
}
