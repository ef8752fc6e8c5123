package quota

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/time/rate"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// A client makes requests of an API, and tries a refused one twice more, after the time that the provider names.
type client struct {
	name string
	make func(url string, c *http.Client) caller
}

// caller makes one call that uses size tokens, and is thought to use estimate.
type caller func(ctx context.Context, size, estimate float64) error

var (
	openAI = client{"openai-go", func(url string, c *http.Client) caller {
		sdk := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("k"), option.WithHTTPClient(c))
		return func(ctx context.Context, size, estimate float64) error {
			_, err := sdk.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
				Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("?")},
			}, option.WithHeader(sizeHeader, number(size)), option.WithHeader(estimateHeader, number(estimate)))
			return err
		}
	}}
	anthropicSDK = client{"anthropic-sdk-go", func(url string, c *http.Client) caller {
		sdk := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(c))
		return func(ctx context.Context, size, estimate float64) error {
			_, err := sdk.Messages.New(ctx, anthropic.MessageNewParams{
				Model: "m", MaxTokens: 64, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("?"))},
			}, anthropicoption.WithHeader(sizeHeader, number(size)), anthropicoption.WithHeader(estimateHeader, number(estimate)))
			return err
		}
	}}
	netHTTP = client{"net/http", func(url string, c *http.Client) caller {
		return func(ctx context.Context, size, estimate float64) (err error) {
			for range 3 {
				var after time.Duration
				if after, err = post(ctx, c, url+"/tokens", size, estimate); after == 0 {
					return err
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(after):
				}
			}
			return err
		}
	}}
)

// post makes one request. After is how long the provider wants its caller to wait.
func post(ctx context.Context, c *http.Client, url string, size, estimate float64) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	req.Header.Set(sizeHeader, number(size))
	req.Header.Set(estimateHeader, number(estimate))
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode == http.StatusOK {
		return 0, err
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, errors.New(resp.Status)
}

// A way is what is done about a quota. It makes the caller of one process.
type way struct {
	name   string
	silent bool // the provider does not say what is left
	make   func(p *provider, net *http.Transport, processes int, c client) caller
}

var (
	alone     = way{"nothing", false, plain}
	byHand    = way{"x/time/rate of an Nth, by hand", false, limited}
	withWords = way{"gabion", false, func(p *provider, net *http.Transport, _ int, c client) caller { return under(p, net, 0, c) }}
	agreed    = way{"gabion, among N, no headers", true, under}
)

func plain(_ *provider, net *http.Transport, _ int, c client) caller {
	return c.make(address, &http.Client{Transport: net})
}

// limited is what is written by hand: each process knows how many there are.
func limited(p *provider, net *http.Transport, processes int, c client) caller {
	part := p.amount / float64(processes)
	l := rate.NewLimiter(rate.Limit(part/p.span.Seconds()), max(int(part), 7000))
	call := plain(p, net, processes, c)
	return func(ctx context.Context, size, estimate float64) error {
		if err := l.WaitN(ctx, min(int(estimate), l.Burst())); err != nil {
			return err
		}
		return call(ctx, size, estimate)
	}
}

// under is a client over gabion, with its own retries as they come.
func under(p *provider, net *http.Transport, among int, c client) caller {
	d := gabion.New("provider", policy.Policy{
		Timeout: policy.Timeout{Call: policy.Off, Attempt: 30 * time.Second},
		RateLimit: policy.RateLimit{Quotas: []policy.Quota{
			{Unit: "tokens", Amount: p.amount, Span: p.span, Estimate: 1000, Among: among},
		}},
	})
	return c.make(address, &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: net, Cost: func(req *http.Request, use func(string, float64)) {
		if n, err := strconv.ParseFloat(req.Header.Get(estimateHeader), 64); err == nil {
			use("tokens", n)
		}
	}}})
}
