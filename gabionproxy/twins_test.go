package gabionproxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNoCallerSpeaksForAnother(t *testing.T) {
	seen := make(chan http.Header, 1)
	program := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	defer program.Close()
	url := before(t, program.URL, "idempotency: {store: gabion.db, routes: [POST /orders], scope_header: x-account}")
	for _, c := range []struct {
		name   string
		scope  []string
		status int
	}{{"its own", []string{"a"}, 200}, {"none", nil, 400}, {"two", []string{"b", "a"}, 400}} {
		req, _ := http.NewRequest("POST", url+"/orders", nil)
		req.Header = http.Header{"Idempotency-Key": {"k" + c.name[:3]}, "X-Account": c.scope, "X_account": {"b"}, "X_FORWARDED_FOR": {"1.2.3.4"}, "Idempotency_Key": {"other"}, "X_Own": {"1"}}
		status, body := answer(t, req)
		if status >= 400 != (c.status >= 400) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if status >= 400 {
			continue
		}
		h := <-seen
		for name := range h {
			if strings.Contains(name, "_") && name != "X_own" {
				t.Errorf("the program saw %s", name)
			}
		}
		if h.Get("X_own") != "1" || h.Get("X-Account") != "a" || h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("Idempotency-Key") != "k"+c.name[:3] {
			t.Error(h)
		}
	}
}

// A client must not name such headers as those of its connection alone, which a proxy would remove.
func TestHeadersThatTheProxyGoesByReachTheProgram(t *testing.T) {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["Idempotency-Key"], r.Header["X-Account"], r.Header["X-Other"], r.Header["X-Rewrite-Url"])
	}))
	defer program.Close()
	at := strings.TrimPrefix(before(t, program.URL, "idempotency: {store: gabion.db, routes: [POST /orders], scope_header: X-Account}"), "http://")
	code, body := asked(t, at, "POST /orders HTTP/1.1\r\nHost: h\r\nConnection: close, Idempotency-Key, X-Account, X-Other, X-Rewrite-Url\r\n"+
		"Idempotency-Key: k\r\nX-Account: a\r\nX-Other: o\r\nX-Rewrite-Url: /\r\nContent-Length: 1\r\n\r\nx")
	if code != 200 || body != "[k] [a] [] []" {
		t.Error(code, body)
	}
}
