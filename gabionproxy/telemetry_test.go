package gabionproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabionproxy"
)

// watching is a Telemetry that keeps what it hears.
type watching struct {
	ended   chan gabionproxy.Answer // of each request
	mu      sync.Mutex
	sent    []string
	back    []string
	flushed time.Time // until when
}

func watches() *watching { return &watching{ended: make(chan gabionproxy.Answer, 10)} }

type mark struct{}

func (w *watching) Serving(r *http.Request) (context.Context, func(gabionproxy.Answer)) {
	return context.WithValue(r.Context(), mark{}, r.Method), func(a gabionproxy.Answer) {
		w.ended <- a
	}
}

func (w *watching) Sending(dependency string, r *http.Request) (*http.Request, func(*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of, _ := r.Context().Value(mark{}).(string)
	w.sent = append(w.sent, dependency+" "+of)
	out := r.Clone(r.Context())
	out.Header.Set("X-Number", strconv.Itoa(len(w.sent)))
	if of == http.MethodDelete {
		return out, nil
	}
	return out, func(resp *http.Response, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.back = append(w.back, err.Error())
			return
		}
		w.back = append(w.back, resp.Status[:3])
	}
}

func (w *watching) Flush(ctx context.Context) { w.flushed, _ = ctx.Deadline() }

func TestTelemetryIsToldOfRequestsAndAttempts(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/cut":
			w.Header().Set("Content-Length", "5")
		case r.Header.Get("X-Number") == "1":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, "ok")
	}))
	defer up.Close()
	w := watches()
	begun := time.Now()
	r := startWith(t, one(up.URL, "")+"  drain: 10s\n", gabionproxy.Options{Telemetry: w})
	client := &http.Transport{DisableKeepAlives: true} // on a connection that was kept it would send again what was cut
	base := "http://" + r.proxy.Addr("127.0.0.1:0").String()
	for _, c := range []struct {
		method, path string
		want         gabionproxy.Answer
	}{
		{"GET", "/", gabionproxy.Answer{Status: 200, Bytes: 2, Attempts: "2"}},
		{"DELETE", "/", gabionproxy.Answer{Status: 200, Bytes: 2, Attempts: "1"}},
		{"GET", "/cut", gabionproxy.Answer{Status: 200, Bytes: 2, Attempts: "1", Cut: true}},
	} {
		req, _ := http.NewRequest(c.method, base+c.path, nil)
		if resp, err := client.RoundTrip(req); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if got := <-w.ended; got != c.want {
			t.Errorf("%s %s: %+v", c.method, c.path, got)
		}
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	name := strings.Fields(w.sent[0])[0]
	if want := []string{name + " GET", name + " GET", name + " DELETE", name + " GET"}; !slices.Equal(w.sent, want) || !slices.Equal(w.back, []string{"503", "200", "200"}) {
		t.Errorf("sent %q, back %q", w.sent, w.back)
	}
	if w.flushed.Before(begun.Add(9*time.Second)) || w.flushed.After(time.Now().Add(10*time.Second)) {
		t.Errorf("flushed until %v after the beginning", w.flushed.Sub(begun))
	}
}

func TestATunnelHasAStatus(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	host, port, _ := strings.Cut(strings.TrimPrefix(up.URL, "http://"), ":")
	w := watches()
	r := startWith(t, "version: 1\ndependencies: {web: {}}\nproxy: {listen: [{address: 127.0.0.1:0, forward: [{host: "+host+", ports: [\""+port+"\"], dependency: web}]}]}\n", gabionproxy.Options{Telemetry: w})
	c, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "CONNECT %[1]s:%[2]s HTTP/1.1\r\nHost: %[1]s:%[2]s\r\n\r\n", host, port)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", line, err)
	}
	c.Close()
	if got := <-w.ended; got.Status != 200 || got.Attempts != "1" || got.Cut {
		t.Errorf("%+v", got)
	}
}

func TestWithoutTelemetryNothingLiesBetween(t *testing.T) {
	if got := gabionproxy.Sends(gabionproxy.Options{}, http.DefaultTransport); got != http.DefaultTransport {
		t.Errorf("%T", got)
	}
}
