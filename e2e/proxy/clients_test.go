package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
)

// pythons are clients in a few lines, by what they import.
var pythons = map[string]string{
	"requests": `
import sys, requests
session = requests.Session()
def call(method, url, body=None, headers={}):
    r = session.request(method, url, data=body, headers=headers, timeout=20)
    return r.status_code, r.headers.get("Gabion-Attempts"), r.text
`,
	"httpx": `
import sys, httpx
session = httpx.Client(timeout=20)
def call(method, url, body=None, headers={}):
    r = session.request(method, url, content=body, headers=headers)
    return r.status_code, r.headers.get("Gabion-Attempts"), r.text
`,
}

// node is one for undici, which is in Node.
const node = `
const call = async (method, url, body, headers) => {
  const r = await fetch(url, {method, body, headers, duplex: "half"});
  return [r.status, r.headers.get("gabion-attempts"), await r.text()].join(" ");
};
const url = process.argv[1];
(async () => {
  console.log(await call("GET", url));
  console.log(await call("POST", url, "body", {"Idempotency-Key": "k"}));
  console.log(await call("POST", url, new Blob(["bo", "dy"]).stream(), {"Idempotency-Key": "k"}));
})();
`

// What clients of other languages send is repeated for them: the server fails the first two of
// each three requests.
func TestClientsOfOtherLanguages(t *testing.T) {
	python := func(module string) func(t *testing.T, url string) [][]string {
		return func(t *testing.T, url string) [][]string {
			return [][]string{append(withPython(module)(t), "-c", pythons[module]+`
print(*call("GET", sys.argv[1]))
print(*call("POST", sys.argv[1], b"body", {"Idempotency-Key": "k"}))
print(*call("POST", sys.argv[1], iter([b"bo", b"dy"]), {"Idempotency-Key": "k"}))
`, url)}
		}
	}
	for name, argv := range map[string]func(t *testing.T, url string) [][]string{
		"curl": func(t *testing.T, url string) [][]string {
			curl := []string{installed(t, "curl", []string{"--version"}, "curl"), "-sS", "-m", "20", "-w", " %header{Gabion-Attempts} %{http_code}\n"}
			keyed := append(curl[:len(curl):len(curl)], "-H", "Idempotency-Key: k", "-d", "body")
			return [][]string{append(curl[:len(curl):len(curl)], url), append(keyed[:len(keyed):len(keyed)], url),
				append(keyed[:len(keyed):len(keyed)], "-H", "Transfer-Encoding: chunked", url), append(keyed[:len(keyed):len(keyed)], "-H", "Expect: 100-continue", url),
				append(keyed[:len(keyed):len(keyed)], "--http2-prior-knowledge", url)}
		},
		"requests": python("requests"),
		"httpx":    python("httpx"),
		"node": func(t *testing.T, url string) [][]string {
			return [][]string{{installed(t, "Node", []string{"--version"}, "node"), "-e", node, url}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var came atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if came.Add(1)%3 != 0 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				fmt.Fprintf(w, "%s=%s", r.Method, body)
			}))
			defer server.Close()
			lines := 0
			for _, argv := range argv(t, "http://"+front(t, egress(server.URL, quick))+"/") {
				out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", argv, err, out)
				}
				for line := range strings.Lines(string(out)) {
					lines++
					if !strings.Contains(line, "200") || !strings.Contains(line, " 3 ") || !strings.Contains(line, "GET=") && !strings.Contains(line, "POST=body") {
						t.Errorf("%s: %s", argv[0], line)
					}
				}
			}
			if lines < 3 || came.Load() != int64(3*lines) {
				t.Errorf("%d answers, %d requests at the server", lines, came.Load())
			}
		})
	}
}

