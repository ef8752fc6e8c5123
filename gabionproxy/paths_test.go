package gabionproxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// asked sends a request as it is, and returns the status and the body of the answer.
func asked(t *testing.T, at, text string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(c, text)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// What the check of a route sees is what every server sees, or the request is refused.
func TestNoPathLeadsOutOfItsRoute(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }))
	defer server.Close()
	admin := says("admin")
	defer admin.Close()
	r := start(t, fmt.Sprintf("version: 1\ndependencies: {api: {}}\nproxy:\n  listen:\n    - address: 127.0.0.1:0\n      routes:\n"+
		"        - {path: /v1/, to: %s, dependency: api}\n        - {path: /v1/admin/, to: %s, dependency: api}\n        - {path: /über/, to: %[1]s, dependency: api}\n        - {path: /app, to: %[1]s/base/app, dependency: api}\n", server.URL, admin.URL))
	at := r.proxy.Addr("127.0.0.1:0").String()
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v1/x", 200, "/v1/x"},
		{"/v1/a%2Fb?q=..%2F", 200, "/v1/a%2Fb?q=..%2F"},
		{"/v1/a//b", 200, "/v1/a//b"},
		{"/v1/a/../b", 200, "/v1/a/../b"},
		{"/v1/a;v=1/b", 200, "/v1/a;v=1/b"},
		{"/v1/...", 200, "/v1/..."},
		{"/v1/50%25", 200, "/v1/50%25"},
		{"/%C3%BCber/x", 200, "/%C3%BCber/x"},
		{"/v1/admin/x", 200, "admin"},
		{"/v1/../secret", 400, "path_ambiguous"},
		{"/v1/%2e%2e/secret", 400, "path_ambiguous"},
		{"/v1/..%2fsecret", 400, "path_ambiguous"},
		{"/v1/%252e%252e/secret", 400, "path_ambiguous"},
		{"/v1/..;/secret", 400, "path_ambiguous"},
		{`/v1/..\secret`, 400, "path_ambiguous"},
		{"/v1/..%5csecret", 400, "path_ambiguous"},
		{"/v1%2Fx", 400, "path_ambiguous"},
		{"/v1//admin/x", 400, "path_ambiguous"},
		{"/v1/./admin/x", 400, "path_ambiguous"},
		{"/v1/admin%2Fx", 400, "path_ambiguous"},
		{"/other/../v1/x", 400, "path_ambiguous"},
		{"/app/x", 200, "/base/app/app/x"},
		{"/app/../../x", 400, "path_ambiguous"},
		{"/../x", 404, "no_route"},
	} {
		if status, body := asked(t, at, "GET "+c.path+" HTTP/1.1\r\nHost: a\r\n\r\n"); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.path, status, body, c.status, c.want)
		}
	}
	for _, listener := range []string{"to: " + server.URL + "/base, dependency: api", "ingress: {to: \"" + server.URL + "/base\"}"} {
		r := start(t, "version: 1\ndependencies: {api: {}}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, "+listener+"}\n")
		at := r.proxy.Addr("127.0.0.1:0").String()
		for path, want := range map[string]int{"/x": 200, "/": 200, "/a/../b": 200, "/../x": 400, "/a/%2e%2e/..;/x": 400} {
			if status, body := asked(t, at, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); status != want {
				t.Errorf("%s, %s: %d %q", listener, path, status, body)
			}
		}
	}
}

// A target such as a:http://b/secret has no path for the proxy, and one for servers.
func TestATargetWithoutAPathIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI+" "+r.URL.Path) }))
	defer server.Close()
	for _, listener := range []string{
		"to: " + server.URL + "/base, dependency: api", "ingress: {to: \"" + server.URL + "/base\"}", "to: " + server.URL + ", dependency: api", "ingress: {to: \"" + server.URL + "\"}",
	} {
		r := start(t, "version: 1\ndependencies: {api: {}}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, "+listener+"}\n")
		for _, target := range []string{"a:http://b/secret", "http:secret", "a:*"} {
			for _, more := range []string{"", "Connection: Upgrade\r\nUpgrade: x\r\n"} { // by the other way
				status, body := asked(t, r.proxy.Addr("127.0.0.1:0").String(), "GET "+target+" HTTP/1.1\r\nHost: a\r\n"+more+"\r\n")
				if status != 400 {
					t.Errorf("%s, %s: %d %q", listener, target, status, body)
				}
			}
		}
	}
}

func TestTunnelsAreForAForwardProxyAlone(t *testing.T) {
	up := says("up")
	defer up.Close()
	for _, listener := range []string{"to: " + up.URL + ", dependency: api", "ingress: {to: \"" + up.URL + "\"}"} {
		r := start(t, "version: 1\ndependencies: {api: {}}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, "+listener+"}\n")
		if status, body := asked(t, r.proxy.Addr("127.0.0.1:0").String(), "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n"); status != 501 {
			t.Error(listener, status, body)
		}
	}
}

