package gabionproxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A program may have keys of its own, or be another proxy: what it says of them is passed on as it is.
func TestAProblemOfTheProgramStaysAsItIs(t *testing.T) {
	const told = `{"type":"urn:gabion:idempotency:outcome-unknown","title":"t","status":409,"detail":"ask us","effect":"may have happened"}` + "\n"
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, told)
	}))
	defer program.Close()
	url := before(t, program.URL, strings.Replace(orders, "]", "], optional: true", 1))
	for _, c := range []struct{ fact, key string }{{"without a key", ""}, {"with one", "k"}, {"again", "k"}} {
		status, text, _ := order(t, url+"/orders", c.key, "a")
		if status != http.StatusConflict || text != told || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %q", c.fact, status, text)
		}
	}
}

func TestAProblemSaysThatTheConnectionWasRefused(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	const refused = "connection refused: nothing listens where the proxy sends this: start the server, or correct its address in the proxy's file"
	_, policed := begin(t, one(closed.URL, quick))
	for fact, c := range map[string]struct{ url, reason string }{
		"by a policy":      {policed, "attempts_exhausted"},
		"before a program": {before(t, closed.URL, "deadlines: true"), "program_unreachable"},
	} {
		t.Run(fact, func(t *testing.T) {
			req, _ := http.NewRequest(http.MethodPost, c.url, nil)
			_, text := answer(t, req)
			var p struct{ Reason, Detail string }
			if err := json.Unmarshal([]byte(text), &p); err != nil || p.Reason != c.reason || p.Detail != refused {
				t.Errorf("%s: %s", err, text)
			}
		})
	}
}
