package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

// A snippet is a program on a page of docs/proxy, with what runs it.
type snippet struct {
	page, heading string // the program is the first block of code under the heading
	file          string // what it is called, in a directory of its own
	argv          func(t *testing.T) []string
	breaks        string // it reads a stream and does not pay: what it says when that breaks
	without       string // what is left out of it
}

var snippets = []snippet{
	{"python.md", "requests", "pay.py", withPython("requests"), "", ""},
	{"python.md", "httpx", "pay.py", withPython("httpx"), "", ""},
	{"python.md", "A stream", "stream.py", withPython("httpx"), "RemoteProtocolError", ""},
	{"node.md", "fetch", "pay.js", withNode("fs"), "", ""},
	{"node.md", "undici", "stream.js", withNode("undici"), "terminated", ""},
	{"node.md", "OpenAI", "chat.js", withNode("openai"), "terminated", ""},
	{"php.md", "curl", "pay.php", withPHP("curl"), "", ""},
	{"php.md", "Guzzle", "pay.php", withPHP("guzzle"), "", ""},
	{"php.md", "A stream", "stream.php", withPHP("guzzle"), endsQuietly, ""},
	{"java.md", "HttpClient", "Pay.java", withJava, "", ""},
	{"java.md", "A stream", "Tell.java", withJava, "UncheckedIOException", ""},
}

// endsQuietly is a stream that breaks and looks as if it had ended.
const endsQuietly = "quietly"

// code returns the program under a heading of a page.
func (s snippet) code(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../docs/proxy", s.page))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n## "+s.heading+"\n")
	_, text, begun := strings.Cut(text, "\n```")
	_, text, _ = strings.Cut(text, "\n")
	text, _, ended := strings.Cut(text, "\n```\n")
	if !ok || !begun || !ended {
		t.Fatalf("%s has no code under %q", s.page, s.heading)
	}
	return text + "\n"
}

// start runs the program with the addresses of a proxy in the place of those of the page.
func (s snippet) start(t *testing.T, payments, llm string) *exec.Cmd {
	t.Helper()
	code := s.code(t)
	if !strings.Contains(code, "//127.0.0.1:900") {
		t.Fatalf("%s, %s: it does not go to the proxy", s.page, s.heading)
	}
	if !strings.Contains(code, s.without) {
		t.Fatalf("%s, %s: it has no %s", s.page, s.heading, s.without)
	}
	code = strings.Replace(code, s.without, "", 1)
	argv, dir := s.argv(t), t.TempDir()
	for name, text := range beside {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), text)
	}
	code = strings.NewReplacer("//127.0.0.1:9000", "//"+payments, "//127.0.0.1:9001", "//"+llm).Replace(code)
	write(t, filepath.Join(dir, s.file), code)
	cmd := exec.CommandContext(t.Context(), argv[0], append(argv[1:len(argv):len(argv)], s.file)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=none", "HTTP_PROXY=", "http_proxy=", "NODE_PATH="+modulesOfNode())
	return cmd
}

// withoutClients is set by .ci/run where the clients' archives are out of reach, as GABION_WITHOUT_VALKEY is for Valkey.
const withoutClients = "GABION_WITHOUT_CLIENTS"

// installed returns the first of some interpreters that runs a program without a mistake.
func installed(t *testing.T, what string, argv []string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if exec.CommandContext(t.Context(), name, argv...).Run() == nil {
			return name
		}
	}
	if os.Getenv(withoutClients) != "" {
		t.Skipf("%s is not installed, and %s says that it can't be", what, withoutClients)
	}
	testservers.Missing(t, "%s is not installed: .ci/clients does it", what)
	return ""
}

// withPython is Python with a module. A system's own Python has its packages, where another comes first.
func withPython(module string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		argv := []string{"-c", "import " + module}
		return []string{installed(t, "Python's "+module, argv, "python3", "/usr/bin/python3")}
	}
}

func withNode(module string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Setenv("NODE_PATH", modulesOfNode())
		return []string{installed(t, "Node's "+module, []string{"-e", fmt.Sprintf("require(%q)", module)}, "node")}
	}
}

// beside are files that a program needs beside it: Composer's loader, for a system's own Guzzle.
var beside = map[string]string{
	"vendor/autoload.php": `<?php require "GuzzleHttp/autoload.php";`,
}

func withPHP(what string) func(t *testing.T) []string {
	test := map[string]string{"curl": "curl_init();", "guzzle": `require "GuzzleHttp/autoload.php";`}[what]
	return func(t *testing.T) []string {
		return []string{installed(t, "PHP's "+what, []string{"-d", "display_errors=stderr", "-r", test}, "php")}
	}
}

func withJava(t *testing.T) []string {
	return []string{installed(t, "Java", []string{"--list-modules"}, "java")}
}

// modulesOfNode is where .ci/clients installs what Node's programs require.
func modulesOfNode() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "gabion-clients", "node_modules")
}

// The policies of the pages, without their waits.
const pageFile = `version: 1
dependencies:
  payments: {preset: payment, retry: {backoff: {base: 1ms}, budget: off}}
  llm: {preset: llm, retry: {backoff: {base: 1ms}, budget: off}}
proxy:
  drain: 1s
  listen:
    - {address: "%s", to: "%s", dependency: payments}
    - {address: "%s", to: "%s", dependency: llm}
`

// behind starts a proxy as the pages have it, and returns its two addresses.
func behind(t *testing.T, to string) (payments, llm string) {
	t.Helper()
	at := addresses(t, 2)
	front(t, fmt.Sprintf(pageFile, at[0], to, at[1], to))
	return at[0], at[1]
}

