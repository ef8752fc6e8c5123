//go:build upstream

package upstream

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// netHTTP is all of net/http's tests: those of its clients and transports, and those of its
// servers, which use a client too. gabionhttp.Transport is under every Client and every Transport.
// It is compiled with an overlay on GOROOT, where gabion's packages are beside the standard
// library's. Nothing is written to GOROOT.
var netHTTP = Suite{
	Name: "net/http",
	Run:  runner{Together: testsTogether},
	Write: func(t *testing.T, dir string, with bool) (string, []string) {
		src := filepath.Join(output(t, ".", "go", "env", "GOROOT"), "src")
		replace := map[string]string{}
		put := func(at, text string) {
			file := filepath.Join(dir, strings.ReplaceAll(at, "/", "_"))
			write(t, file, text)
			replace[filepath.Join(src, filepath.FromSlash(at))] = file
		}
		put("net/http/client.go", swap(t, read(t, filepath.Join(src, "net/http/client.go")),
			"resp, err = rt.RoundTrip(req)\n", "resp, err = wrapped(rt).RoundTrip(req)\n")+httpSeam)
		put("net/http/roundtrip.go", swap(t, read(t, filepath.Join(src, "net/http/roundtrip.go")),
			"return t.roundTrip(req)\n", "if WrapRT != nil {\n\t\treturn WrapRT(bareTransport{t}).RoundTrip(req)\n\t}\n\treturn t.roundTrip(req)\n"))
		if with {
			putGabion(t, put)
			put("net/http/zz_gabion_test.go", httpBetween)
		}
		text, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			t.Fatal(err)
		}
		overlay := filepath.Join(dir, "overlay.json")
		write(t, overlay, string(text))
		return filepath.Join(src, "net", "http"), []string{"-mod=", "-overlay", overlay}
	},
}

// putGabion puts gabionhttp and all that it imports beside the standard library's packages.
func putGabion(t *testing.T, put func(at, text string)) {
	const module = "github.com/gabion-go/gabion"
	packages := output(t, root(t), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Dir}} {{range .GoFiles}}{{.}} {{end}}{{end}}", module+"/gabionhttp")
	for line := range strings.Lines(packages) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		for _, file := range f[2:] {
			put("gabion"+strings.TrimPrefix(f[0], module)+"/"+file, strings.ReplaceAll(read(t, filepath.Join(f[1], file)), `"`+module, `"gabion`))
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// httpSeam is what net/http gets so that a test can put gabion in.
const httpSeam = `
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

// httpBetween puts gabion in. The policy retries nothing and bounds nothing.
const httpBetween = `package http_test

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