func TestNoWordOfAForwardProxyMeansAllHosts(t *testing.T) {
	registry, err := gabion.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"", "*", "*.", ".", "*.*"} {
		c := config.Proxy{Listen: []config.ProxyListener{{Address: "a", Forward: []config.ProxyForward{{Host: host, Dependency: "d"}}}}}
		if _, err := gabionproxy.New(c, registry, gabionproxy.Options{}); err == nil || !strings.Contains(err.Error(), "is no host") {
			t.Errorf("%q: %v", host, err)
		}
		text := "version: 1\ndependencies: {d: {}}\nproxy: {listen: [{address: \"127.0.0.1:1\", forward: [{host: \"" + host + "\", dependency: d}]}]}\n"
		if _, err := config.Parse("a.yaml", []byte(text)); err == nil {
			t.Errorf("%q is taken", host)
		}
	}
}

func TestAListenerThatIsGoneEndsItsTunnelsInTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, _ := w.(http.Hijacker).Hijack()
		defer c.Close()
		io.Copy(c, rw)
	}))
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	other := "version: 1\ndependencies: {api: {}}\nproxy:\n  drain: 1s\n  listen:\n    - {address: 127.0.0.1:0, to: " + server.URL + ", dependency: api}\n"
	r := start(t, other+"    - {address: \""+address+"\", to: "+server.URL+", dependency: api}\n")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	with := r.proxy.Config()
	without := with
	without.Listen = with.Listen[:1]
	policies := map[string]policy.Policy{"api": {}}
	for _, now := range []config.Proxy{without, with, without} { // the address comes back at once
		if err := r.proxy.Reload(policies, now, false); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Fprintf(c, "hello\n")
	if line, err := in.ReadString('\n'); line != "hello\n" {
		t.Fatal("it was cut at once: ", line, err)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Error("it was not cut in the end:", err)
	}
}

func TestNoPasswordIsShown(t *testing.T) {
	up := says("up")
	defer up.Close()
	for _, store := range []string{"postgres://u:sesame@h/db", "postgres://h/db?sslpassword=sesame&sslmode=require", "redis://:sesame%zz@h", "postgres://a:1/sesame@h/db", "redis://a:1?sesame@h"} {
		c := config.Proxy{Listen: []config.ProxyListener{{Ingress: config.ProxyIngress{Idempotency: config.ProxyIdempotency{Store: store}}}}}
		if text := fmt.Sprint(gabionproxy.Shown(c)); strings.Contains(text, "sesame") || !strings.Contains(text, "://") {
			t.Error(text)
		}
	}
}

func TestALearnedLimitIsShownAsTheFileHasIt(t *testing.T) {
	c := config.Proxy{Listen: []config.ProxyListener{{Ingress: config.ProxyIngress{Admission: config.ProxyAdmission{Limit: policy.Learned}}}}}
	if text := fmt.Sprint(gabionproxy.Shown(c)); text != "map[listen:[map[ingress:map[admission:map[limit:learned]]]]]" {
		t.Error(text)
	}
}

// Drivers quote what they can't read, and the store's name with it.
func TestNoErrorOfAStoreHasItsPassword(t *testing.T) {
	for _, name := range []string{
		"redis://:sesame@cache", "redis://:sesame@cache:port%", "postgres://a:ses%61me@db/x", "postgres://db/x?password=sesame", "nats://sesame@queue", "mysql://a:sesame@db/x",
		"redis://:ses@cache", "postgres://a:1/sesame@db/x",
	} {
		file, err := config.Parse("gabion.yaml", []byte("version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \"http://127.0.0.1:1\", idempotency: {store: \""+name+"\", routes: [POST /orders]}}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		registry, err := gabion.NewRegistry(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, says := range []string{"can't dial " + name, fmt.Sprintf("parse %q: bad", name), "password sesame is wrong", "password ses is wrong"} {
			_, err = gabionproxy.New(file.Proxy, registry, gabionproxy.Options{Store: func(string) (idempotency.Store, error) { return nil, errors.New(says) }})
			if text := fmt.Sprint(err); err == nil || strings.Contains(text, "sesame") && strings.Contains(name, "sesame") || strings.Contains(text, "ses%61me") || strings.Contains(name, ":ses@") && strings.Contains(text, "ses ") {
				t.Errorf("%s: %s", name, text)
			}
		}
		if _, err = gabionproxy.New(file.Proxy, registry, gabionproxy.Options{}); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Error(err)
		}
	}
}
