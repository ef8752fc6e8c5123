package gabionproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
)

// running is a Run whose file can be changed.
type running struct {
	t     *testing.T
	path  string
	proxy *gabionproxy.Proxy
	deps  *gabion.Registry
	now   chan os.Signal
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, text string) *running {
	t.Helper()
	return startWith(t, text, gabionproxy.Options{})
}

func startWith(t *testing.T, text string, o gabionproxy.Options) *running {
	t.Helper()
	r := &running{t: t, path: filepath.Join(t.TempDir(), "gabion.yaml"), now: make(chan os.Signal, 1), ended: make(chan error, 1)}
	r.write(text)
	file, err := config.Load(r.path)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.deps = stop, registry
	begun := make(chan *gabionproxy.Proxy, 1)
	go func() {
		r.ended <- gabionproxy.Run(ctx, file, registry, r.now, o, func(p *gabionproxy.Proxy) { begun <- p })
	}()
	select {
	case r.proxy = <-begun:
	case err := <-r.ended:
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return r
}

func (r *running) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload signals that the file changed, and waits until it was looked at.
func (r *running) reload() {
	r.t.Helper()
	before := r.proxy.Stats()
	r.now <- syscall.SIGHUP
	for s := before; s.Reloads+s.BadReloads == before.Reloads+before.BadReloads; s = r.proxy.Stats() {
		time.Sleep(time.Millisecond)
	}
}

func (r *running) url(address string) string { return "http://" + r.proxy.Addr(address).String() }

func (r *running) admin(method, path string) (int, string) {
	r.t.Helper()
	req, _ := http.NewRequest(method, "http://"+r.proxy.AdminAddr()+path, nil)
	return answer(r.t, req)
}

func answer(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest("GET", url, nil)
	return answer(t, req)
}

func says(text string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
}

const operated = "  admin: {address: 127.0.0.1:0}\n"

func TestAReloadKeepsWhatDependenciesKnow(t *testing.T) {
	var works atomic.Bool
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			w.WriteHeader(500)
		}
	}))
	defer down.Close()
	other := says("other")
	defer other.Close()
	policy := "retry: off, breaker: {consecutive: 3}"
	r := start(t, one(down.URL, policy)+operated)
	url := r.url("127.0.0.1:0")
	for range 4 {
		get(t, url)
	}
	if code, body := get(t, url); code != 503 || !strings.Contains(body, "breaker_open") {
		t.Fatal(code, body)
	}
	r.write(one(down.URL, policy+", timeout: {call: 9s}") + operated)
	r.reload()
	d, err := r.deps.Get("api")
	if err != nil {
		t.Fatal(err)
	}
	if s := d.Stats(); len(s.Partitions) != 1 || s.Partitions[0].Breaker.State.String() != "open" || d.Policy().Timeout.Call != 9*time.Second {
		t.Errorf("the breaker forgot that it is open: %+v", s.Partitions)
	}
	r.write(one(other.URL, policy+", timeout: {call: 9s}") + operated) // another host is another partition
	r.reload()
	if code, body := get(t, url); body != "other" {
		t.Error("the new target is not used:", code, body)
	}
}

func TestAFileWithMistakesChangesNothing(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, one(up.URL, "")+operated)
	for _, text := range []string{
		"version: 1\nproxy: {listen: [{address: 127.0.0.1:0, to: nonsense}]}\n", "no YAML: [",
		strings.Replace(one(up.URL, ""), "dependency: api", "dependency: apo", 1),
		strings.Replace(one(strings.Replace(up.URL, "http:", "https:", 1), ""), "dependency: api", "dependency: api, to_tls: {ca: /nowhere}", 1),
		one(up.URL, "") + "    - {address: 192.0.2.1:1, to: http://localhost, dependency: api}\n", // an address that is not this machine's
	} {
		r.write(text)
		r.reload()
		if _, body := get(t, r.url("127.0.0.1:0")); body != "up" {
			t.Errorf("after %q: %q", text, body)
		}
	}
	if s := r.proxy.Stats(); s.BadReloads != 5 || s.Reloads != 0 {
		t.Errorf("%+v", s)
	}
	if _, body := r.admin("GET", "/metrics"); !strings.Contains(body, "gabionproxy_reload_failures_total 5") {
		t.Error(body)
	}
	code, body := r.admin("POST", "/reload?dry-run")
	if code != 422 || !strings.Contains(body, "192.0.2.1") && !strings.Contains(body, "in force") {
		t.Log(code, body) // addresses are not opened by a dry run
	}
}

func TestAFileThatChangesIsFoundThroughALink(t *testing.T) {
	up, second := says("up"), says("second")
	defer up.Close()
	defer second.Close()
	r := start(t, one(up.URL, "")+operated)
	dir := filepath.Dir(r.path)
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte(one(second.URL, "")+operated), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("new", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "link"), r.path); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, body := get(t, r.url("127.0.0.1:0")); body == "second" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the new file was not found")
}

func TestOperatorsSeeAndStop(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, one(up.URL, "preset: llm")+operated)
	for _, c := range []struct{ method, path, has string }{
		{"GET", "/healthz", "ok"}, {"GET", "/readyz", "ready"}, {"GET", "/metrics", "gabionproxy_requests_total 0"},
		{"GET", "/config", `"hash": "`}, {"GET", "/config", "timeout.call"}, {"GET", "/page/", "<html"}, {"POST", "/reload?dry-run", "can be put into force"},
		{"POST", "/reload", "is in force"}, {"POST", "/drain", "draining"},
	} {
		if code, body := r.admin(c.method, c.path); code != 200 || !strings.Contains(body, c.has) {
			t.Errorf("%s %s: %d %.300q", c.method, c.path, code, body)
		}
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestASiteInABrowserCanNotStopTheProxy(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, one(up.URL, "")+operated)
	for _, header := range []http.Header{{"Origin": {"http://evil.example"}}, {"Host": {"evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
		req, _ := http.NewRequest("POST", "http://"+r.proxy.AdminAddr()+"/drain", nil)
		req.Header = header
		req.Host = header.Get("Host")
		if code, body := answer(t, req); code != 403 {
			t.Error(header, code, body)
		}
	}
}

func TestADrainWaitsAndThenCuts(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		work       time.Duration
		cut        bool
	}{
		{"a request that ends in time is answered", "  drain: 5s\n", 100 * time.Millisecond, false},
		{"one that does not is cut", "  drain: 50ms\n", 5 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			came := make(chan bool, 1)
			slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				came <- true
				select {
				case <-time.After(c.work):
				case <-r.Context().Done():
				}
			}))
			defer slow.Close()
			r := start(t, one(slow.URL, "")+c.keys)
			answered := make(chan error, 1)
			go func() {
				resp, err := http.Get(r.url("127.0.0.1:0"))
				if err == nil {
					resp.Body.Close()
					if resp.StatusCode != 200 {
						err = fmt.Errorf("status %d", resp.StatusCode)
					}
				}
				answered <- err
			}()
			<-came
			r.stop()
			if err := <-r.ended; errors.Is(err, gabionproxy.ErrCut) != c.cut {
				t.Error(err)
			}
			if err := <-answered; (err != nil) != c.cut {
				t.Error(err)
			}
		})
	}
}
