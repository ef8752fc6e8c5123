package gabioncaddy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile" // the adapter of Caddyfiles
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
	_ "github.com/caddyserver/caddy/v2/modules/logging" // without which nothing is silenced
)

// site is the real Caddy in this process, with one site. Each configuration listens at a socket of its own: Caddy cuts
// requests that reach one while it closes it, with other transports, too.
type site struct {
	t      *testing.T
	file   string // gabion's
	dir    string // of the sockets
	log    string // an output of Caddy's log
	loads  int
	at     string // the socket of the configuration that runs
	client *http.Client
}

const siteURL = "http://caddy.test"

// policies are what tests without a file of their own use.
const policies = `version: 1
dependencies:
  api:
    preset: external-api
    timeout: {call: 5s}
    retry: {attempts: 3, budget: off, backoff: {base: 1ms, cap: 2ms}}
`

func newSite(t *testing.T, yaml string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // shorter than the test's own: a socket's name has at most 104 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, file: filepath.Join(t.TempDir(), "gabion.yaml"), dir: dir, log: "discard"}
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.at)
	}}}
	s.write(yaml)
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error("Caddy did not stop:", err)
		}
		if n, used := groups.References(s.file); used {
			t.Errorf("%d transports still use the file", n)
		}
	})
	return s
}

// write puts a file at its place at once, as editors and deployments do.
func (s *site) write(yaml string) {
	s.t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(yaml), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		s.t.Fatal(err)
	}
}

// load gives Caddy a site with these directives, in which FILE is gabion's file and USE the plain transport.
func (s *site) load(directives string) error {
	s.t.Helper()
	at := s.socket()
	text := "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tlog {\n\t\toutput " + s.log + "\n\t}\n}\nhttp:// {\nbind unix/" + at + "\n" + directives + "\n}\n"
	text = strings.ReplaceAll(text, "USE", "transport gabion {\n\t\tconfig FILE\n\t\tdependency api\n\t}")
	text = strings.ReplaceAll(text, "FILE", s.file)
	json, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	if err := caddy.Load(json, true); err != nil {
		return err
	}
	s.at = at
	return nil
}

// socket is a new one.
func (s *site) socket() string {
	s.loads++
	return filepath.Join(s.dir, strconv.Itoa(s.loads))
}

func (s *site) mustLoad(directives string) {
	s.t.Helper()
	if err := s.load(directives); err != nil {
		s.t.Fatal(err)
	}
}

// ask sends a request to the site.
func (s *site) ask(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, siteURL+path, from)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(text)
}

// server starts a server, and returns its address.
func server(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
