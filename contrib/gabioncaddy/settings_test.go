package gabioncaddy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gabion-go/gabion/gabionproxy"
)

func TestMistakesAreNamed(t *testing.T) {
	const to = "reverse_proxy http://127.0.0.1:1 {\n"
	for _, c := range []struct{ fact, site, says string }{
		{"an argument", to + "transport gabion api\n}", "transport gabion takes no arguments: write config and dependency into its block, at Caddyfile:12"},
		{"an unknown key", to + "transport gabion {\nretries 3\n}\n}", `transport gabion has no "retries": it has config, dependency and http; settings of connections, such as tls, go into http, at Caddyfile:13`},
		{"a key without its word", to + "transport gabion {\nconfig\n}\n}", "config takes one argument, at Caddyfile:13"},
		{"a key with two words", to + "transport gabion {\nconfig a b\n}\n}", "config takes one argument, at Caddyfile:13"},
		{"a key twice", to + "transport gabion {\nconfig a\nconfig b\n}\n}", "config is there twice, at Caddyfile:14"},
		{"no file", to + "transport gabion {\ndependency api\n}\n}", "needs config, which is gabion's file"},
		{"no dependency", to + "transport gabion {\nconfig FILE\n}\n}", "needs dependency, which is a name in gabion's file"},
		{"a key that transport http does not have", to + "transport gabion {\nconfig FILE\ndependency api\nhttp {\nwrong\n}\n}\n}", "unrecognized subdirective wrong, at Caddyfile:16"},
		{"a file that is not there", to + "transport gabion {\nconfig FILE.none\ndependency api\n}\n}", "no such file"},
		{"a dependency that the file does not have", to + "transport gabion {\nconfig FILE\ndependency other\n}\n}", `has no dependency "other"; it has ["api"]`},
		{"retries of Caddy's own", to + "lb_retries 3\nUSE\n}", "would multiply the attempts of transport gabion"},
		{"retries of Caddy's own, by time", to + "lb_try_duration 5s\nUSE\n}", "would multiply the attempts of transport gabion"},
		{"failures that Caddy counts", to + "fail_duration 5s\nUSE\n}", "passive health checks"},
		{"names of clients in place of servers", to + "transport gabion {\nconfig FILE\ndependency api\nhttp {\nproxy_protocol v2\n}\n}\n}", "proxy_protocol is not supported"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := newSite(t, policies)
			if err := s.load(c.site); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestAFileWithMistakesIsRefused(t *testing.T) {
	s := newSite(t, "version: 1\ndependencies:\n  api: {retry: {tries: 3}}\n")
	if err := s.load("reverse_proxy http://127.0.0.1:1 {\nUSE\n}"); err == nil || !strings.Contains(err.Error(), "tries") || !strings.Contains(err.Error(), ":3:") {
		t.Errorf("got %v, want the line of the mistake", err)
	}
	s.write("version: 1\ndependencies:\n  api: {preset: external-api, endpoints: {list: [a, b]}}\n")
	if err := s.load("reverse_proxy http://127.0.0.1:1 {\nUSE\n}"); err == nil || !strings.Contains(err.Error(), "has endpoints of its own") {
		t.Errorf("got %v", err)
	}
}

// attemptsOf asks a server that fails until gabion has given up, and returns how many requests that took.
func attemptsOf(s *site) string {
	resp, _ := s.ask("GET", "/", "")
	return resp.Header.Get(gabionproxy.HeaderAttempts)
}

func TestChangesOfTheFile(t *testing.T) {
	var seen atomic.Int32
	to := server(t, failing(1<<30, 503, &seen))
	s := newSite(t, policies)
	site := "reverse_proxy " + to + " {\nUSE\n}"
	s.mustLoad(site)
	if n := attemptsOf(s); n != "3" {
		t.Fatalf("%s attempts, want 3", n)
	}
	t.Run("a reload of Caddy puts them into force", func(t *testing.T) {
		s.write(strings.Replace(policies, "attempts: 3", "attempts: 2", 1))
		s.mustLoad(site)
		if n := attemptsOf(s); n != "2" {
			t.Errorf("%s attempts, want 2", n)
		}
	})
	t.Run("a reload of Caddy says what is wrong with them, and changes nothing", func(t *testing.T) {
		s.write(strings.Replace(policies, "attempts: 3", "attempts: none", 1))
		if err := s.load(site); err == nil {
			t.Error("no error")
		}
		if n := attemptsOf(s); n != "2" {
			t.Errorf("%s attempts, want 2", n)
		}
	})
	t.Run("the watch finds them without a reload", func(t *testing.T) {
		s.write(strings.Replace(policies, "attempts: 3", "attempts: 1", 1))
		for end := time.Now().Add(20 * time.Second); attemptsOf(s) != "1"; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the file's last version is not in force")
			}
		}
	})
}

// The file is written before Caddy is reloaded, and then both name other dependencies than before.
func TestADependencyLeavesTheFileAndCaddyInOneReload(t *testing.T) {
	const two = policies + "  other: {preset: external-api, breaker: off, timeout: {call: 5s}, retry: {attempts: 2, budget: off, backoff: {base: 1ms, cap: 2ms}}}\n"
	of := func(path, dependency, to string) string {
		return "reverse_proxy " + path + " " + to + " {\ntransport gabion {\nconfig FILE\ndependency " + dependency + "\n}\n}\n"
	}
	lacks := strings.Replace(strings.Replace(two, "  api:", "  third:", 1), "attempts: 2", "attempts: 1", 1)
	var seen atomic.Int32
	to := server(t, failing(1<<30, 503, &seen))
	first := strings.Replace(two, "attempts: 2", "attempts: 5", 1)
	s := newSite(t, first)
	s.log = "file " + filepath.Join(s.dir, "log")
	until := func(fact string, so func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !so(); <-time.After(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(fact)
			}
		}
	}
	attempts := func(path string) string {
		resp, _ := s.ask("GET", path, "")
		return resp.Header.Get(gabionproxy.HeaderAttempts)
	}
	s.mustLoad(of("/a", "api", to) + of("/other", "other", to))
	s.write(two)
	s.mustLoad(of("/a", "api", to) + of("/other", "other", to))
	s.write(lacks)
	until("the watch took a file that lacks what a site uses", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return strings.Contains(string(text), "not put into force")
	})
	if err := s.load(of("/other", "other", to) + of("/a", "api", to)); err == nil || !strings.Contains(err.Error(), `no dependency "api"`) {
		t.Errorf("Caddy still names it: got %v", err)
	}
	if a, b := attempts("/a"), attempts("/other"); a != "3" || b != "2" {
		t.Errorf("after a reload that failed: %s and %s attempts, want 3 and 2", a, b)
	}
	if err := s.load(of("/other", "other", to) + of("/c", "third", to)); err != nil {
		t.Fatal("Caddy does not name it any more:", err)
	}
	if b, c := attempts("/other"), attempts("/c"); b != "1" || c != "3" {
		t.Errorf("after the reload: %s and %s attempts, want 1 and 3", b, c)
	}
	s.mustLoad(of("/other", "other", to))
	s.write(first) // which the watch took
	until("what is written afterwards is not in force", func() bool { return attempts("/other") == "5" })
}

