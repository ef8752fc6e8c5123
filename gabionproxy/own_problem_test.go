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
