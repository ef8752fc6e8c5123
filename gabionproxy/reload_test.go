package gabionproxy_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
)

// written is a log that is read while it is written.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String returns what was written.
func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestADryRunOpensNothing(t *testing.T) {
	up := says("up")
	defer up.Close()
	var opened []string
	var log written
	r := startWith(t, one(up.URL, "")+operated, gabionproxy.Options{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Store: func(name string) (idempotency.Store, error) {
			opened = append(opened, name)
			return idempotency.NewMemoryStore(0, 0), nil
		},
		CheckStore: func(name string) error {
			if strings.HasPrefix(name, "ftp:") {
				return errors.New("no such kind of store")
			}
			return nil
		},
	})
	more := "    - {address: 127.0.0.1:0, ingress: {to: \"http://127.0.0.1:1\", idempotency: {store: %q, routes: [POST /orders]}}}\n"
	for name, want := range map[string]int{"bolt:keys.db": 200, "ftp://keys": 422} {
		r.write(one(up.URL, "") + fmt.Sprintf(strings.Replace(more, ":0", ":1", 1), name) + operated)
		if code, body := r.admin("POST", "/reload?dry-run"); code != want || len(opened) > 0 {
			t.Errorf("%s: %d %s, and %q was opened", name, code, body, opened)
		}
	}
	if strings.Contains(log.String(), "not durable") {
		t.Error("it speaks of a store that will not serve:", log.String())
	}
}

// The watcher has not seen what an operator puts into force between two of its looks, unless it did that itself.
func TestTheWatcherKnowsWhatAnOperatorPutIntoForce(t *testing.T) {
	first, second := says("first"), says("second")
	defer first.Close()
	defer second.Close()
	reloaded := make(lines, 100)
	r := startWith(t, one(first.URL, "")+operated, gabionproxy.Options{Log: slog.New(slog.NewTextHandler(reloaded, nil))})
	url := r.url("127.0.0.1:0")
	r.write(one(second.URL, "") + operated)
	if code, body := r.admin("POST", "/reload"); code != 200 {
		t.Fatal(code, body)
	}
	reloaded.next(t, "reloaded") // by the operator
	if _, body := get(t, url); body != "second" {
		t.Error("the answer came before the file was in force:", body)
	}
	r.write(one(first.URL, "") + operated)
	reloaded.next(t, "reloaded") // by the watcher
	if _, body := get(t, url); body != "first" {
		t.Error("what was written back is not in force:", body)
	}
}

// lines are those of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// next waits for a line with a word.
func (l lines) next(t *testing.T, word string) {
	t.Helper()
	for late := time.After(10 * time.Second); ; {
		select {
		case line := <-l:
			if strings.Contains(line, word) {
				return
			}
		case <-late:
			t.Fatalf("no line has %q", word)
		}
	}
}

func TestOperatorsWhoAskAtOnceAllHaveAnAnswer(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, one(up.URL, "")+operated)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if code, body := r.admin("POST", "/reload"); code != 200 {
				t.Error(code, body)
			}
		})
	}
	all.Wait()
	if s := r.proxy.Stats(); s.Reloads != 8 {
		t.Errorf("%+v", s)
	}
	r.write("version: 1\nproxy: {listen: [{address: here}]}\n")
	if code, body := r.admin("POST", "/reload"); code != 422 || !strings.Contains(body, `"here" is no address`) {
		t.Error(code, body)
	}
}

func TestWhatOnlyAStartCanChangeIsRefusedWithItsLine(t *testing.T) {
	up := says("up")
	defer up.Close()
	file := one(up.URL, "") + operated
	r := start(t, file)
	for _, c := range []struct{ fact, text, at, key string }{
		{"the admin's address", strings.Replace(file, "127.0.0.1:0}\n", "127.0.0.1:1}\n", 1), ":7:", "admin.address"},
		{"no admin any more", one(up.URL, ""), ":4:", "admin.address"},
		{"the admin's overrides", strings.Replace(file, "127.0.0.1:0}\n", "127.0.0.1:0, overrides: true}\n", 1), ":7:", "admin.overrides"},
		{"a bound of an address", strings.Replace(file, "dependency: api", "dependency: api, max_connections: 5", 1), ":6:", "listen[0].max_connections"},
		{"an idle timeout", strings.Replace(file, "dependency: api", "dependency: api, idle_timeout: 5s", 1), ":6:", "listen[0].idle_timeout"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r.write(c.text)
			for _, path := range []string{"/reload?dry-run", "/reload"} {
				code, body := r.admin("POST", path)
				if code != 422 || !strings.Contains(body, "needs a restart") || !strings.Contains(body, filepath.Base(r.path)+c.at) || !strings.Contains(body, c.key) {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
		})
	}
	r.write(strings.Replace(file, "dependency: api", "dependency: api, max_connections: 10000, max_body: 5", 1))
	if code, body := r.admin("POST", "/reload"); code != 200 {
		t.Error("what can be changed, beside a default that is written out:", code, body)
	}
}

func TestAReloadOfAProxyThatServesRefusesABound(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	r := start(t, one(up.URL, ""))
	f, err := config.Parse("gabion.yaml", []byte(strings.Replace(one(up.URL, ""), "dependency: api", "dependency: api, max_header: 4096", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.proxy.Reload(f.Policies, f.Proxy, true); err == nil || !strings.Contains(err.Error(), "max_header needs a restart") {
		t.Error(err)
	}
}
