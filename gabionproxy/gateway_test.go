package gabionproxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
)

// gatewayTo is a ReverseProxy that sends its requests with a Transport.
func gatewayTo(t *testing.T, server http.Handler, rules string) (gate *httptest.Server, p *gabionproxy.Proxy, way http.RoundTripper, told *watching) {
	t.Helper()
	up := httptest.NewServer(server)
	t.Cleanup(up.Close)
	file, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  api: {"+rules+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	told = watches()
	if p, err = gabionproxy.New(config.Proxy{}, registry, gabionproxy.Options{Telemetry: told}); err != nil {
		t.Fatal(err)
	}
	if way, err = gabionproxy.NewTransport(p, "api", &http.Transport{DisableCompression: true}); err != nil {
		t.Fatal(err)
	}
	to, _ := url.Parse(up.URL)
	gate = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: way})
	t.Cleanup(gate.Close)
	return gate, p, way, told
}

// empty wants a proxy to have nothing left of requests. A server whose Close has returned has none.
func empty(t *testing.T, gate *httptest.Server, p *gabionproxy.Proxy) {
	t.Helper()
	gate.Close()
	if s := p.Stats(); s.InFlight != 0 || s.BodyBytes != 0 {
		t.Errorf("something is left of a request: %+v", s)
	}
}

func TestAGatewaysBodiesAreSentAgain(t *testing.T) {
	server := &sums{fails: 2}
	gate, p, _, told := gatewayTo(t, server, quick)
	resp := post(t, gate.URL, io.MultiReader(strings.NewReader("an order")))
	if resp.StatusCode != 200 || resp.Header.Get(gabionproxy.HeaderAttempts) != "3" {
		t.Errorf("got %d, headers %v", resp.StatusCode, resp.Header)
	}
	for _, sum := range server.got {
		if sum != server.got[0] {
			t.Errorf("bodies differ: %v", server.got)
		}
	}
	if s := p.Stats(); s.BodiesRepeated != 2 || s.Requests != 1 {
		t.Errorf("counted %+v", s)
	}
	empty(t, gate, p)
	if want := []string{"api ", "api ", "api "}; !slices.Equal(told.sent, want) || !slices.Equal(told.back, []string{"503", "503", "200"}) || len(told.ended) > 0 {
		t.Errorf("the telemetry was told of %q and %q, and of %d requests", told.sent, told.back, len(told.ended))
	}
}

func TestAGatewaysRefusalsAreAnswers(t *testing.T) {
	late := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() })
	gate, p, _, _ := gatewayTo(t, late, quick)
	r, _ := http.NewRequestWithContext(t.Context(), "PUT", gate.URL, strings.NewReader("an order"))
	r.Header.Set("X-Request-Deadline-Ms", "30")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusGatewayTimeout || resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), `"effect":"may have happened"`) {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if s := p.Stats(); s.Refused != 1 {
		t.Errorf("counted %+v", s)
	}
	empty(t, gate, p)
}

func TestAGatewayWhoseClientIsGoneGetsAnError(t *testing.T) {
	reached := make(chan struct{})
	gate, p, way, _ := gatewayTo(t, http.NotFoundHandler(), quick)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { close(reached); <-r.Context().Done() }))
	defer up.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	r, _ := http.NewRequestWithContext(ctx, "GET", up.URL, nil)
	if resp, err := way.RoundTrip(r); !errors.Is(err, context.Canceled) { //nolint:bodyclose // it has no body
		t.Errorf("got %v, %v", resp, err)
	}
	empty(t, gate, p)
}

func TestATransportNeedsADependency(t *testing.T) {
	_, p, _, _ := gatewayTo(t, http.NotFoundHandler(), quick)
	if _, err := gabionproxy.NewTransport(p, "other", http.DefaultTransport); err == nil || !strings.Contains(err.Error(), "known are api") {
		t.Errorf("an unknown dependency: %v", err)
	}
	if _, err := gabionproxy.NewTransport(p, "api", nil); err == nil {
		t.Error("nothing below: no error")
	}
}