func TestUpstreamsWithTLS(t *testing.T) {
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Host + " " + r.Proto)) }))
	t.Cleanup(up.Close)
	s := newSite(t, policies)
	s.mustLoad("reverse_proxy " + up.URL + " {\ntransport gabion {\nconfig FILE\ndependency api\nhttp {\ntls_insecure_skip_verify\n}\n}\n}")
	host := strings.TrimPrefix(up.URL, "https://")
	if resp, body := s.ask("GET", "/", ""); resp.StatusCode != 200 || body != host+" HTTP/1.1" || resp.Header.Get(gabionproxy.HeaderAttempts) != "1" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	s.mustLoad("reverse_proxy " + up.URL + " {\nUSE\n}")
	if resp, body := s.ask("GET", "/", ""); resp.StatusCode < 500 {
		t.Errorf("a server that is not verified got a request: %d %q", resp.StatusCode, body)
	}
}

func TestActiveHealthChecksAreNoCalls(t *testing.T) {
	checked := make(chan struct{}, 100)
	to := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			select {
			case checked <- struct{}{}:
			default:
			}
		}
		w.WriteHeader(500)
	})
	s := newSite(t, broken)
	s.mustLoad("reverse_proxy " + to + " {\nhealth_uri /health\nhealth_interval 20ms\nhealth_status 5xx\nUSE\n}")
	for range 3 {
		<-checked
	}
	if resp, _ := s.ask("GET", "/", ""); resp.Header.Get(gabionproxy.HeaderAttempts) != "1" {
		t.Errorf("checks opened the breaker: %d, headers %v", resp.StatusCode, resp.Header)
	}
	for range 3 {
		<-checked // also with an open breaker
	}
	if resp, _ := s.ask("GET", "/", ""); resp.Header.Get(gabionproxy.HeaderReason) != "breaker_open" {
		t.Errorf("%d, headers %v", resp.StatusCode, resp.Header)
	}
}

func TestSettingsInJSON(t *testing.T) {
	var seen atomic.Int32
	to := server(t, failing(1, 503, &seen))
	s := newSite(t, policies)
	t.Setenv("POLICIES", s.file)
	s.at = s.socket()
	err := caddy.Load([]byte(`{"admin": {"disabled": true, "config": {"persist": false}}, "logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
		"apps": {"http": {"servers": {"one": {"listen": ["unix/`+s.at+`"], "automatic_https": {"disable": true}, "routes": [{"handle": [{"handler": "reverse_proxy",
		"upstreams": [{"dial": "`+strings.TrimPrefix(to, "http://")+`"}],
		"transport": {"protocol": "gabion", "config": "{env.POLICIES}", "dependency": "api", "http": {"dial_timeout": "1s"}}}]}]}}}}}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if resp, body := s.ask("GET", "/", ""); resp.StatusCode != 200 || resp.Header.Get(gabionproxy.HeaderAttempts) != "2" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}