// payers are clients that pay until some seconds are over, and repeat with the same key what they
// heard no answer to. They print the payments that they were told are done, and how often they repeated.
var payers = map[string]string{"python": `
import time
until = time.time() + 5
n = repeats = 0
while time.time() < until:
    name = f"payment-{sys.argv[2]}-{n}"
    n += 1
    for attempt in range(200):
        try:
            status, _, text = call("POST", sys.argv[1], name.encode(), {"Idempotency-Key": name})
        except Exception:
            status, text = 0, ""
        if status == 201 and text == "done " + name:
            print(name)
            break
        repeats += 1
        time.sleep(0.02)
    else:
        sys.exit(f"{name} has no end: {status} {text}")
print("repeats", repeats)
`, "node": `
const [url, client] = process.argv.slice(2);
const until = Date.now() + 5000;
const pay = async (name) => {
  try {
    const r = await fetch(url, {method: "POST", body: name, headers: {"Idempotency-Key": name}, signal: AbortSignal.timeout(20_000)});
    return [r.status, await r.text()];
  } catch { return [0, ""]; }
};
(async () => {
  let repeats = 0;
  for (let n = 0; Date.now() < until; n++) {
    const name = "payment-" + client + "-" + n;
    for (let attempt = 0; ; attempt++) {
      const [status, text] = await pay(name);
      if (status === 201 && text === "done " + name) break;
      if (attempt > 200) throw new Error(name + " has no end: " + status + text);
      repeats++;
      await new Promise((done) => setTimeout(done, 20));
    }
    console.log(name);
  }
  console.log("repeats", repeats);
})();
`}

// A client pays through a proxy that is killed again and again. The provider honours keys, and its
// witness counts.
func TestPaymentsThroughKillsOfTheProxy(t *testing.T) {
	long(t, "the proxy is killed for some seconds")
	for name, payer := range map[string]func(t *testing.T) (argv []string, text string){
		"requests": func(t *testing.T) ([]string, string) {
			return withPython("requests")(t), pythons["requests"] + payers["python"]
		},
		"httpx": func(t *testing.T) ([]string, string) {
			return withPython("httpx")(t), pythons["httpx"] + payers["python"]
		},
		"node": func(t *testing.T) ([]string, string) {
			return []string{installed(t, "Node", []string{"--version"}, "node")}, payers["node"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			argv, text := payer(t)
			script := filepath.Join(t.TempDir(), "pay")
			write(t, script, text)
			payThroughKills(t, append(argv, script)...)
		})
	}
}

// A bank honours keys, fails one request in twenty, and counts what took effect.
type bank struct {
	came atomic.Int64

	mu      sync.Mutex
	charged map[string]int
}

func (b *bank) serve(t *testing.T) (url string) {
	t.Helper()
	b.charged = map[string]int{}
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := io.ReadAll(r.Body)
		dither()
		b.mu.Lock()
		b.charged[string(name)]++
		b.mu.Unlock()
		dither()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "done %s", name)
	})
	keyed, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), charge, idempotency.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.came.Add(1)%20 == 0 { // and it is not well itself
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		keyed.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func payThroughKills(t *testing.T, argv ...string) {
	var b bank
	url, at := b.serve(t), addresses(t, 1)[0]
	proxy := proxied(t, at, fmt.Sprintf("version: 1\ndependencies:\n  payments: {preset: payment}\nproxy:\n  listen:\n    - {address: %s, to: %s, dependency: payments}\n", at, url))
	killing, over := context.WithCancel(t.Context()) // while the clients pay, however long they take to start
	defer over()
	var killer, wg sync.WaitGroup
	killer.Go(func() { kills(killing, 0, nil, nil, proxy) })
	said := make(chan string, 3)
	for c := range 3 {
		wg.Go(func() {
			out, err := exec.CommandContext(t.Context(), argv[0], append(argv[1:len(argv):len(argv)], "http://"+at+"/charges", fmt.Sprint(c))...).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			said <- string(out)
		})
	}
	wg.Wait()
	over()
	killer.Wait()
	b.judge(t, <-said+<-said+<-said)
}

// judge compares what clients said with what took effect.
func (b *bank) judge(t *testing.T, said string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	told, repeats := 0, 0
	for line := range strings.Lines(said) {
		var n int
		if _, err := fmt.Sscanf(line, "repeats %d", &n); err == nil {
			repeats += n
			continue
		}
		told++
		if name := strings.TrimSpace(line); b.charged[name] == 0 {
			t.Errorf("%s is said to be done and was not charged", name)
		}
	}
	for name, n := range b.charged {
		if n != 1 {
			t.Errorf("%s was charged %d times", name, n)
		}
	}
	t.Logf("%d payments, %d repeated by the client, %d requests at the provider; 0 doubled", told, repeats, b.came.Load())
	if told < 50 || repeats == 0 {
		t.Error("too little happened for this to show anything")
	}
}
