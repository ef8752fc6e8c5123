package stormcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/lab/flaky"
)

// failing serves a plan, and returns its URL.
func failing(t *testing.T, plan string) string {
	t.Helper()
	p, err := flaky.Parse("plan", []byte("version: 1\n"+plan))
	if err != nil {
		t.Fatal(err)
	}
	s, err := flaky.New(p, flaky.Options{})
	if err != nil {
		t.Fatal(err)
	}
	on := httptest.NewServer(s)
	t.Cleanup(func() { _ = s.Close(); on.Close() })
	return on.URL
}

// between is a user's service: it asks the server again until it answers, with or without
// the caller's key.
func between(t *testing.T, server string, tries int) string {
	t.Helper()
	base := &http.Transport{}
	on := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range tries {
			req, err := http.NewRequestWithContext(r.Context(), r.Method, server, nil)
			if err != nil {
				break
			}
			req.Header.Set("Idempotency-Key", r.Header.Get("Idempotency-Key"))
			resp, err := base.RoundTrip(req)
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(func() { on.Close(); base.CloseIdleConnections() })
	return on.URL
}

func storming(t *testing.T, args ...string) (r report, text string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = cli.Run(context.Background(), Command(), append([]string{"--rate", "200/s", "--duration", "500ms"}, args...), &out, &err)
	if json.Unmarshal(out.Bytes(), &r) != nil {
		r = report{}
	}
	return r, out.String() + err.String(), code
}

func TestAClientIsTestedByTwoCommands(t *testing.T) {
	gabiontest.NoLeaks(t)
	const errors = "faults: [{kind: errors, share: 50%, at: 0s, for: 1h}]"
	const lost = "faults: [{kind: lost_answers, share: 50%, at: 0s, for: 1h}]"
	for _, c := range []struct {
		fact, plan string
		tries      int
		args       []string
		code       int
		missed     string
	}{
		{"no retries: the success is missed", errors, 1, []string{"--min-success", "95%", "--max-amplification", "1.2"}, cli.ExitFindings, "success"},
		{"retries without a bound: the amplification is", errors, 20, []string{"--min-success", "95%", "--max-amplification", "1.2"}, cli.ExitFindings, "amplification"},
		{"nothing is wrong: all is met", "", 1, []string{"--min-success", "100%", "--max-amplification", "1", "--max-duplicates", "0", "--max-p99", "30s"}, cli.ExitOK, ""},
		{"lost answers that are sent again are done again", lost, 20, []string{"--max-duplicates", "0"}, cli.ExitFindings, "duplicates"},
		{"unless the server honours keys", "service: {honours_keys: true}\n" + lost, 20, []string{"--max-duplicates", "0"}, cli.ExitOK, ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			server := failing(t, c.plan)
			r, text, code := storming(t, append(c.args, between(t, server, c.tries), "--server", server, "--keys", "--json")...)
			if code != c.code || r.Calls != 100 || r.Sent != 100 {
				t.Fatalf("exit code %d: %s", code, text)
			}
			for _, th := range r.Thresholds {
				if th.Met == (th.Name == c.missed) {
					t.Errorf("%+v", th)
				}
			}
		})
	}
}

// A storm does not wait for answers: that would hide how bad it is.
func TestTheLoadDoesNotDependOnTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storm{url: "http://server/", method: http.MethodGet, rate: 100, duration: time.Second, timeout: time.Minute, maxOpen: 1000, seed: 1}
		slow := &http.Client{Transport: answering(func(*http.Request) { time.Sleep(5 * time.Second) })}
		calls, most := s.send(t.Context(), slow)
		if len(calls) != 100 || most != 100 {
			t.Errorf("%d requests, %d at once", len(calls), most)
		}
		for i, c := range calls {
			if !c.good || c.took != 5*time.Second || c.late != 0 {
				t.Fatalf("request %d: %+v", i, c)
			}
		}
	})
}

// What has no room counts as failed, and is said.
func TestWhatHasNoRoomIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := request{storm: storm{url: "http://server/", method: http.MethodGet, rate: 100, duration: time.Second, timeout: time.Minute, maxOpen: 10, seed: 1}}
		calls, most := req.send(t.Context(), &http.Client{Transport: answering(func(*http.Request) { time.Sleep(5 * time.Second) })})
		r := req.measure(calls, most)
		if r.Calls != 100 || r.Sent != 10 || r.NotSent != 90 || r.Success != 0.1 || r.MostOpen != 10 {
			t.Errorf("%+v", r)
		}
		var text strings.Builder
		r.print(&text)
		if !strings.Contains(text.String(), "NOT SENT    90") {
			t.Error(text.String())
		}
	})
}

