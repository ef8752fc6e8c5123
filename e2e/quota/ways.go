package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/time/rate"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A way is one of the ways to call a provider that has a quota. It makes the caller of one process.
type way struct {
	name string
	make func(p *provider, processes int) caller
}

// caller makes one call that uses size tokens, and is thought to use estimate.
type caller func(ctx context.Context, size, estimate float64) error

var (
	withGabion = way{"gabion", gabionCaller}
	withAgreed = way{"gabion, among N, no headers", agreedCaller}
	withPart   = way{"x/time/rate of an Nth, by hand", rateCaller}
	withSDK    = way{"openai-go alone", sdkCaller}
)

// refused is a 429.
type refused struct{ after time.Duration }

func (r refused) Error() string { return "429, come back in " + r.after.String() }

// answer is what a process needs of an answer.
type answer struct {
	used float64
	left policy.Remaining
}

func client() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// post makes one request.
func post(ctx context.Context, c *http.Client, url string, size float64) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return a, err
	}
	req.Header.Set(sizeHeader, strconv.FormatFloat(size, 'f', 0, 64))
	resp, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.left = policy.Remaining{Unit: "tokens", Full: true}
	a.left.Left, _ = strconv.ParseFloat(resp.Header.Get("X-Ratelimit-Remaining-Tokens"), 64)
	a.left.Limit, _ = strconv.ParseFloat(resp.Header.Get("X-Ratelimit-Limit-Tokens"), 64)
	a.left.Reset, _ = time.ParseDuration(resp.Header.Get("X-Ratelimit-Reset-Tokens"))
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		ms, _ := strconv.Atoi(resp.Header.Get("Retry-After-Ms"))
		return a, refused{time.Duration(ms) * time.Millisecond}
	default:
		return a, fmt.Errorf("status %d", resp.StatusCode)
	}
	var body struct {
		Usage struct {
			Total float64 `json:"total_tokens"`
		} `json:"usage"`
	}
	err = json.NewDecoder(resp.Body).Decode(&body)
	a.used = body.Usage.Total
	return a, err
}

func quotaOf(p *provider, among int) policy.Policy {
	return policy.Policy{
		Timeout: policy.Timeout{Call: policy.Off, Attempt: 30 * time.Second},
		RateLimit: policy.RateLimit{Quotas: []policy.Quota{
			{Unit: "tokens", Amount: p.amount, Span: p.span, Estimate: 1000, Among: among},
		}},
	}
}

func gabionCaller(p *provider, _ int) caller { return callerOf(p, quotaOf(p, 0), true) }

// agreedCaller is for a provider that does not say what is left: each process uses its part.
func agreedCaller(p *provider, processes int) caller {
	return callerOf(p, quotaOf(p, processes), false)
}

func callerOf(p *provider, rules policy.Policy, hears bool) caller {
	d := gabion.New("provider", rules, gabion.WithClassify(func(_ answer, err error) policy.Outcome {
		if r, ok := errors.AsType[refused](err); ok {
			return policy.Outcome{Class: policy.ClassThrottled, Undone: true, HasAfter: true, After: r.after}
		}
		return policy.Outcome{}
	}))
	c := client()
	return func(ctx context.Context, size, estimate float64) error {
		_, err := gabion.Do(ctx, d, func(ctx context.Context) (answer, error) {
			a, err := post(ctx, c, p.URL, size)
			if hears && a.left.Limit > 0 {
				gabion.TellLeft(ctx, a.left)
			}
			if err == nil {
				gabion.Spent(ctx, "tokens", a.used)
			}
			return a, err
		}, gabion.WithCost("tokens", estimate), gabion.WithIdempotent())
		return err
	}
}

// rateCaller is what is written by hand: each process knows how many there are, and a refused call
// is tried three times in all, after the time that the provider names.
func rateCaller(p *provider, processes int) caller {
	part := p.amount / float64(processes)
	l := rate.NewLimiter(rate.Limit(part/p.span.Seconds()), max(int(part), 7000))
	c := client()
	return func(ctx context.Context, size, estimate float64) error {
		var err error
		for range 3 {
			if err = l.WaitN(ctx, min(int(estimate), l.Burst())); err != nil {
				return err
			}
			_, err = post(ctx, c, p.URL, size)
			r, ok := errors.AsType[refused](err)
			if !ok {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(r.after):
			}
		}
		return err
	}
}

// sdkCaller is an SDK as it comes: it tries a refused call twice more, after the time that the provider names.
func sdkCaller(p *provider, _ int) caller {
	c := openai.NewClient(option.WithBaseURL(p.URL), option.WithAPIKey("k"), option.WithHTTPClient(client()))
	return func(ctx context.Context, size, _ float64) error {
		_, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("?")},
		}, option.WithHeader(sizeHeader, strconv.FormatFloat(size, 'f', 0, 64)))
		return err
	}
}
