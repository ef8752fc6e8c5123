package gabionhttp_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

func quotas(lines ...string) (all []policy.Quota) {
	for _, line := range lines {
		var q policy.Quota
		if err := q.UnmarshalText([]byte(line)); err != nil {
			panic(err)
		}
		all = append(all, q)
	}
	return all
}

func quotaOf(t *testing.T, d *gabion.Dependency, unit string) policy.QuotaStats {
	t.Helper()
	for _, q := range d.Stats().Partitions[0].Quotas {
		if q.Unit == unit {
			return q
		}
	}
	t.Fatalf("no quota of %s in %+v", unit, d.Stats().Partitions[0])
	return policy.QuotaStats{}
}

// What the server says is left is the quota's, and holds no call by itself.
func TestAnAnswerTellsTheQuotaWhatIsLeft(t *testing.T) {
	bubble(t, "left", func(t *testing.T) {
		c, d := client(t, policy.Policy{RateLimit: policy.RateLimit{Quotas: quotas("1000 tokens/1m", "100 requests/1m")}}, roundTripper(func(req *http.Request) (*http.Response, error) {
			return answer(req, 200, "", "x-ratelimit-limit-tokens", "1000", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "60s",
				"x-ratelimit-remaining-requests", "40", "x-ratelimit-limit-requests", "100", "x-ratelimit-reset-requests", "36s"), nil
		}))
		resp, err := c.Get("http://model.test/")
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if q := quotaOf(t, d, "requests"); !q.Told || q.Left > 41 {
			t.Errorf("requests: %+v", q)
		}
		if q := quotaOf(t, d, "tokens"); !q.Told || q.Left > 1 {
			t.Errorf("tokens: %+v", q)
		}
		if held := d.Stats().Partitions[0].Paced; held != 0 {
			t.Errorf("all calls are held for %v for the quota of some", held)
		}
	})
}

// What an answer used replaces what was reserved for it, also where it is a stream that is read long after.
func TestAnAnswerCorrectsWhatWasReserved(t *testing.T) {
	for name, body := range map[string]string{
		"json":   `{"usage":{"prompt_tokens":100,"completion_tokens":200,"total_tokens":300}}`,
		"stream": "data: {\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}\n\ndata: {\"usage\":{\"output_tokens\":200}}\n\n",
	} {
		bubble(t, name, func(t *testing.T) {
			c, d := client(t, policy.Policy{Timeout: policy.Timeout{Idle: time.Hour}, RateLimit: policy.RateLimit{Quotas: quotas("1000 tokens/24h estimate 50", "500 output/24h estimate 20")}}, roundTripper(func(req *http.Request) (*http.Response, error) {
				return answer(req, 200, body), nil
			}))
			resp, err := c.Get("http://model.test/")
			if err != nil {
				t.Fatal(err)
			}
			if q := quotaOf(t, d, "tokens"); math.Abs(q.Left-950) > 1 {
				t.Errorf("while it is unread %v are left", q.Left)
			}
			time.Sleep(time.Minute)
			read(t, resp)
			tokens, output := quotaOf(t, d, "tokens"), quotaOf(t, d, "output")
			if math.Abs(tokens.Left-700) > 2 || math.Abs(output.Left-300) > 2 {
				t.Errorf("%v tokens and %v of output are left, want 700 and 300", tokens.Left, output.Left)
			}
		})
	}
}

// Money is a bound: what cannot be paid is not sent.
func TestMoneyIsABound(t *testing.T) {
	bubble(t, "money", func(t *testing.T) {
		sent := 0
		p := policy.Policy{Prices: prices[:2], Retry: policy.Retry{Attempts: 1}, RateLimit: policy.RateLimit{Quotas: quotas("0.02 usd/24h estimate 0.006 window"), MaxWait: policy.Off}}
		c, d := client(t, p, roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			return answer(req, 200, `{"usage":{"prompt_tokens":1000,"completion_tokens":200}}`), nil
		}))
		for i := range 6 {
			resp, err := c.Get("http://model.test/")
			if (err == nil) != (i < 3) {
				t.Fatalf("call %d: %v", i, err)
			}
			if err == nil {
				read(t, resp)
				continue
			}
			if !errors.Is(err, policy.RateLimited) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if usd, _ := spent(d, "usd"); sent != 3 || math.Abs(usd-0.018) > 1e-12 {
			t.Errorf("%d requests were sent, for %v usd", sent, usd)
		}
	})
}

// A request is thought to use what its JSON says. One that is larger than the quota is not sent.
func TestARequestSaysWhatItIsThoughtToUse(t *testing.T) {
	bubble(t, "cost", func(t *testing.T) {
		sent := 0
		d := gabion.New("models", policy.Policy{Prices: prices[:2], RateLimit: policy.RateLimit{Quotas: quotas("1000 tokens/24h estimate 1", "1 usd/24h estimate 0.001")}})
		c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Cost: gabionhttp.CostOfModel, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			return answer(req, 200, "{}"), nil
		})}}
		ask := func(most int) error {
			body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"prompt":"`, most)
			body += strings.Repeat("x", 400-len(body)-2) + `"}`
			resp, err := c.Post("http://model.test/", "application/json", strings.NewReader(body))
			if err == nil {
				read(t, resp)
			}
			return err
		}
		if err := ask(500); err != nil {
			t.Fatal(err)
		}
		if q := quotaOf(t, d, "tokens"); math.Abs(q.Left-400) > 1 {
			t.Errorf("%v tokens are left of 1000, after a request of 100 and at most 500", q.Left)
		}
		if q := quotaOf(t, d, "usd"); math.Abs(q.Left-(1-0.0003-0.0075)) > 1e-4 {
			t.Errorf("%v usd are left", q.Left)
		}
		if err := ask(5000); !errors.Is(err, policy.RateLimited) || sent != 1 {
			t.Errorf("a request for more than there is in all: %v; %d were sent", err, sent)
		}
	})
}

// Gemini says in the body of a refusal when to come back, and which quota is used up: then that quota waits, and calls that
// don't use it go.
func TestARefusalInGooglesWayIsObeyed(t *testing.T) {
	const body = `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"g/generate_requests","quotaId":"PerMinute"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`
	for _, lines := range [][]string{nil, {"100 requests/1m"}} {
		bubble(t, fmt.Sprint(lines), func(t *testing.T) {
			n := 0
			c, d := client(t, policy.Policy{Safe: true, RateLimit: policy.RateLimit{Quotas: quotas(lines...)}, Timeout: policy.Timeout{Call: time.Minute}, Retry: policy.Retry{MaxAfter: time.Minute}}, roundTripper(func(req *http.Request) (*http.Response, error) {
				if n++; n == 1 {
					return answer(req, 429, body, "Content-Type", "application/json"), nil
				}
				return answer(req, 200, "yes"), nil
			}))
			begun := time.Now()
			resp, err := c.Get("http://model.test/")
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if took := time.Since(begun); n != 2 || took < 7*time.Second || took > 12*time.Second {
				t.Errorf("%d requests in %v", n, took)
			}
			if lines != nil && !quotaOf(t, d, "requests").Told {
				t.Error("the quota was not told")
			}
		})
	}
}