// A request that was sent late is late: what stood in its way was seen by it.
func TestLatencyCountsFromTheIntendedMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storm{url: "http://server/", method: http.MethodGet, rate: 10, duration: time.Second, timeout: time.Minute, maxOpen: 10, poisson: true, seed: 3}
		for n := range 10 {
			if at := s.moment(n); at < time.Duration(n)*100*time.Millisecond || at >= time.Duration(n+1)*100*time.Millisecond {
				t.Errorf("request %d is meant to be sent at %v", n, at)
			}
		}
		start := time.Now()
		var mu sync.Mutex // guards at
		var at []time.Duration
		calls, _ := s.send(t.Context(), &http.Client{Transport: answering(func(*http.Request) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
		})})
		for i, c := range calls {
			if at[i] != s.moment(i) || c.took != 0 {
				t.Errorf("request %d was sent at %v, meant for %v", i, at[i], s.moment(i))
			}
		}
	})
}

// answering is a server without a network.
type answering func(*http.Request)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a(r)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestAStormCanBeInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	on := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop() }))
	defer on.Close()
	var out, err bytes.Buffer
	if code := cli.Run(ctx, Command(), []string{on.URL, "--duration", "1h", "--rate", "10/s"}, &out, &err); code != cli.ExitInterrupted || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("exit code %d: %s%s", code, out.String(), err.String())
	}
}

func TestAHostThatIsNotThereIsNamedBeforeTheStorm(t *testing.T) {
	gone := fmt.Errorf("dial: %w", &net.DNSError{Err: "no such host", Name: "shop.invalid", IsNotFound: true})
	if why(gone) != unknownHost {
		t.Error(why(gone))
	}
	if away := (&net.DNSError{Err: "server misbehaving", Name: "shop.invalid"}); why(away) != "no answer" {
		t.Error(why(away))
	}
}

func TestOnlyThisMachine(t *testing.T) {
	for _, target := range []string{"http://192.0.2.1:9/", "http://[2001:db8::1]/"} {
		_, text, code := storming(t, target, "--rate", "10/s", "--duration", "100ms", "--timeout", "100ms")
		if code != cli.ExitFailure || !strings.Contains(text, "needs --remote") {
			t.Errorf("%s: exit code %d: %s", target, code, text)
		}
	}
	from := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusFound))
	defer from.Close()
	if r, text, _ := storming(t, from.URL, "--json"); r.Answers["302"] != r.Calls || r.Calls == 0 {
		t.Errorf("a redirection was followed: %s", text)
	}
}

func TestCalledWrongly(t *testing.T) {
	const here = "http://127.0.0.1:1/"
	for _, c := range []struct {
		fact string
		args []string
		want string
	}{
		{"no URL", nil, "one URL is wanted"},
		{"two", []string{here, here}, "not 2"},
		{"none that is one", []string{"localhost:8080"}, "is no URL"},
		{"a rate without a unit", []string{here, "--rate", "50"}, "is no rate"},
		{"a rate of nothing", []string{here, "--rate", "0/s"}, "is no rate"},
		{"too much", []string{here, "--rate", "20000/s"}, "is no rate"},
		{"too many", []string{here, "--rate", "10000/s", "--duration", "1h"}, "too many"},
		{"too long", []string{here, "--duration", "2h"}, "out of range"},
		{"a share without a unit", []string{here, "--min-success", "95"}, "is no share"},
		{"no server to count at", []string{here, "--max-amplification", "1.2"}, "name it with --server"},
		{"an invalid header", []string{here, "--header", "x"}, "NAME: VALUE"},
		{"an invalid method", []string{here, "--method", "G T"}, "method"},
		{"a negative threshold", []string{here, "--max-p99", "-1s"}, "negative"},
		{"no room", []string{here, "--max-open", "0"}, "out of range"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var out, err bytes.Buffer
			if code := cli.Run(context.Background(), Command(), c.args, &out, &err); code != cli.ExitUsage || !strings.Contains(err.String(), c.want) {
				t.Errorf("exit code %d: %s", code, err.String())
			}
		})
	}
}

func TestAServerThatIsNoneIsNoServer(t *testing.T) {
	on := httptest.NewServer(http.NotFoundHandler())
	defer on.Close()
	if _, text, code := storming(t, on.URL, "--server", on.URL); code != cli.ExitFailure || !strings.Contains(text, "not what a gabion flaky") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if _, text, code := storming(t, on.URL, "--min-success", "1%"); code != cli.ExitFindings || !strings.Contains(text, "MISSED") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
