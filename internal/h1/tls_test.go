package h1_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/h1"
)

// counted is a RoundTripper that counts.
type counted struct {
	http.RoundTripper
	n atomic.Int32
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// secured is a server with TLS, and a Transport that trusts it.
func secured(t *testing.T, h2 bool) (s *httptest.Server, rt *h1.Transport, next *counted, dialled *atomic.Int32) {
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != max(r.ContentLength, 0) {
			t.Errorf("%d bytes of %d came", n, r.ContentLength)
		}
		io.WriteString(w, "ok")
	}))
	s.EnableHTTP2 = h2
	s.StartTLS()
	t.Cleanup(s.Close)
	next, dialled = &counted{RoundTripper: s.Client().Transport}, new(atomic.Int32)
	rt = &h1.Transport{Next: next, MostIdle: 2, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	t.Cleanup(rt.CloseIdleConnections)
	return s, rt, next, dialled
}

func exchange(t *testing.T, rt http.RoundTripper, method, url string, body []byte) *http.Response {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "ok" {
		t.Fatalf("%q, %v", text, err)
	}
	return resp
}

func TestAHostThatSpeaksTLSAndHTTP1IsAskedHereFromTheSecondRequestOn(t *testing.T) {
	s, rt, next, dialled := secured(t, false)
	for i := range 4 {
		resp := exchange(t, rt, http.MethodPost, s.URL, make([]byte, 100_000*i))
		if resp.TLS == nil || resp.TLS.HandshakeComplete != true {
			t.Errorf("answer %d does not say that it came by TLS", i)
		}
	}
	if next.n.Load() != 1 || dialled.Load() != 1 {
		t.Errorf("%d requests went another way, and %d connections were opened here, want 1 and 1", next.n.Load(), dialled.Load())
	}
}

func TestAHostThatSpeaksHTTP2IsAskedTheOtherWay(t *testing.T) {
	s, rt, next, dialled := secured(t, true)
	for range 3 {
		if resp := exchange(t, rt, http.MethodGet, s.URL, nil); resp.ProtoMajor != 2 {
			t.Errorf("the answer came by %s", resp.Proto)
		}
	}
	if next.n.Load() != 3 || dialled.Load() != 0 {
		t.Errorf("%d requests went another way, and %d connections were opened here, want 3 and 0", next.n.Load(), dialled.Load())
	}
}

func TestACertificateThatIsNotTrustedGetsNoRequest(t *testing.T) {
	s, rt, next, _ := secured(t, false)
	rt.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	exchange(t, rt, http.MethodGet, s.URL, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) || next.n.Load() != 1 {
		t.Errorf("got %v, and %d requests went another way", err, next.n.Load())
	}
}

func TestAHandshakeThatNeverEndsIsGivenUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, rt, next, _ := secured(t, false)
	next.RoundTripper = answersOnce{}
	rt.TLSTime = 50 * time.Millisecond
	for range 2 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+silent.Addr().String(), nil)
		var resp *http.Response
		if resp, err = rt.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || t.Context().Err() != nil {
		t.Errorf("got %v, want a timeout that is not the caller's", err)
	}
}

// answersOnce is the way by which a host is known to speak HTTP/1.1.
type answersOnce struct{}

func (answersOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Request: req}, nil
}
