package gabionhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

func ExampleRetryAfter() {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	fmt.Println(gabionhttp.RetryAfter(http.Header{"Retry-After": {"120"}}, now))
	fmt.Println(gabionhttp.RetryAfter(http.Header{"Retry-After": {"Sat, 21 Nov 2026 12:00:05 GMT"}}, now))
	fmt.Println(gabionhttp.RetryAfter(http.Header{"Retry-After": {"soon"}}, now))
	// Output:
	// 2m0s true
	// 5s true
	// 0s false
}

func ExampleRemaining() {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, q := range gabionhttp.Remaining(http.Header{
		"X-Ratelimit-Limit-Tokens": {"150000"}, "X-Ratelimit-Remaining-Tokens": {"149984"}, "X-Ratelimit-Reset-Tokens": {"6m0s"},
		"X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"1795262460"},
	}, now) {
		fmt.Println(q.Left, q.Unit, q.Limit, q.Reset)
	}
	// Output:
	// 149984 tokens 150000 6m0s
	// 4 requests 0 1m0s
}

func ExampleByModel() {
	req, _ := http.NewRequest("POST", "https://api.example.com/v1/chat/completions", strings.NewReader(`{"model":"small-1","messages":[]}`))
	req.Header.Set("Authorization", "Bearer secret")
	fmt.Println(gabionhttp.ByModel(req))
	// Output: api.example.com small-1 bffde2
}

// A provider of language models under the preset llm: what each answer cost is read from it, streamed or not.
func ExampleTransport_models() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"choices":[{"message":{"content":"Hello."}}],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200}}`)
	}))
	defer provider.Close()

	p, _ := policy.Preset("llm")
	p.Prices = []policy.Price{{Amount: 3, Money: "usd", Per: 1e6, Unit: "input"}, {Amount: 15, Money: "usd", Per: 1e6, Unit: "output"}}
	models := gabion.New("models", p)
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: models, Partition: gabionhttp.ByModel}}

	resp, err := client.Post(provider.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"small-1","messages":[]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	for _, s := range models.Stats().Spent {
		fmt.Println(s.Amount, s.Unit)
	}
	// Output:
	// 1000 input
	// 200 output
	// 1 requests
	// 1200 tokens
	// 0.006 usd
}

// keys has the key of each provider, by the name of its endpoint.
type keys map[string]string

func (k keys) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+k[gabion.EndpointOf(req.Context()).Name])
	return http.DefaultTransport.RoundTrip(req)
}

// A second provider answers while the first is overloaded, with a key of its own.
func ExampleTransport_providers() {
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("first:", r.Header.Get("Authorization"), r.URL.Path)
		w.WriteHeader(529)
	}))
	defer first.Close()
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("second:", r.Header.Get("Authorization"), r.URL.Path)
	}))
	defer second.Close()

	p, _ := policy.Preset("llm")
	p.Endpoints.Mode, p.Endpoints.Standing = policy.EndpointsOrdered, policy.Off // else 1 % of the calls go to the second first
	p.Endpoints.List = []policy.Endpoint{{Name: "first", URL: first.URL}, {Name: "second", URL: second.URL + "/openai"}}
	client := &http.Client{Transport: &gabionhttp.Transport{
		Dependency: gabion.New("models", p), Partition: gabionhttp.ByModel, Base: keys{"first": "k1", "second": "k2"},
	}}
	resp, err := client.Post("https://models/v1/chat/completions", "application/json", strings.NewReader(`{"model":"small-1"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output:
	// first: Bearer k1 /v1/chat/completions
	// second: Bearer k2 /openai/v1/chat/completions
	// 200
}

func ExampleDeadline() {
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Println("working") })
	server := &gabionhttp.Deadline{Next: work, Margin: 20 * time.Millisecond}

	for _, left := range []string{"500", "5"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(gabionhttp.HeaderDeadline, left)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	fmt.Println("saved", server.Saved())
	// Output:
	// working
	// 200
	// 504
	// saved 1
}

// In an idempotency.Handler the work continues when its client disconnects, so the context
// does not have the client's deadline. Work that should stop at that deadline reads the header.
func ExampleTimeLeft() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		_, inherited := ctx.Deadline()
		if left, ok, _ := gabionhttp.TimeLeft(r.Header); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, left)
			defer cancel()
		}
		_, bounded := ctx.Deadline()
		fmt.Println("inherited:", inherited, "bounded:", bounded)
	})
	keys, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), charge, idempotency.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &gabionhttp.Deadline{Next: keys} // outside: a request with too little time claims no key

	for _, left := range []string{"0", "500"} {
		r := httptest.NewRequest("POST", "/charges", strings.NewReader("12 EUR"))
		r.Header.Set(gabionhttp.HeaderKey, "order-7")
		r.Header.Set(gabionhttp.HeaderDeadline, left)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 504
	// inherited: false bounded: true
	// 200
}

func ExampleNextHop() {
	outgoing := http.Header{}
	left := gabionhttp.NextHop(time.Second, 300*time.Millisecond, 100*time.Millisecond)
	fmt.Println(gabionhttp.SetTimeLeft(outgoing, left), outgoing)
	// Output: true map[X-Request-Deadline-Ms:[200]]
}

func ExampleTransport() {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "attempt %d", n)
	}))
	defer server.Close()

	payments := gabion.New("payments", policy.Policy{})
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: payments}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(text))
	// Output: 200 attempt 2
}

