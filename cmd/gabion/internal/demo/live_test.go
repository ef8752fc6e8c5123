package demo

import (
	"bytes"
	"context"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/gabiontest"
)

// output collects what a run prints. It can be read while the run goes on.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

var pageLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

// address waits until the run has printed where its page is.
func (o *output) address(t *testing.T) string {
	t.Helper()
	for every := time.NewTicker(5 * time.Millisecond); ; <-every.C {
		if at := pageLine.FindString(o.String()); at != "" {
			every.Stop()
			return at
		}
		if t.Context().Err() != nil {
			t.Fatalf("no page in\n%s", o)
		}
	}
}

// get returns what the page has at a path, and its headers.
func get(t *testing.T, url string) (string, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(text), resp.Header
}

// The run opens with the page's address. While the page is looked at the outage is repeated, and
// what was seen of the run before stays, with the figures of the terminal's table.
func TestThePageShowsEveryRunAndGoesOnWhileItIsWatched(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a demo in real time")
	}
	var out, errs output
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, Command(), []string{"--plan", "testdata/short.yaml"}, &out, &errs)
	}()
	at := out.address(t)
	if strings.Contains(out.String(), "What to try next") {
		t.Error("the address comes last")
	}
	if page, _ := get(t, at); !strings.Contains(page, "answered in time") || !strings.Contains(page, `href="gabion/"`) {
		t.Errorf("the page is\n%s", page)
	}
	if own, _ := get(t, at+"gabion/"); !strings.Contains(own, html.EscapeString(titleOfOwn)) {
		t.Errorf("gabion's own page is\n%s", own)
	}
	for every := time.NewTicker(50 * time.Millisecond); ; <-every.C {
		now, h := get(t, at+"now.svg")
		if h.Get("Run") == "2" {
			break
		}
		for _, name := range []string{"loop", "keyed loop", "library", gabionName, "charged twice"} {
			if !strings.Contains(now, ">"+name+"<") {
				t.Fatalf("nothing says %s:\n%s", name, now)
			}
		}
	}
	earlier, _ := get(t, at+"earlier")
	if strings.Count(earlier, "<svg xmlns") != 1 {
		t.Errorf("of the run before there is\n%s", earlier)
	}
	for _, row := range tableOf(out.String()) {
		for _, figure := range row {
			if !strings.Contains(earlier, ">"+figure+"<") {
				t.Errorf("the terminal says %s of %v, and the page does not:\n%s", figure, row, out.String())
			}
		}
	}
	for code := -1; code < 0; { // it is not looked at any more
		select {
		case code = <-ended:
			if code != cli.ExitOK || !strings.Contains(out.String(), "begins again (2)") {
				t.Errorf("it ended with %d:\n%s%s", code, out.String(), errs.String())
			}
		case <-t.Context().Done():
			t.Fatal("it did not end")
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// tableOf are the three figures of each client that the first table of a terminal has.
func tableOf(text string) (rows [][]string) {
	row := regexp.MustCompile(`(?m)^  (?:loop|keyed loop|library|gabion) +(\S+ %) +(\S+) +(\S+)  +\S`)
	_, text, _ = strings.Cut(text, "after the outage")
	for _, m := range row.FindAllStringSubmatch(text, 4) {
		rows = append(rows, m[1:])
	}
	return rows
}

func TestThePageIsForThisMachineOnly(t *testing.T) {
	defer gabiontest.NoLeaks(t)
	l, err := goLive("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer l.close()
	for host, want := range map[string]int{"": 200, "localhost:1": 200, "attacker.example:80": 403, "attacker.example": 403} {
		req, err := http.NewRequest(http.MethodGet, l.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %s, want %d", host, resp.Status, want)
		}
	}
}

func TestWithoutAPageNothingIsServed(t *testing.T) {
	for _, args := range [][]string{{"--json"}, {"--page", "off"}} {
		req := &request{}
		c := req.command(func(_ *cobra.Command, words []string) int {
			if err := req.check(words); err != nil || req.page != noPage {
				t.Errorf("%v: page %q, %v", args, req.page, err)
			}
			return cli.ExitOK
		})
		if code := cli.Run(t.Context(), c, args, io.Discard, io.Discard); code != cli.ExitOK {
			t.Errorf("%v: %d", args, code)
		}
	}
	if l, err := goLive(noPage, nil); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := goLive("nowhere.invalid:1", nil); err == nil || !strings.Contains(err.Error(), "live page") {
		t.Errorf("an invalid address: %v", err)
	}
}

func TestAPageThatOthersReachIsSaidToBeOne(t *testing.T) {
	var out bytes.Buffer
	if (&live{address: "http://127.0.0.1:80/", open: true}).introduce(&out, false); !strings.Contains(out.String(), "Anyone who can reach this machine") {
		t.Errorf("no warning: %s", &out)
	}
}

func TestAnAddressThatIsNoneSaysWhatToWrite(t *testing.T) {
	for _, at := range []string{"8080", "nonsense", "127.0.0.1:99999999"} {
		if _, err := goLive(at, nil); err == nil || !strings.Contains(err.Error(), "such as 127.0.0.1:8080") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
