package gabionhttp_test

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

var prices = []policy.Price{{Amount: 3, Money: "usd", Per: 1e6, Unit: "input"}, {Amount: 15, Money: "usd", Per: 1e6, Unit: "output"}, {Amount: 0.01, Money: "usd", Per: 1, Unit: "requests"}}

func spent(d *gabion.Dependency, unit string) (amount float64, answers int64) {
	for _, s := range d.Stats().Spent {
		if s.Unit == unit {
			return s.Amount, s.Answers
		}
	}
	return 0, 0
}

// What an answer cost is read while the caller reads the answer, and is counted once.
func TestWhatAnAnswerCostIsCounted(t *testing.T) {
	const text = `{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200}}`
	tests := []struct {
		name     string
		policy   policy.Policy
		status   int
		header   []string
		read     func(resp *http.Response)
		usd      float64
		requests float64
	}{
		{name: "read to its end", policy: policy.Policy{Prices: prices}, status: 200, usd: 0.01 + 0.003 + 0.003, requests: 1},
		{name: "closed twice", policy: policy.Policy{Prices: prices}, status: 200, read: func(r *http.Response) { io.Copy(io.Discard, r.Body); r.Body.Close(); r.Body.Close() }, usd: 0.016, requests: 1},
		{name: "left unread costs a request", policy: policy.Policy{Prices: prices}, status: 200, read: func(r *http.Response) { r.Body.Close() }, usd: 0.01, requests: 1},
		{name: "a failure costs nothing", policy: policy.Policy{Prices: prices}, status: 400},
		{name: "packed bytes say nothing but that it was a request", policy: policy.Policy{Prices: prices}, status: 200, header: []string{"Content-Encoding", "br"}, usd: 0.01, requests: 1},
		{name: "without prices nothing is read", status: 200},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			c, d := client(t, tt.policy, roundTripper(func(req *http.Request) (*http.Response, error) {
				return answer(req, tt.status, text, tt.header...), nil
			}))
			resp, err := c.Get("http://model.test/")
			if err != nil {
				t.Fatal(err)
			}
			if tt.read != nil {
				tt.read(resp)
			} else if got := read(t, resp); got != text {
				t.Errorf("the caller read %q", got)
			}
			usd, _ := spent(d, "usd")
			requests, _ := spent(d, "requests")
			if math.Abs(usd-tt.usd) > 1e-12 || requests != tt.requests {
				t.Errorf("%v usd for %v requests, want %v for %v; %+v", usd, requests, tt.usd, tt.requests, d.Stats().Spent)
			}
		})
	}
}

// A stream costs what its last events say, and a reader that goes away early costs what was said until then.
func TestWhatAStreamCostIsCounted(t *testing.T) {
	const start = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":1000,\"output_tokens\":1}}}\n\n"
	const end = "event: message_delta\ndata: {\"usage\":{\"output_tokens\":500}}\n\nevent: message_stop\ndata: {}\n\n"
	synctest.Test(t, func(t *testing.T) {
		s := servePiped(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, start)
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(20 * time.Second):
			case <-r.Context().Done():
			}
			io.WriteString(w, end)
		})
		c, d := client(t, policy.Policy{Prices: prices[:2]}, base(t, s))
		resp := open(t, c, s.URL)
		if got := read(t, resp); got != start+end {
			t.Errorf("the caller read %q", got)
		}
		if usd, n := spent(d, "usd"); math.Abs(usd-0.003-0.0075) > 1e-12 || n != 1 {
			t.Errorf("the whole stream cost %v in %d", usd, n)
		}
		resp = open(t, c, s.URL)
		io.ReadFull(resp.Body, make([]byte, len(start)))
		resp.Body.Close()
		if usd, _ := spent(d, "usd"); math.Abs(usd-0.0105-0.003-0.000015) > 1e-12 {
			t.Errorf("with one that was left early it is %v", usd)
		}
		if tokens, n := spent(d, "tokens"); tokens != 1500+1001 || n != 2 {
			t.Errorf("%v tokens in %d answers", tokens, n)
		}
	})
}

// However long an answer is, what is kept of it to find its cost stays small, and none of its bytes changes.
func TestALongAnswerIsHandedOnAsItComes(t *testing.T) {
	long := `{"text":"` + strings.Repeat(`\"usage\":{`, 1<<20) + `","usage":{"input_tokens":7,"output_tokens":2}}`
	c, d := client(t, policy.Policy{Prices: prices[:2]}, roundTripper(func(req *http.Request) (*http.Response, error) {
		return answer(req, 200, long), nil
	}))
	resp, err := c.Get("http://model.test/")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp); got != long {
		t.Error("the answer changed on its way")
	}
	if n, _ := spent(d, "input"); n != 7 {
		t.Errorf("%v tokens of input", n)
	}
}

// A stream that says that its server failed counts as a failure of it, although its status was 200. The caller reads
// what came.
func TestAStreamThatSaysThatItsServerFailed(t *testing.T) {
	const text = "event: message_start\ndata: {}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"
	for _, tt := range []struct {
		name     string
		prices   []policy.Price
		kind     string
		read     func(*http.Response) string
		failures int64
	}{
		{"read to its end", prices, "text/event-stream", func(r *http.Response) string { b, _ := io.ReadAll(r.Body); r.Body.Close(); return string(b) }, 1},
		{"closed after the event, as SDKs do", prices, "text/event-stream", func(r *http.Response) string {
			b := make([]byte, len(text))
			io.ReadFull(r.Body, b)
			r.Body.Close()
			return string(b)
		}, 1},
		{"no stream", prices, "text/plain", func(r *http.Response) string { b, _ := io.ReadAll(r.Body); r.Body.Close(); return string(b) }, 0},
		{"nobody wants to know of costs", nil, "text/event-stream", func(r *http.Response) string { b, _ := io.ReadAll(r.Body); r.Body.Close(); return string(b) }, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c, d := client(t, policy.Policy{Prices: tt.prices}, roundTripper(func(req *http.Request) (*http.Response, error) {
				return answer(req, 200, text, "Content-Type", tt.kind), nil
			}))
			resp, err := c.Get("http://model.test/")
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.read(resp); got != text {
				t.Errorf("the caller reads %q", got)
			}
			if n := laneOf(d).Counts.Failures; n != tt.failures {
				t.Errorf("%d failures", n)
			}
		})
	}
}

// drip is a body that says again and again what it costs.
type drip struct{}

func (drip) Read(p []byte) (int, error) { return copy(p, `{"usage":{"input_tokens":1}}`), nil }
func (drip) Close() error               { return nil }

// Another goroutine may close an answer while it is read: the race detector sees what both touch.
func TestAnAnswerMayBeClosedWhileItIsRead(t *testing.T) {
	c, d := client(t, policy.Policy{Prices: prices}, roundTripper(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, 200, "")
		resp.Body, resp.ContentLength = drip{}, -1
		return resp, nil
	}))
	resp, err := c.Get("http://model.test/")
	if err != nil {
		t.Fatal(err)
	}
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := range 1000 {
			resp.Body.Read(make([]byte, 64))
			if i == 10 {
				close(begun)
			}
		}
	}()
	<-begun
	resp.Body.Close()
	<-done
	if _, n := spent(d, "requests"); n != 1 {
		t.Errorf("%d answers", n)
	}
}