// DynamoDB throttles with a 400. A type in the body distinguishes it from a wrong request.
// The caller still reads the whole body.
func ExampleWithClassify() {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`)
			return
		}
		fmt.Fprintf(w, "attempt %d", n)
	}))
	defer server.Close()

	throttled := func(resp *http.Response, err error) policy.Outcome {
		if resp == nil || resp.StatusCode != http.StatusBadRequest {
			return policy.Outcome{} // undecided: as without a classifier
		}
		var failure struct {
			Type string `json:"__type"`
		}
		json.NewDecoder(resp.Body).Decode(&failure)
		if strings.HasSuffix(failure.Type, "#ThrottlingException") {
			return policy.Refused(policy.ClassThrottled)
		}
		return policy.Outcome{}
	}
	// For one request. gabion.WithClassify(throttled) is for all requests of a dependency.
	ctx := gabionhttp.WithClassify(context.Background(), throttled)
	req, _ := http.NewRequestWithContext(ctx, "GET", server.URL, nil)

	table := gabion.New("table", policy.Policy{})
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: table}}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(text))
	// Output: 200 attempt 2
}

// An SDK that turns every failed answer into its own error hides gabion's verdict. It also
// hides how many attempts a success took. Both are in the LastVerdict.
func ExampleWithVerdict() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	model := gabion.New("model", policy.Policy{})
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: model}}
	complete := func(ctx context.Context) error { // the SDK
		req, _ := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("hello"))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return errors.New(resp.Status)
	}

	var v gabionhttp.LastVerdict
	err := complete(gabionhttp.WithVerdict(context.Background(), &v))
	fmt.Println(err)
	fmt.Println(v.Reason(), "after", v.Attempts(), "attempt")
	// Output:
	// 503 Service Unavailable
	// not_safe after 1 attempt
}

// The key of one order is used for another one: a bug, which has an error of its own.
func ExampleKeyError() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "charged") })
	keys, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), charge, idempotency.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(keys)
	defer server.Close()

	payments := gabion.New("payments", policy.Policy{})
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: payments, KeyRetention: 24 * time.Hour}}
	for _, amount := range []string{"12 EUR", "99 EUR"} {
		req, _ := http.NewRequest("POST", server.URL, strings.NewReader(amount))
		req.Header.Set(gabionhttp.HeaderKey, "order-7")
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(amount, resp.StatusCode)
		if v := gabionhttp.Verdict(resp); v != nil {
			fmt.Println(v, errors.Is(v, gabion.KeyReused))
		}
		resp.Body.Close()
	}
	// Output:
	// 12 EUR 200
	// 99 EUR 422
	// payments: not_retryable after 1 attempt, may have happened: 422 Unprocessable Entity: the idempotency key was used for a different request true
}

func ExampleError() {
	bank := gabion.New("bank", policy.Policy{Key: policy.KeyRequired})
	handler := func(w http.ResponseWriter, r *http.Request) {
		err := bank.Run(r.Context(), func(ctx context.Context) error { return nil })
		if err != nil {
			gabionhttp.Error(w, err)
		}
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("POST", "/charge", nil))
	fmt.Println(w.Code, w.Header().Get("X-Should-Retry"), w.Body)
	// Output: 500 false key_missing
}

// At most one request at a time here, and none that waits: the second one is refused
// before any work.
func ExampleAdmission() {
	busy, done := make(chan bool), make(chan bool)
	work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		busy <- true
		<-done
	})
	server := &gabionhttp.Admission{Next: work, Limit: 1, Queue: policy.Off}
	go server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/first", nil))
	<-busy
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest("GET", "/second", nil))
	fmt.Println(w.Code, w.Header().Get(gabionhttp.HeaderRefused))
	fmt.Println(w.Body)
	close(done)
	// Output:
	// 503 queue-full
	// {"type":"urn:gabion:admission:queue-full","title":"The server has no room for more requests","status":503}
}

func ExampleAdmission_Stats() {
	server := &gabionhttp.Admission{Next: http.NotFoundHandler(), Limit: 10}
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/healthz", nil))
	late := httptest.NewRequest("GET", "/", nil)
	late.Header.Set(gabionhttp.HeaderDeadline, "0")
	server.ServeHTTP(httptest.NewRecorder(), late)
	s := server.Stats()
	fmt.Println(s.Admitted, s.Exempt, s.Refused(), s.Saved())
	// Output: 1 1 0 1
}

// A stream gives its slot back when it has begun, so that others are let in.
func ExampleReleaseSlot() {
	events := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "event: hello\n\n")
		http.NewResponseController(w).Flush()
		fmt.Println("given back:", gabionhttp.ReleaseSlot(r.Context()))
		// … and now an hour of events
	})
	server := &gabionhttp.Admission{Next: events, Limit: 100}
	r := httptest.NewRequest("GET", "/events", nil)
	r.Header.Set("Accept", "text/event-stream")
	server.ServeHTTP(httptest.NewRecorder(), r)
	// Output: given back: true
}

// What a batch job asks for can wait. Servers of ours that it calls in turn learn that too.
func ExampleAdmission_priority() {
	server := httptest.NewServer(&gabionhttp.Admission{Limit: 10, Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(gabion.PriorityOf(r.Context()) == policy.PriorityLow)
	})})
	defer server.Close()
	stock := gabion.New("stock", policy.Policy{Trust: policy.Internal})
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: stock}}
	defer client.CloseIdleConnections()
	ctx := gabion.ContextWithPriority(context.Background(), policy.PriorityLow)
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	resp, err := client.Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: true
}

func ExampleHealthCheck() {
	server := &gabionhttp.Admission{Limit: 100, Exempt: func(r *http.Request) bool {
		return gabionhttp.HealthCheck(r) || r.URL.Path == "/metrics"
	}}
	fmt.Println(server.Exempt(httptest.NewRequest("GET", "/metrics", nil)), server.Exempt(httptest.NewRequest("GET", "/orders", nil)))
	// Output: true false
}
