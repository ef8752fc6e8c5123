package gabionhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

var (
	throttled = policy.Outcome{Class: policy.ClassThrottled}
	undecided = policy.Outcome{Class: policy.ClassUnclassified}
)

// dynamo reads the error of an AWS service with a JSON protocol, which comes as a 400.
func dynamo(resp *http.Response, _ error) policy.Outcome {
	if resp == nil || resp.StatusCode != 400 {
		return undecided
	}
	kind := resp.Header.Get("X-Amzn-Errortype")
	if kind == "" {
		var d struct {
			Type string `json:"__type"`
		}
		json.NewDecoder(resp.Body).Decode(&d)
		kind = d.Type
	}
	if strings.Contains(kind, "Throttling") || strings.HasSuffix(kind, "ProvisionedThroughputExceededException") {
		return throttled
	}
	return undecided
}

// graphQL reads a failure that comes as a 200.
func graphQL(resp *http.Response, _ error) policy.Outcome {
	if resp != nil && resp.StatusCode == 200 {
		b, _ := io.ReadAll(resp.Body)
		if bytes.Contains(b, []byte(`"errors"`)) {
			return policy.Failed(policy.ClassServer)
		}
	}
	return policy.Outcome{}
}

func TestIssue10_TheClassifierReadsAnswers(t *testing.T) {
	const failed = `{"errors":[{"message":"busy"}]}`
	type classifier = func(*http.Response, error) policy.Outcome
	everything := func(o policy.Outcome) classifier {
		return func(*http.Response, error) policy.Outcome { return o }
	}
	tests := []struct {
		name   string
		by     classifier
		policy policy.Policy
		method string
		status int
		body   string
		header []string
		sent   int
		reason gabion.Reason
	}{
		{"a throttling that comes as 400, by its header", dynamo, eager(), "GET", 400, "{}", []string{"X-Amzn-Errortype", "ThrottlingException"}, 3, policy.AttemptsExhausted},
		{"and by its body", dynamo, eager(), "GET", 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`, nil, 3, policy.AttemptsExhausted},
		{"another 400 stays one", dynamo, eager(), "GET", 400, `{"__type":"ValidationException"}`, nil, 1, policy.NotRetryable},
		{"a POST stays unsafe", dynamo, eager(), "POST", 400, `{"__type":"ThrottlingException"}`, nil, 1, policy.NotSafe},
		{"unless the policy says Safe", dynamo, with(eager(), func(p *policy.Policy) { p.Safe = true }), "POST", 400, `{"__type":"ThrottlingException"}`, nil, 3, policy.AttemptsExhausted},
		{"a 200 that is a failure", graphQL, eager(), "GET", 200, failed, nil, 3, policy.AttemptsExhausted},
		{"a 200 that is no failure", graphQL, eager(), "GET", 200, `{"data":{}}`, nil, 1, policy.None},
		{"a zero Outcome decides nothing", graphQL, eager(), "GET", 503, "", nil, 3, policy.AttemptsExhausted},
		{"nor does Unclassified", dynamo, eager(), "GET", 404, "", nil, 1, policy.NotRetryable},
		{"it counts more than the policy's lists", everything(policy.Outcome{Class: policy.ClassBusiness}), with(eager(), func(p *policy.Policy) { p.HTTP.Transient = []int{404} }), "GET", 404, "", nil, 1, policy.NotRetryable},
		{"marks that stop retries are kept", everything(throttled), eager(), "GET", 400, "", []string{"X-Should-Retry", "false"}, 1, policy.DoNotRetry},
		{"and so is a time to come back", everything(throttled), eager(), "GET", 400, "", []string{"Retry-After", "3600"}, 1, policy.RetryAfterTooLong},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			n := 0
			c, _ := client(t, tt.policy, roundTripper(func(req *http.Request) (*http.Response, error) {
				n++
				return answer(req, tt.status, tt.body, tt.header...), nil
			}), gabion.WithClassify(tt.by))
			resp, err := c.Do(request(t, tt.method, "http://shop", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); got != tt.body || resp.StatusCode != tt.status {
				t.Errorf("the caller got %d %q, want %d %q", resp.StatusCode, got, tt.status, tt.body)
			}
			if v := gabionhttp.Verdict(resp); n != tt.sent || v == nil != (tt.reason == policy.None) || v != nil && v.Reason != tt.reason {
				t.Errorf("%d requests, ended with %v; want %d and %v", n, v, tt.sent, tt.reason)
			}
		})
	}
}

func TestTheClassifierReadsFailures(t *testing.T) {
	odd := errors.New("the tunnel is being built")
	for _, known := range []bool{false, true} {
		n := 0
		by := func(result any, err error) policy.Outcome {
			if result != nil {
				t.Errorf("a failure has the result %T", result)
			}
			if known && errors.Is(err, odd) {
				return policy.Failed(policy.ClassNetwork)
			}
			return classify.Error(err)
		}
		c, _ := client(t, eager(), roundTripper(func(*http.Request) (*http.Response, error) { n++; return nil, odd }), gabion.WithClassify(by))
		_, err := c.Get("http://shop")
		if want := map[bool]int{false: 1, true: 3}[known]; n != want || !errors.Is(err, odd) {
			t.Errorf("known %v: %d requests, %v", known, n, err)
		}
	}
}

// A classifier can't deny that a request was never sent.
func TestAClassifierCanNotUnmakeFacts(t *testing.T) {
	by := func(any, error) policy.Outcome {
		return policy.Failed(policy.ClassNetwork)
	}
	c, _ := client(t, eager(), base(t, nil), gabion.WithClassify(by))
	_, err := c.Do(request(t, "POST", "http://127.0.0.1:1", "charge"))
	if e, ok := errors.AsType[*gabion.Error](err); !ok || e.Effect != policy.NoEffect || e.Attempts != 3 {
		t.Errorf("ended with %v", err)
	}
}

func TestARequestsOwnClassifierIsAskedInPlaceOfTheDependencys(t *testing.T) {
	n := 0
	c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
		n++
		return answer(req, 200, `{"errors":[]}`), nil
	}), gabion.WithClassify(func(any, error) policy.Outcome { t.Error("asked"); return undecided }))
	req := request(t, "GET", "http://shop", "")
	resp, err := c.Do(req.WithContext(gabionhttp.WithClassify(req.Context(), graphQL)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if n != 3 {
		t.Errorf("%d requests", n)
	}
}

// What the server says of the key is no matter of taste.
func TestAClassifierIsNotAskedWhatTheServerSaidOfTheKey(t *testing.T) {
	n := 0
	c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
		n++
		return answer(req, 422, `{"type":"urn:gabion:idempotency:mismatch"}`, "Content-Type", "application/problem+json"), nil
	}), gabion.WithClassify(func(any, error) policy.Outcome { return throttled }))
	req := request(t, "POST", "http://shop", "charge")
	req.Header.Set("Idempotency-Key", "order-7")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if v := gabionhttp.Verdict(resp); n != 1 || !errors.Is(v, gabion.KeyReused) {
		t.Errorf("%d requests, %v", n, v)
	}
}

// The classifier has the first 8 KiB; the caller still has all of it, on both
// protocols, with and without a length.
func TestTheCallerReadsAllThatTheClassifierLookedAt(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 64<<10)
	for _, size := range []int{0, 1, 100, 8<<10 - 1, 8 << 10, 8<<10 + 1, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if chunked {
					w.(http.Flusher).Flush()
				} else {
					w.Header().Set("Content-Length", strconv.Itoa(size))
				}
				io.WriteString(w, text[:size])
			})
			seen := 0
			by := func(result any, _ error) policy.Outcome {
				resp := result.(*http.Response)
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				seen = len(b)
				if err != nil || !strings.HasPrefix(text, string(b)) {
					t.Errorf("%d bytes, %v", len(b), err)
				}
				return undecided
			}
			c, _ := client(t, eager(), base(t, s), gabion.WithClassify(by))
			resp, err := c.Do(request(t, "GET", s.URL, ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); got != text[:size] {
				t.Errorf("chunked %v: the caller read %d of %d bytes", chunked, len(got), size)
			}
			if want := min(size, 8<<10); seen > want || !chunked && seen != want {
				t.Errorf("chunked %v: the classifier saw %d of %d bytes", chunked, seen, size)
			}
		}
	}
}

// A classifier that reads a stream with nothing to say yet gets nothing, and the call does not
// wait.
func TestAClassifierDoesNotHoldUpAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		seen := "unread"
		by := func(result any, _ error) policy.Outcome {
			b, _ := io.ReadAll(result.(*http.Response).Body)
			seen = string(b)
			return undecided
		}
		c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, "", "Content-Type", "text/event-stream")
			resp.ContentLength, resp.Body = -1, r
			return resp, nil
		}), gabion.WithClassify(by))
		began := time.Now()
		resp, err := c.Do(request(t, "GET", "http://shop", ""))
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 100*time.Millisecond || seen != "" {
			t.Errorf("waited %v for a silent stream and saw %q", d, seen)
		}
		go func() {
			for _, event := range []string{"one ", "two ", strings.Repeat("x", 20<<10)} {
				<-time.After(10 * time.Second)
				io.WriteString(w, event)
			}
			w.Close()
		}()
		if got := read(t, resp); got != "one two "+strings.Repeat("x", 20<<10) {
			t.Errorf("%d bytes arrived", len(got))
		}
	})
}

// Closing a body before its first byte ends the goroutine that reads it.
func TestAStreamThatIsClosedUnreadLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine stays
		r, _ := io.Pipe()
		c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, "")
			resp.ContentLength, resp.Body = -1, r
			return resp, nil
		}), gabion.WithClassify(graphQL))
		resp, err := c.Do(request(t, "GET", "http://shop", ""))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
}

// Failures that hide the answer tell all the same why the call ended.
func TestIssue10_TheVerdictTravelsWithTheContext(t *testing.T) {
	refused := errors.New("refused")
	tests := []struct {
		name     string
		method   string
		status   []int // 0 is a failure without an answer
		reason   gabion.Reason
		attempts int
	}{
		{"a success", "GET", []int{200}, policy.None, 1},
		{"a success at the third attempt", "GET", []int{503, 503, 200}, policy.None, 3},
		{"a failure that is an answer", "GET", []int{503}, policy.AttemptsExhausted, 3},
		{"one that may not be repeated", "POST", []int{503}, policy.NotSafe, 1},
		{"a permanent one", "GET", []int{404}, policy.NotRetryable, 1},
		{"a failure without an answer", "GET", []int{0}, policy.AttemptsExhausted, 3},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			n := 0
			c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
				status := tt.status[min(n, len(tt.status)-1)]
				n++
				if status == 0 {
					return nil, classify.Transient(refused)
				}
				return answer(req, status, ""), nil
			}))
			var v gabionhttp.LastVerdict
			ctx := gabionhttp.WithVerdict(t.Context(), &v)
			err := sdk(ctx, c, tt.method)
			if v.Reason() != tt.reason || v.Attempts() != tt.attempts || v.Calls() != 1 || v.Status() != tt.status[len(tt.status)-1] {
				t.Errorf("%v: %v after %d attempts, %d calls, status %d", err, v.Err(), v.Attempts(), v.Calls(), v.Status())
			}
			if gabion.ReasonOf(v.Err()) != tt.reason || v.Err() == nil != (err == nil) {
				t.Errorf("the SDK says %v, and gabion %v", err, v.Err())
			}
		})
	}
	var v gabionhttp.LastVerdict
	if v.Err() != nil || v.Reason() != policy.None || v.Attempts()+v.Calls()+v.Status() != 0 {
		t.Error("a verdict of nothing says something")
	}
}

// sdk makes an error of every failed answer, as SDKs do.
func sdk(ctx context.Context, c *http.Client, method string) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://shop", nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return errors.New(resp.Status)
	}
	return nil
}

// SDKs that repeat a request say so in it: that one gets a single attempt.
func TestIssue10_WhatAnSDKRepeatsIsNotMultiplied(t *testing.T) {
	tests := []struct {
		name, header, value string
		sent                int
	}{
		{"openai-go, first", "X-Stainless-Retry-Count", "0", 3},
		{"openai-go, repeated", "X-Stainless-Retry-Count", "1", 1},
		{"aws-sdk-go-v2, first", "Amz-Sdk-Request", "attempt=1; max=3", 3},
		{"aws-sdk-go-v2, repeated", "Amz-Sdk-Request", "attempt=2; max=3", 1},
		{"aws-sdk-go-v2, repeated, with a ttl", "Amz-Sdk-Request", "ttl=20260101T000000Z; attempt=3; max=3", 1},
		{"garbage", "Amz-Sdk-Request", "attempt=many", 3},
		{"garbage too", "X-Stainless-Retry-Count", "-1", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			c, _ := client(t, eager(), roundTripper(func(*http.Request) (*http.Response, error) { n++; return nil, io.EOF }))
			req := request(t, "GET", "http://shop", "")
			req.Header.Set(tt.header, tt.value)
			_, err := c.Do(req)
			if n != tt.sent {
				t.Errorf("%d requests: %v", n, err)
			}
			// An error that was retried here says so when asked, as the AWS SDKs ask.
			asked, ok := errors.AsType[interface {
				error
				RetryableError() bool
			}](err)
			if ok != (n > 1) || ok && asked.RetryableError() {
				t.Errorf("after %d requests, %v", n, asked)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("the failure is lost: %v", err)
			}
		})
	}
}

// A classifier of results that a Transport does not have could never match.
func TestADependencysClassifierHasToReadAnswers(t *testing.T) {
	for fact, c := range map[string]struct {
		by     gabion.Option
		reason gabion.Reason
	}{
		"of answers": {gabion.WithClassify(func(*http.Response, error) policy.Outcome { return undecided }), policy.None},
		"of any":     {gabion.WithClassify(func(any, error) policy.Outcome { return undecided }), policy.None},
		"of none":    {gabion.WithClassify[string](nil), policy.None},
		"of texts":   {gabion.WithClassify(func(string, error) policy.Outcome { return undecided }), policy.Invalid},
		"of a copy":  {gabion.WithClassify(func(http.Response, error) policy.Outcome { return undecided }), policy.Invalid},
	} {
		sent := 0
		shop, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) { sent++; return answer(req, 200, ""), nil }), c.by)
		resp, err := shop.Get("http://shop")
		if err == nil {
			resp.Body.Close()
		}
		if want := c.reason; gabion.ReasonOf(err) != want || sent == 0 != (want == policy.Invalid) {
			t.Errorf("%s: %d sent, %v", fact, sent, err)
		}
	}
}
