package proxycmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCalledWrongly(t *testing.T) {
	for _, c := range []struct {
		fact string
		args []string
		code int
		want string
	}{
		{"no file", nil, cli.ExitUsage, "no file is named"},
		{"two files", []string{"a", "b"}, cli.ExitUsage, "not expected"},
		{"standard input", []string{"-"}, cli.ExitUsage, "read again"},
		{"a file that is not there", []string{"/nowhere"}, cli.ExitFailure, "no such file"},
		{"a file with a mistake", []string{write(t, "a.yaml", "version: 1\nproxy: {listen: [{address: here}]}\n")}, cli.ExitFindings, `"here" is no address`},
		{"a file without a proxy", []string{write(t, "b.yaml", "version: 1\n")}, cli.ExitFindings, "no section proxy"},
		{"a certificate that is not there", []string{"--dry-run", write(t, "c.yaml", "version: 1\ndependencies: {a: {}}\nproxy: {listen: [{address: 127.0.0.1:1, to: https://b, dependency: a, to_tls: {ca: /nowhere}}]}\n")}, cli.ExitFindings, "/nowhere"},
		{"a store that is not known", []string{write(t, "d.yaml", "version: 1\nproxy: {listen: [{address: 127.0.0.1:0, ingress: {to: http://127.0.0.1:1, idempotency: {store: ftp://x, routes: [POST /]}}}]}\n")}, cli.ExitFailure, `"ftp" is not`},
		{"a dry run with such a store", []string{"--dry-run", write(t, "e.yaml", "version: 1\nproxy: {listen: [{address: 127.0.0.1:0, ingress: {to: http://127.0.0.1:1, idempotency: {store: ftp://x, routes: [POST /]}}}]}\n")}, cli.ExitFindings, `"ftp" is not`},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var out, err bytes.Buffer
			if code := cli.Run(t.Context(), Command(), c.args, &out, &err); code != c.code || !strings.Contains(err.String(), c.want) {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, err.String())
			}
		})
	}
}

func TestTheFilesOfDeployCanBeServed(t *testing.T) {
	var out, err bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"--dry-run", "../../../../deploy/proxy/gabion.yaml"}, &out, &err); code != cli.ExitOK ||
		!strings.Contains(out.String(), "payments.internal/v1/ to https://pay.example, as payments") || !strings.Contains(out.String(), "127.0.0.1:9900  for operators") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), err.String())
	}
}

func TestADryRunSaysNothingOfTheStoreInItsPlace(t *testing.T) {
	var out, err bytes.Buffer
	file := write(t, "keys.yaml", "version: 1\nproxy: {listen: [{address: 127.0.0.1:1, ingress: {to: http://127.0.0.1:1, idempotency: {store: \"bolt:keys.db\", routes: [POST /]}}}]}\n")
	if code := cli.Run(t.Context(), Command(), []string{"--dry-run", file}, &out, &err); code != cli.ExitOK || err.Len() > 0 {
		t.Errorf("exit code %d\n%s", code, err.String())
	}
}

// log is what a command writes, read while it runs.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// address waits for the line with that message, and returns its address.
func (l *log) address(t *testing.T, msg string) string {
	t.Helper()
	for range 1000 {
		l.mu.Lock()
		text := l.buf.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			var said struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == msg {
				return said.Address
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q in %s", msg, l.buf.String())
	return ""
}

func TestAFileIsServedWithItsStore(t *testing.T) {
	var runs atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "order ", runs.Add(1)) }))
	defer program.Close()
	path := write(t, "gabion.yaml", "version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: "+program.URL+", admission: {limit: learned}, idempotency: {store: "+
		filepath.Join(t.TempDir(), "keys.db")+", routes: [POST /orders]}}}\n  admin: {address: 127.0.0.1:0}\n  access_log: true\n")
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	said := new(log)
	ended := make(chan int, 1)
	go func() { ended <- cli.Run(ctx, Command(), []string{path}, &out, said) }()
	url := "http://" + said.address(t, "listening")
	for range 2 {
		req, _ := http.NewRequest("POST", url+"/orders?secret=1", strings.NewReader("x"))
		req.Header.Set("Idempotency-Key", "one-order-one-key")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "order 1" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
	}
	resp, err := http.Get("http://" + said.address(t, "admin") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, want := range []string{"gabionproxy_requests_total 2", "go_goroutines", `gabion_idempotency_total{dependency="idempotency",result="replay"} 1`} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("no %s in %.2000s", want, body)
		}
	}
	stop()
	if code := <-ended; code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, said.buf.String())
	}
	if text := said.buf.String(); strings.Count(text, `"msg":"request"`) != 2 || strings.Contains(text, "secret") || strings.Contains(text, "one-order") {
		t.Error(text)
	}
}

func TestNamesOfStoresAreKnown(t *testing.T) {
	for name, ok := range map[string]bool{
		"gabion.db": true, "/var/lib/a:b.db": true, "sqlite:keys.db": true, "bolt:keys.db": true, "postgres://db/x": true, "postgresql://db/x": true,
		"mysql://u:p@db/x": true, "mariadb://db/x": true, "redis://cache": true, "rediss://cache": true, "nats://queue:4222/keys": true,
		"redis:cache": false, "redis://:sesame@h:port%": false, "ftp://x": false, "postgres:": false,
	} {
		if err := known(name); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
