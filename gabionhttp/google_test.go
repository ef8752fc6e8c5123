package gabionhttp

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// geminiRefusal has the shape of what Gemini answers with 429.
const geminiRefusal = `{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[` +
	`{"@type":"type.googleapis.com/google.rpc.Help","links":[{"url":"https://ai.google.dev/gemini-api/docs/rate-limits"}]},` +
	`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` +
	`{"quotaMetric":"generativelanguage.googleapis.com/generate_content_paid_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel","quotaValue":"250"},` +
	`{"quotaMetric":"generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count","quotaId":"GenerateContentInputTokensPerModelPerMinute"}]},` +
	`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"22.5s"}]}}`

func TestWhatARefusalSaysInGooglesWay(t *testing.T) {
	refusal := func(details string) string { return `{"error":{"details":[` + details + `]}}` }
	const wait = 22500 * time.Millisecond
	for _, tt := range []struct {
		name, body string
		header     []string
		after      time.Duration
		told       []policy.Remaining
	}{
		{name: "Gemini", body: geminiRefusal, after: wait, told: []policy.Remaining{saying("requests", 0, of(250), in(wait), each(24*time.Hour)), saying("input", 0, in(wait), each(time.Minute))}},
		{name: "only a time", body: refusal(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}`), after: 3 * time.Second},
		{name: "only a quota", body: refusal(`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"x/requests"}]}`), told: []policy.Remaining{saying("requests", 0)}},
		{name: "a header counts", body: geminiRefusal, header: []string{"Retry-After", "1"}},
		{name: "another type", body: refusal(`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","retryDelay":"3s"}`)},
		{name: "no duration", body: refusal(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"soon"}`)},
		{name: "below zero", body: refusal(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"-3s"}`)},
		{name: "a year", body: refusal(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31536000s"}`)},
		{name: "an unknown metric", body: refusal(`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"x/tunings"}]}`)},
		{name: "another error", body: `{"error":{"type":"tokens"}}`},
		{name: "an error that is a text", body: `{"error":"no"}`},
		{name: "no JSON", body: `sorry`},
		{name: "too long", body: `{"x":"` + strings.Repeat("a", peekLimit) + `",` + geminiRefusal[1:]},
		{name: "another kind", body: geminiRefusal, header: []string{"Content-Type", "text/html"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := header(append([]string{"Content-Type", "application/json"}, tt.header...)...)
			if len(tt.header) > 0 && tt.header[0] == "Content-Type" {
				h = header(tt.header...)
			}
			var f httpAttempt
			resp := &http.Response{Header: h, Body: io.NopCloser(strings.NewReader(tt.body))}
			f.peekGoogle(resp)
			if f.google == nil {
				f.google = new(googleSaid)
			}
			if f.google.after != tt.after {
				t.Errorf("it asks for %v, want %v", f.google.after, tt.after)
			}
			same(t, f.google.told, tt.told)
			if body, err := io.ReadAll(resp.Body); string(body) != tt.body || err != nil {
				t.Errorf("the caller reads %.60q: %v", body, err)
			}
		})
	}
}

// FuzzGoogle: whatever a refusal says, what is read can be meant.
func FuzzGoogle(f *testing.F) {
	f.Add(geminiRefusal)
	f.Fuzz(func(t *testing.T, body string) {
		var e googleError
		if json.Unmarshal([]byte(body), &e) != nil {
			return
		}
		after, told := e.read()
		if after < 0 || after > mostReset || len(told) > mostQuotas {
			t.Fatalf("%v, %+v", after, told)
		}
		for _, q := range told {
			if q.Left != 0 || !sound(q.Limit) || q.Reset != after || q.Unit == "" {
				t.Fatalf("%+v", q)
			}
		}
	})
}

func TestTheErrorOfAStream(t *testing.T) {
	const overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	const text = "event: content_block_delta\ndata: {\"delta\":{\"text\":\"event: error, overloaded_error\"}}\n\n"
	for _, tt := range []struct {
		name, body string
		found      bool
	}{
		{"Anthropic's", text + overloaded, true},
		{"OpenAI's", "event: error\ndata: {\"type\":\"error\",\"code\":\"server_is_overloaded\"}\n\n", true},
		{"with carriage returns", strings.ReplaceAll(overloaded, "\n", "\r\n"), true},
		{"without a space", "event:error\ndata:{\"error\":{\"type\":\"api_error\"}}\n", true},
		{"text that speaks of one", text + text, false},
		{"of the request", "event: error\ndata: {\"error\":{\"type\":\"invalid_request_error\"}}\n\n", false},
		{"an event after it", "event: error\n\ndata: {\"error\":{\"type\":\"overloaded_error\"}}\n\n", false},
		{"a line that is long", "event: error\ndata: " + strings.Repeat("a", mostLine) + "\"overloaded_error\"\n\n", false},
		{"a line that is cut off", "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\"}}", false},
	} {
		for size := 1; size <= len(tt.body); size += 1 + size/3 {
			var s streamError
			for rest := tt.body; rest != ""; {
				n := min(size, len(rest))
				s.see([]byte(rest[:n]))
				rest = rest[n:]
			}
			if s.found.Load() != tt.found || cap(s.line) > 2*mostLine {
				t.Errorf("%s, in pieces of %d: found %t, %d bytes kept", tt.name, size, s.found.Load(), cap(s.line))
			}
		}
	}
}