// A provider fails the first two of each three requests, takes payments with a key, and tells a
// stream of which the second half comes once the first was read.
type provider struct {
	t    *testing.T
	more chan struct{} // closed when the first half was read

	breaks bool // the stream ends after its first half

	mu      sync.Mutex
	came    int
	charged map[string]int // by key
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	p.came++
	fail := p.came%3 != 0
	p.mu.Unlock()
	switch {
	case fail:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/charges":
		p.charge(w, r.Header.Get("Idempotency-Key"), body)
	case r.URL.Path == "/v1/chat/completions":
		w.Header().Set("Content-Type", "text/event-stream")
		p.chunk(w, "once upon ")
		if p.breaks {
			panic(http.ErrAbortHandler)
		}
		select {
		case <-p.more:
		case <-time.After(10 * time.Second):
			p.t.Error("the first half of the stream was not read before the second was sent")
		}
		p.chunk(w, "a time")
		io.WriteString(w, "data: [DONE]\n\n")
	default:
		p.t.Errorf("%s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	}
}

func (p *provider) charge(w http.ResponseWriter, key string, body []byte) {
	var charge struct{ Amount int }
	if err := json.Unmarshal(body, &charge); err != nil || charge.Amount != 100 || key == "" {
		p.t.Errorf("%q with the key %q: %v", body, key, err)
	}
	p.mu.Lock()
	p.charged[key]++
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"id":"ch_1"}`)
}

// chunk sends a part of an answer as OpenAI's API does.
func (p *provider) chunk(w http.ResponseWriter, text string) {
	fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", text)
	if err := http.NewResponseController(w).Flush(); err != nil {
		p.t.Error(err)
	}
}

// What the pages for other languages show is true: each program is run as it stands there, with the
// real client, against a provider that fails, and against one that is not there.
func TestPagesForOtherLanguages(t *testing.T) {
	long(t, "interpreters of other languages are started")
	for _, s := range snippets {
		t.Run(s.page+"/"+s.heading, func(t *testing.T) {
			p := &provider{t: t, more: make(chan struct{}), charged: map[string]int{}}
			server := httptest.NewServer(p)
			defer server.Close()
			payments, llm := behind(t, server.URL)
			cmd := s.start(t, payments, llm)
			if s.breaks != "" {
				p.tell(t, cmd)
				p.breaks = true
				s.broken(t, s.start(t, payments, llm))
				return
			}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "ch_1" {
				t.Errorf("%v\n%s", err, out)
			}
			if p.came != 3 || len(p.charged) != 1 {
				t.Errorf("%d requests, charged %v", p.came, p.charged)
			}
			server.Close()
			out, err = s.start(t, payments, llm).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "not sent") || strings.Contains(string(out), "ch_1") {
				t.Errorf("the program does not know that nothing was sent: %v\n%s", err, out)
			}
		})
	}
}

// broken runs a program whose stream breaks. It says so, or the page says that it can't know.
func (s snippet) broken(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "once upon ") || strings.Contains(string(out), "a time") {
		t.Errorf("the stream that breaks: %s", out)
	}
	if quiet := s.breaks == endsQuietly; (err == nil) != quiet || !quiet && !strings.Contains(string(out), s.breaks) {
		t.Errorf("the stream that breaks: %v\n%s", err, out)
	}
}

// tell runs a program that reads the stream, and lets the second half come when the first is there.
func (p *provider) tell(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var bad strings.Builder
	cmd.Stderr = &bad
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("once upon "))
	_, err = io.ReadFull(out, first)
	close(p.more)
	rest, _ := io.ReadAll(out)
	if end := cmd.Wait(); end != nil || err != nil || strings.TrimSpace(string(first)+string(rest)) != "once upon a time" {
		t.Errorf("%v, %v: %s%s\n%s", err, end, first, rest, bad.String())
	}
	if p.came != 3 {
		t.Errorf("%d requests came", p.came)
	}
}

// An SDK with its own retries on, as it is without a change, adds none to what the proxy did: the proxy
// says that it should not.
func TestTheRetriesOfAnSDKAddNone(t *testing.T) {
	long(t, "Node is started")
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s := snippets[slices.IndexFunc(snippets, func(s snippet) bool { return s.page == "node.md" && s.heading == "OpenAI" })]
	s.without = "maxRetries: 0, "
	for to, sent := range map[string]int64{server.URL: 3, "http://" + addresses(t, 1)[0]: 0} {
		came.Store(0)
		_, llm := behind(t, to)
		began := time.Now()
		out, err := s.start(t, "", llm).CombinedOutput()
		if err == nil || came.Load() != sent || !strings.Contains(string(out), "APIError") && !strings.Contains(string(out), "ServerError") {
			t.Errorf("%d attempts of %d after %v: %v\n%s", came.Load(), sent, time.Since(began), err, out)
		}
	}
}

// Java's client asks for HTTP/2 on a plain connection by default. The proxy declines, and the
// POST is repeated as any other.
func TestJavaAsksForHTTP2(t *testing.T) {
	long(t, "Java compiles")
	s := snippets[slices.IndexFunc(snippets, func(s snippet) bool { return s.page == "java.md" && s.heading == "HttpClient" })]
	s.without = ".version(HttpClient.Version.HTTP_1_1)"
	p := &provider{t: t, charged: map[string]int{}}
	server := httptest.NewServer(p)
	defer server.Close()
	payments, llm := behind(t, server.URL)
	out, err := s.start(t, payments, llm).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ch_1" || p.came != 3 {
		t.Errorf("%v, %d requests\n%s", err, p.came, out)
	}
}
