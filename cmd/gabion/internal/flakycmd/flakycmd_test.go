package flakycmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/lab/flaky"
)

func TestCalledWrongly(t *testing.T) {
	for _, c := range []struct {
		fact string
		args []string
		code int
		want string
	}{
		{"two plans", []string{"a", "b"}, cli.ExitUsage, "one plan is enough"},
		{"a plan and flags", []string{"error-storm", "--errors", "20%"}, cli.ExitUsage, "--errors makes a plan"},
		{"no such flag", []string{"--error", "20%"}, cli.ExitUsage, "unknown flag: --error; did you mean --errors?"},
		{"no such start", []string{"--start", "later"}, cli.ExitUsage, "neither first nor now"},
		{"a share without a unit", []string{"--errors", "20"}, cli.ExitFindings, "share"},
		{"an unknown status", []string{"--status", "200"}, cli.ExitFindings, "400 to 599"},
		{"what would be another key", []string{"--errors", "20%}, {kind: down"}, cli.ExitFindings, "share"},
		{"no such scenario", []string{"error-strom"}, cli.ExitUsage, "error-storm"},
		{"no such file", []string{"none.yaml"}, cli.ExitFailure, "no such file"},
		{"no such service", []string{"error-storm", "--service", "bd"}, cli.ExitUsage, "there is db"},
		{"an invalid port", []string{"--listen", "127.0.0.1:99999"}, cli.ExitFailure, "port"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var out, err bytes.Buffer
			if code := cli.Run(context.Background(), Command(), c.args, &out, &err); code != c.code || !strings.Contains(err.String(), c.want) {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, err.String())
			}
		})
	}
}

func TestFlagsMakeAPlan(t *testing.T) {
	var out, err bytes.Buffer
	args := []string{"--print-plan", "--errors", "20%", "--retry-after", "2s", "--latency", "lognormal 20ms/300ms", "--workers", "4", "--queue", "10", "--rate", "100/s",
		"--lost", "5%", "--cut", "1%", "--reset", "2%", "--hang", "3%", "--slow-body", "1s", "--honours-keys", "--at", "5s", "--for", "10s", "--ramp", "1s"}
	if code := cli.Run(context.Background(), Command(), args, &out, &err); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, err.String())
	}
	p, bad := flaky.Parse("printed", out.Bytes())
	if bad != nil {
		t.Fatalf("%v\n%s", bad, out.String())
	}
	if n := len(p.Faults()); n != 6 || p.Duration().Seconds() != 15 {
		t.Errorf("%d faults\n%s", n, out.String())
	}
}

// lines waits for what a command prints.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
	some chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.some <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *lines) find(form string) string {
	for {
		l.mu.Lock()
		found := regexp.MustCompile(form).FindString(l.text.String())
		l.mu.Unlock()
		if found != "" {
			return found
		}
		<-l.some
	}
}

func TestItServesAndSaysWhatCame(t *testing.T) {
	gabiontest.NoLeaks(t)
	for _, asJSON := range []bool{false, true} {
		ctx, stop := context.WithCancel(context.Background())
		said, out := &lines{some: make(chan struct{}, 1)}, &bytes.Buffer{}
		ended := make(chan int, 1)
		args := []string{"--listen", "127.0.0.1:0", "--lost", "99.999%", "--start", "now"}
		if asJSON {
			args = append(args, "--json")
		}
		go func() { ended <- cli.Run(ctx, Command(), args, out, said) }()
		url := said.find(`http://[0-9.:]+/`)
		by := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for range 2 {
			req, _ := http.NewRequest(http.MethodPost, strings.TrimSpace(url), nil)
			req.Header.Set("Idempotency-Key", "order 1")
			if resp, err := by.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				t.Errorf("it was answered: %v", resp.Status)
			}
		}
		stop()
		if code := <-ended; code != cli.ExitOK {
			t.Errorf("exit code %d: %s", code, said.text.String())
		}
		var c flaky.Counts
		switch {
		case asJSON && (json.Unmarshal(out.Bytes(), &c) != nil || c.Duplicates != 1):
			t.Errorf("%s", out.String())
		case !asJSON && !strings.Contains(out.String(), `"order 1"`):
			t.Errorf("%s", out.String())
		}
	}
}
