package gabionhttp

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// The client knows the server's problems by their types, without linking it. Those
// that are not about the key of a request that has one mean what their status means.
func TestProblemTypesAreTheServers(t *testing.T) {
	want := map[idempotency.Problem]gabion.KeyProblem{
		"malformed": gabion.KeyMalformed, "key-expired": gabion.KeyExpired,
		"mismatch": gabion.KeyReused, "in-progress": gabion.KeyInFlight,
		"response-not-retained": gabion.KeyAnswerNotKept, "outcome-unknown": gabion.KeyOutcomeUnknown,
	}
	for problem, p := range want {
		if !slices.Contains(idempotency.Problems(), problem) {
			t.Errorf("the server has no problem %s", problem)
		}
		if got := problemTypes["urn:gabion:idempotency:"+string(problem)]; got != p {
			t.Errorf("%s = %v, want %v", problem, got, p)
		}
	}
	if len(problemTypes) != len(want) {
		t.Errorf("%d types, want %d", len(problemTypes), len(want))
	}
}

// What an answer says of the key is found, and its body is the same as before,
// whatever it is.
func TestPeekLeavesTheBodyAsItWas(t *testing.T) {
	const problem, plain = "application/problem+json", "application/json; charset=utf-8"
	const mismatch = `{"type":"urn:gabion:idempotency:mismatch","title":"x","status":422}`
	errCut := errors.New("cut off")
	tests := []struct {
		name   string
		code   int
		header []string
		body   io.Reader
		text   string
		want   gabion.KeyProblem
		unread bool
	}{
		{"a problem", 422, []string{"Content-Type", problem}, nil, mismatch, gabion.KeyReused, false},
		{"byte by byte", 422, []string{"Content-Type", problem}, iotest.OneByteReader(strings.NewReader(mismatch)), mismatch, gabion.KeyReused, false},
		{"with more behind it", 409, []string{"Content-Type", problem}, nil, mismatch + strings.Repeat(" more", 9999), gabion.KeyReused, false},
		{"as plain JSON", 422, []string{"Content-Type", plain}, nil, mismatch, gabion.KeyReused, false},
		{"Stripe: used for something else", 400, []string{"Content-Type", plain}, nil, `{"error":{"type":"idempotency_error","message":"Keys…"}}`, gabion.KeyReused, false},
		{"Stripe: in use", 409, []string{"Content-Type", plain}, nil, `{"error":{"code":"idempotency_key_in_use","type":"idempotency_error"}}`, gabion.KeyInFlight, false},
		{"Stripe: any other error", 400, []string{"Content-Type", plain}, nil, `{"error":{"type":"invalid_request_error"}}`, 0, false},
		{"members of other kinds", 409, []string{"Content-Type", problem}, nil, `{"error":"no","original_status":"201","type":"urn:gabion:idempotency:outcome-unknown"}`, gabion.KeyOutcomeUnknown, false},
		{"a problem of ours that is not about the key", 400, []string{"Content-Type", problem}, nil, `{"type":"urn:gabion:idempotency:body-unread"}`, 0, false},
		{"a type that is not ours", 422, []string{"Content-Type", problem}, nil, `{"type":"https://example.com/mismatch"}`, 0, false},
		{"the type deep inside", 422, []string{"Content-Type", problem}, nil, `{"detail":{"type":"urn:gabion:idempotency:mismatch"}}`, 0, false},
		{"no JSON", 422, []string{"Content-Type", problem}, nil, "<html>", 0, false},
		{"half a value", 422, []string{"Content-Type", problem}, nil, mismatch[:30], 0, false},
		{"empty", 422, []string{"Content-Type", problem}, nil, "", 0, false},
		{"too long", 422, []string{"Content-Type", problem}, nil, `{"title":"` + strings.Repeat("x", peekLimit) + `","type":"urn:gabion:idempotency:mismatch"}`, 0, false},
		{"broken off", 409, []string{"Content-Type", problem}, &cutOff{Reader: strings.NewReader(mismatch[:30]), err: errCut}, mismatch[:30], 0, true},
		{"not JSON by its type", 422, []string{"Content-Type", "text/plain"}, nil, mismatch, 0, false},
		{"packed", 422, []string{"Content-Type", problem, "Content-Encoding", "gzip"}, nil, mismatch, 0, false},
		{"a success", 200, []string{"Content-Type", problem}, nil, mismatch, 0, false},
		{"a server's failure", 503, []string{"Content-Type", problem}, nil, mismatch, 0, false},
	}
	for _, tt := range tests {
		for _, withKey := range []bool{true, false} {
			f := &httpAttempt{of: &exchange{rules: new(policy.HTTP)}}
			f.out.Header = http.Header{}
			if withKey {
				f.out.Header.Set("Idempotency-Key", "k")
			}
			src := tt.body
			if src == nil {
				src = strings.NewReader(tt.text)
			}
			if !withKey && tt.body != nil {
				continue // its reader is used up
			}
			body := &closing{Reader: src}
			f.resp = &http.Response{StatusCode: tt.code, Header: header(tt.header...), Body: body, Request: &f.out}
			f.peek(f.resp)
			var got gabion.KeyProblem
			if f.said != nil {
				got = f.said.Problem
			}
			if want := map[bool]gabion.KeyProblem{true: tt.want}[withKey]; got != want || f.unread != (withKey && tt.unread) {
				t.Errorf("%s, key %v: %v, unread %v", tt.name, withKey, got, f.unread)
			}
			text, err := io.ReadAll(f.resp.Body)
			if string(text) != tt.text || tt.unread != errors.Is(err, errCut) {
				t.Errorf("%s, key %v: the body is now %q, %v", tt.name, withKey, text, err)
			}
			if f.resp.Body.Close(); body.closed != 1 {
				t.Errorf("%s: closed %d times", tt.name, body.closed)
			}
			if f.unread && f.answered(atNoon).Effect != policy.UnknownEffect {
				t.Errorf("%s: nothing is known, yet the effect is not unknown", tt.name)
			}
		}
	}
}

