package pagecmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

const podEnv = "GABION_TEST_POD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(podEnv); kind != "" {
		servePod(kind == "sick")
		return
	}
	os.Exit(m.Run())
}

// servePod is a process with a page. A sick one fails, has an open breaker, and has another policy.
func servePod(sick bool) {
	p := policy.Policy{Retry: policy.Retry{Attempts: 1}}
	if sick {
		p.Retry.Attempts = 2
	}
	r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": p})
	if err != nil {
		panic(err)
	}
	page := dashboard.Handler(r)
	d, _ := r.Get("payments")
	for range 40 {
		_ = d.Run(context.Background(), func(context.Context) error {
			if sick {
				return errors.New("no")
			}
			return nil
		})
	}
	if b, ok := d.Breaker(""); ok && sick {
		b.Trip()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(http.Serve(l, page))
}

// spawn starts this program as a process with a page, and returns where it listens and what ends it.
func spawn(t *testing.T, kind string) (addr string, end func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), podEnv+"="+kind)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { _ = c.Process.Kill(); _ = c.Wait() }
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), end
}

func TestAPageOfProcessesWithoutAStore(t *testing.T) {
	a, _ := spawn(t, "well")
	b, endB := spawn(t, "well")
	c, _ := spawn(t, "sick")
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	all, err := pods("http://" + a + "/,http://" + b + "/, http://" + c + "/,http://ada:secret@" + strings.TrimPrefix(notFound.URL, "http://") + "/x/")
	if err != nil {
		t.Fatal(err)
	}
	serve := func() string {
		w := httptest.NewRecorder()
		fleetHandler(ofPods(all)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return w.Body.String()
	}
	body := serve()
	for _, says := range []string{
		"3 of 4 processes answer", `<td class="n">120<td class="n">`, c + ": 100 % of its calls fail, and 0 % of the median member&#39;s",
		`<td class="odd">` + c + " ", "Versions and policies: they differ", "No answer of " + strings.TrimPrefix(notFound.URL, "http://") + ": ",
	} {
		if !strings.Contains(body, says) {
			t.Errorf("the page does not have %q", says)
		}
	}
	if strings.Contains(body, "secret") {
		t.Error("the page has a password")
	}
	endB()
	if body = serve(); !strings.Contains(body, "2 of 4 processes answer") || !strings.Contains(body, "No answer of "+b+": ") {
		t.Error("a process that has ended is not named")
	}
	if t.Failed() {
		t.Log(body)
	}
}

func TestAPageOfProcessesIsCalledWrongly(t *testing.T) {
	for args, says := range map[string]string{
		"--of http://h/metrics":            "ends in a slash",
		"--of redis://h/":                  "ends in a slash",
		"--of http://h/,":                  "ends in a slash",
		"--of http://h/,http://h/":         "--of names h/ twice",
		"--of http://h/ calls.jsonl":       "neither a recording nor --store",
		"--of http://h/ --store redis://h": "neither a recording nor --store",
	} {
		var stderr strings.Builder
		if code := cli.Run(t.Context(), Command(), strings.Fields(args), &strings.Builder{}, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: code %d, %.200s", args, code, stderr.String())
		}
	}
}
