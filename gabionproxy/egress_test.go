package gabionproxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
)

// begin returns a proxy for the text of a file, and the URL of its first listener.
func begin(t *testing.T, text string) (*gabionproxy.Proxy, string) {
	t.Helper()
	file, err := config.Parse("gabion.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p.Handler(file.Proxy.Listen[0].Address))
	t.Cleanup(s.Close)
	return p, s.URL
}

// one is a file with one listener for one server.
func one(to, policy string) string {
	return "version: 1\ndependencies:\n  api: {" + policy + "}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, to: " + to + ", dependency: api}\n"
}

const quick = "retry: {attempts: 3, backoff: {base: 1ms}, budget: off}"

func TestAnAnswerSaysHowManyAttemptsItTook(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if came.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, r.Method+" "+r.URL.RequestURI())
	}))
	defer server.Close()
	_, url := begin(t, one(server.URL+"/base", quick))
	resp, err := http.Get(url + "/v1/a?b=1;c")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || string(body) != "GET /base/v1/a?b=1;c" || resp.Header.Get("Gabion-Attempts") != "3" || resp.Header.Get("Gabion-Reason") != "" {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
}

func TestARefusalIsAProblemWithReasonAndEffect(t *testing.T) {
	_, url := begin(t, one("http://127.0.0.1:1", quick))
	resp, err := http.Post(url+"/v1/a", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var problem map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") != "application/problem+json" || problem["effect"] != "not sent" ||
		problem["reason"] != resp.Header.Get("Gabion-Reason") || resp.Header.Get("Gabion-Attempts") != "3" {
		t.Errorf("%d %v %v", resp.StatusCode, problem, resp.Header)
	}
}

// A 4xx says that the request is wrong, and the same one is no better. Only 408 and 429 speak of the moment.
func TestNo4xxIsSentAgain(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
	}))
	defer server.Close()
	_, url := begin(t, one(server.URL, quick))
	for status := 400; status < 500; status++ {
		want := "1"
		switch status {
		case http.StatusTooManyRequests: // paces all requests after it
			continue
		case http.StatusRequestTimeout:
			want = "3"
		}
		for _, method := range []string{"GET", "PUT", "POST"} {
			came.Store(0)
			req, _ := http.NewRequest(method, url+"/"+strconv.Itoa(status), strings.NewReader("x"))
			req.Header.Set("Idempotency-Key", method+strconv.Itoa(status))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Gabion-Attempts"); resp.StatusCode != status || got != want || strconv.FormatInt(came.Load(), 10) != want {
				t.Errorf("%s %d: %d after %s attempts, and the server got %d requests", method, status, resp.StatusCode, got, came.Load())
			}
		}
	}
}