// cutOff ends with an error that it tells once, as a body may.
type cutOff struct {
	io.Reader
	err error
}

func (c *cutOff) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF && c.err != nil {
		err, c.err = c.err, nil
	}
	return n, err
}

type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

// An endless answer is read up to a bound, and a slow one no further than its JSON.
func TestPeekIsBounded(t *testing.T) {
	read := 0
	endless := reader(func(b []byte) (int, error) {
		n := copy(b, strings.Repeat("[", len(b)))
		read += n
		return n, nil
	})
	f := &httpAttempt{of: &exchange{rules: new(policy.HTTP)}}
	f.out.Header = header("Idempotency-Key", "k")
	f.resp = &http.Response{StatusCode: 409, Header: header("Content-Type", "application/json"), Body: io.NopCloser(endless), Request: &f.out}
	if f.peek(f.resp); read > peekLimit || f.said != nil {
		t.Errorf("%d bytes read, %v", read, f.said)
	}
	r, w := io.Pipe() // never ends
	go w.Write([]byte(`{"type":"urn:gabion:idempotency:outcome-unknown"}`))
	f = &httpAttempt{of: &exchange{rules: new(policy.HTTP)}}
	f.out.Header = header("Idempotency-Key", "k")
	f.resp = &http.Response{StatusCode: 409, Header: header("Content-Type", "application/json"), Body: r, Request: &f.out}
	if f.peek(f.resp); f.said == nil || f.said.Problem != gabion.KeyOutcomeUnknown {
		t.Errorf("said %v", f.said)
	}
}

func FuzzPeek(f *testing.F) {
	f.Add(409, "application/json", `{"type":"urn:gabion:idempotency:mismatch","error":{"code":"idempotency_key_in_use"}}`)
	f.Add(422, "application/problem+json", `{"type":1`)
	f.Fuzz(func(t *testing.T, code int, kind, text string) {
		fl := &httpAttempt{of: &exchange{rules: new(policy.HTTP)}}
		fl.out.Header = header("Idempotency-Key", "k")
		fl.resp = &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text)), Request: &fl.out}
		fl.peek(fl.resp)
		if got, err := io.ReadAll(fl.resp.Body); string(got) != text || err != nil {
			t.Errorf("%q became %q, %v", text, got, err)
		}
		if fl.unread {
			t.Error("a whole body was not read")
		}
	})
}

func TestSameHost(t *testing.T) {
	tests := []struct {
		from, to string
		want     bool
	}{
		{"http://a/x", "http://a/y?z", true},
		{"http://a", "http://A:80", true},
		{"https://a:443", "https://a", true},
		{"http://a", "https://a", true},
		{"https://a", "http://a", false},
		{"http://a:8080", "http://a:8081", false},
		{"http://a:8080", "https://a:8443", false},
		{"http://a:443", "http://a", false},
		{"http://a", "http://b", false},
		{"http://a", "http://b.a", false},
		{"http://b.a", "http://a", false},
		{"http://[::1]:80", "http://[::1]", true},
	}
	for _, tt := range tests {
		from, _ := url.Parse(tt.from)
		to, _ := url.Parse(tt.to)
		if got := sameKeys(from, to, nil); got != tt.want {
			t.Errorf("%s to %s: %v", tt.from, tt.to, got)
		}
	}
}

// A key that came back to its host by way of another has been seen there.
func TestAKeyThatStrayedOnceHasStrayed(t *testing.T) {
	at := func(to string, from *http.Request) *http.Request {
		req, _ := http.NewRequest("POST", to, nil)
		if from != nil {
			req.Response = &http.Response{Request: from}
		}
		return req
	}
	lost := at("http://a", nil)
	lost.Response = &http.Response{}
	tests := []struct {
		name string
		req  *http.Request
		want bool
	}{
		{"no redirect", at("http://a", nil), false},
		{"same host", at("http://a/2", at("http://a/1", at("http://a", nil))), false},
		{"another", at("http://b", at("http://a", nil)), true},
		{"and back", at("http://a", at("http://b", at("http://a", nil))), true},
		{"and on", at("http://b/2", at("http://b/1", at("http://a", nil))), true},
		{"from an unknown place", lost, true},
	}
	for _, tt := range tests {
		if got := strayed(tt.req, nil); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
