package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
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

// The run opens with the page's address, all four clients have tiles that count, and the outage
// repeats while the page has viewers.
func TestThePageShowsAllClientsAndTheRunGoesOnWhileItIsWatched(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a demo in real time")
	}
	var out, errs output
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- cli.Run(ctx, Command(), []string{"--seconds", "5"}, &out, &errs) }()
	at := out.address(t)
	if strings.Contains(out.String(), "What to try next") {
		t.Error("the address comes last")
	}
	resp, err := http.Get(at + "api/v1/stream")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for in := bufio.NewReader(resp.Body); len(seen) < 4; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %v", err, seen)
		}
		text, is := strings.CutPrefix(line, "data: ")
		if !is {
			continue
		}
		var frame struct {
			Tiles []struct {
				Name            string
				Calls, Attempts int64
			}
		}
		if err := json.Unmarshal([]byte(text), &frame); err != nil {
			t.Fatal(err)
		}
		for _, tile := range frame.Tiles {
			if tile.Calls > 0 && tile.Attempts >= tile.Calls {
				seen[tile.Name] = tile.Calls
			}
		}
	}
	for _, name := range []string{"loop", "keyed loop", "library", gabionName} {
		if seen[name] == 0 {
			t.Errorf("%s has no tile: %v", name, seen)
		}
	}
	for every := time.NewTicker(20 * time.Millisecond); !strings.Contains(out.String(), "begins again (2)"); <-every.C {
		if t.Context().Err() != nil {
			t.Fatalf("it did not begin again:\n%s", out.String())
		}
	}
	resp.Body.Close()
	if code := <-ended; code != exitOK || strings.Contains(out.String(), "begins again (3)") {
		t.Errorf("without viewers it ended with %d:\n%s%s", code, out.String(), errs.String())
	}
}

func TestThePageIsForThisMachineOnly(t *testing.T) {
	defer gabiontest.NoLeaks(t)
	l, err := goLive("127.0.0.1:0")
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
			if err := req.check(words, false); err != nil || req.page != noPage {
				t.Errorf("%v: page %q, %v", args, req.page, err)
			}
			return exitOK
		})
		if code := cli.Run(t.Context(), c, args, io.Discard, io.Discard); code != exitOK {
			t.Errorf("%v: %d", args, code)
		}
	}
	if l, err := goLive(noPage); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := goLive("nowhere.invalid:1"); err == nil || !strings.Contains(err.Error(), "live page") {
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
		if _, err := goLive(at); err == nil || !strings.Contains(err.Error(), "such as 127.0.0.1:8080") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// The page and the table define success differently. Both say so, and both judge all clients alike.
func TestALateSuccessCountsOnThePageForEveryClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := map[string]policy.Reason{}
		seen := gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if e.Kind == policy.KindReturned && e.Took > inTime {
				ended[e.Dependency] = e.Reason
			}
		})
		late := func(context.Context) error { time.Sleep(inTime + time.Second); return nil }
		other := count("loop", nil, seen)
		other.call(t.Context(), func(ctx context.Context) result { return result{ok: late(ctx) == nil} })
		_, mine := newGabion("http://127.0.0.1:1", policy.Policy{}, 1)
		defer mine.Observe(seen)()
		if err := mine.Run(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		if len(ended) != 2 || ended["loop"] != policy.None || ended[gabionName] != policy.None {
			t.Errorf("late successes ended with %v", ended)
		}
	})
	var out bytes.Buffer
	(&live{address: "http://127.0.0.1:80/"}).introduce(&out, false)
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, "The page knows no limit of 2 s") || !strings.Contains(title, "late successes count") {
		t.Errorf("the difference is not explained: %s, %s", text, title)
	}
}
