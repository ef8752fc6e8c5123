package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

func TestTheFirstProgram(t *testing.T) {
	var came atomic.Int64
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if came.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer shop.Close()
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("shop", policy.Policy{})}}
	defer client.CloseIdleConnections()

	var out bytes.Buffer
	if err := get(t.Context(), &out, client, shop.URL); err != nil || out.String() != "200 OK, attempts: 2\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

// docs/get-started.md shows what an error says.
func TestNobodyIsThere(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("shop", policy.Policy{})}}
	err = get(t.Context(), &bytes.Buffer{}, client, "http://"+nobody.Addr().String())
	for _, part := range []string{"shop: budget_exhausted", "after 2 attempts", "effect: none", "connection refused", "what to do:", "docs/reasons.md#budget_exhausted"} {
		if err == nil || !strings.Contains(explain(err), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}
