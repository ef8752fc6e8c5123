package nethttp

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const module = "github.com/gabion-go/gabion"

// allowed are the tests that fail or hang, each with the reason.
//
//go:embed allowed.txt
var allowed string

// seam is what net/http gets so that a test can put gabion under every Client and every
// Transport.
const seam = `
// WrapRT puts something under every Client and Transport.
var WrapRT func(RoundTripper) RoundTripper

func wrapped(rt RoundTripper) RoundTripper {
	if _, std := rt.(*Transport); std || WrapRT == nil {
		return rt // which wraps itself
	}
	return WrapRT(rt)
}

type bareTransport struct{ t *Transport }

func (b bareTransport) RoundTrip(req *Request) (*Response, error) { return b.t.roundTrip(req) }
`

// wrap is the test file that does it. The policy retries nothing and bounds nothing.
const wrap = `package http_test

import (
	"net/http"

	"gabion"
	"gabion/gabionhttp"
	"gabion/policy"
)

func init() {
	p := policy.Policy{
		Timeout:  policy.Timeout{Attempt: policy.Off, Call: policy.Off},
		Retry:    policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},
	}
	http.WrapRT = func(rt http.RoundTripper) http.RoundTripper { // a dependency of the test's own bubble
		return &gabionhttp.Transport{Dependency: gabion.New("net/http", p), Base: rt}
	}
}
`

// net/http's tests say what users of http.Client rely on. All of them run with gabion in
// between, from an overlay on GOROOT that nothing is written to; those that fail are listed
// with the reason, and one that is listed and passes is no longer to be listed.
func TestNetHTTPsOwnTests(t *testing.T) {
	if os.Getenv("GABION_SOAK") == "" {
		t.Skip("it takes minutes: GABION_SOAK=1 runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the list of what fails is that of Linux")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "http.test")
	src := filepath.Join(strings.TrimSpace(string(run(t, "", "go", "env", "GOROOT"))), "src")
	build := exec.Command("go", "test", "-vet=off", "-overlay", overlay(t, dir, src), "-c", "-o", binary, "net/http")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	build.Dir = filepath.Join(src, "net", "http")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fails, hangs := list(t)
	tests := exec.Command(binary, "-test.short", "-test.v", "-test.timeout", "10m", "-test.skip", "^("+strings.Join(hangs, "|")+")$")
	tests.Dir = build.Dir // their testdata is there
	out, err := tests.CombinedOutput()
	if bytes.Contains(out, []byte("panic: test timed out")) {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-20000):])
	}
	passed := 0
	for _, m := range regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\w+)`).FindAllStringSubmatch(string(out), -1) {
		name := m[2]
		switch _, listed := fails[name]; {
		case m[1] == "PASS":
			passed++
			if listed && fails[name] != "sometimes" {
				t.Errorf("%s passes: it need not be listed", name)
			}
		case !listed:
			t.Errorf("%s fails:\n%s", name, about(out, name))
		}
	}
	if passed < 400 {
		t.Fatalf("%d tests passed\n%s", passed, out[max(0, len(out)-5000):])
	}
	t.Logf("%d of net/http's tests pass; %d fail and %d are not run, as listed", passed, len(fails), len(hangs))
}

// overlay makes the overlay: gabion's packages beside the standard library's, and the
// seam.
func overlay(t *testing.T, dir, src string) string {
	replace := map[string]string{}
	put := func(at, text string) {
		file := filepath.Join(dir, strings.ReplaceAll(at, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(src, filepath.FromSlash(at))] = file
	}
	packages := run(t, "", "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Dir}} {{range .GoFiles}}{{.}} {{end}}{{end}}", module+"/gabionhttp")
	lines := bufio.NewScanner(bytes.NewReader(packages))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		for _, file := range f[2:] {
			text := read(t, filepath.Join(f[1], file))
			put("gabion"+strings.TrimPrefix(f[0], module)+"/"+file, strings.ReplaceAll(text, `"`+module, `"gabion`))
		}
	}
	put("net/http/client.go", swap(t, read(t, filepath.Join(src, "net/http/client.go")),
		"resp, err = rt.RoundTrip(req)\n", "resp, err = wrapped(rt).RoundTrip(req)\n")+seam)
	put("net/http/roundtrip.go", swap(t, read(t, filepath.Join(src, "net/http/roundtrip.go")),
		"return t.roundTrip(req)\n", "if WrapRT != nil {\n\t\treturn WrapRT(bareTransport{t}).RoundTrip(req)\n\t}\n\treturn t.roundTrip(req)\n"))
	put("net/http/zz_gabion_test.go", wrap)
	file := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// swap replaces what must be there once.
func swap(t *testing.T, text, old, new string) string {
	if strings.Count(text, old) != 1 {
		t.Fatalf("net/http has changed: %q is there %d times", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, new, 1)
}

// list reads allowed.txt: "fails", "sometimes" or "hangs", a test's name, and the reason.
func list(t *testing.T) (fails map[string]string, hangs []string) {
	fails = map[string]string{}
	for line := range strings.Lines(allowed) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		switch {
		case len(f) < 3:
			t.Fatalf("%q has no reason", line)
		case f[0] == "hangs":
			hangs = append(hangs, f[1])
		default:
			fails[f[1]] = f[0]
		}
	}
	return fails, hangs
}

// about is what a test and its subtests had to say.
func about(out []byte, name string) string {
	var b strings.Builder
	ours := false
	for line := range strings.Lines(string(out)) {
		if head := strings.TrimSpace(line); strings.HasPrefix(head, "=== ") || strings.HasPrefix(head, "--- ") {
			ours = strings.Contains(head, " "+name)
		}
		if ours && b.Len() < 4000 {
			b.WriteString(line)
		}
	}
	return b.String()
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
