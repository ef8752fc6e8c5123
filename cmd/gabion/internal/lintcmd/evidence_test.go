package lintcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// A source is what a dependency was measured by: successes of so long, and calls that failed.
type sourced struct {
	succeeded, failed, retried, cut int
	opened                          bool
}

const quick = 10 * time.Millisecond

// recorded writes it as a recording.
func (s sourced) recorded(t *testing.T) string {
	return lives(t, policy.Policy{Safe: s.retried > 0, Retry: policy.Retry{Hold: policy.Off, Budget: policy.Budget{Off: true}},
		Timeout: policy.Timeout{Attempt: time.Second, Strict: true}, Breaker: policy.Breaker{Off: !s.opened, Consecutive: 25}}, nil, func(d *gabion.Dependency) {
		does(d, s.succeeded, quick, nil)
		does(d, s.failed, quick, errDown)
		for range s.retried {
			n := 0
			_, _ = gabion.Do(context.Background(), d, func(context.Context) (int, error) {
				if n++; n == 1 {
					return 0, errDown
				}
				return 0, nil
			})
		}
		does(d, s.cut, 2*time.Second, nil)
		if s.opened {
			does(d, 30, quick, errDown)
		}
	})
}

// exposed writes it as contrib/gabionprom does.
func (s sourced) exposed(t *testing.T) string {
	var b strings.Builder
	opens := 0
	if s.opened {
		opens = 1
	}
	fmt.Fprintf(&b, `# TYPE gabion_calls_total counter
gabion_calls_total{dependency="stock",outcome="ok"} %d
gabion_calls_total{dependency="stock",outcome="attempts_exhausted"} %d
# TYPE gabion_attempts_total counter
gabion_attempts_total{dependency="stock",kind="first",result="success"} %d
gabion_attempts_total{dependency="stock",kind="retry",result="success"} %d
# TYPE gabion_timeouts_total counter
gabion_timeouts_total{dependency="stock",layer="attempt"} %d
# TYPE gabion_breaker_opens_total counter
gabion_breaker_opens_total{dependency="stock"} %d
# TYPE gabion_attempt_duration_seconds histogram
gabion_attempt_duration_seconds_bucket{dependency="stock",result="success",le="0.01"} %[7]d
gabion_attempt_duration_seconds_bucket{dependency="stock",result="success",le="+Inf"} %[7]d
gabion_attempt_duration_seconds_sum{dependency="stock",result="success"} 1
gabion_attempt_duration_seconds_count{dependency="stock",result="success"} %[7]d
`, s.succeeded+s.retried, s.failed+s.cut, s.succeeded+s.failed+s.cut+s.retried, s.retried, s.cut, opens, s.succeeded+s.retried)
	name := filepath.Join(t.TempDir(), "metrics.txt")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// shown serves it as a living page does.
func (s sourced) shown(t *testing.T) string {
	state, total := "closed", s.succeeded+s.failed+s.cut+s.retried
	if s.opened {
		state = "half_open"
	}
	var took formulas.Counts
	took.Add(quick, int64(s.succeeded+s.retried))
	counts, err := json.Marshal(took)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"version": 1, "observed_ms": 60000, "dependencies": [{"name": "stock", "calls": %d, "succeeded": %d, "attempts": %d, "retries": %d,
			"failures": {"attempts_exhausted": %d}, "took": %s, "cut": %d, "state": %q}]}`,
			total, s.succeeded+s.retried, total+s.retried, s.retried, s.failed+s.cut, counts, s.cut, state)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// Nothing is shortened from few successes or out of a time of trouble, whichever source
// tells: the output says why, and --write leaves the file alone.
func TestNothingIsShortenedOnTooLittleEvidence(t *testing.T) {
	sources := map[string]func(sourced, *testing.T) string{"a recording": sourced.recorded, "metrics": sourced.exposed, "a living page": sourced.shown}
	for fact, c := range map[string]struct {
		was  sourced
		kept string
	}{
		"a thousand successes and no trouble": {sourced{succeeded: 1000}, ""},
		"a failure among thousands":           {sourced{succeeded: 3000, failed: 3}, ""},
		"195 successes":                       {sourced{succeeded: 195}, "195 successes: 1,000 are needed to shorten a timeout"},
		"one of a hundred calls failed":       {sourced{succeeded: 1980, failed: 20}, "1 % of the calls failed in that time"},
		"retries rescued the calls":           {sourced{succeeded: 1960, retried: 40}, "attempts were repeats of one that failed in that time"},
		"attempts hung":                       {sourced{succeeded: 1900, cut: 100}, "5 % of the calls failed in that time"},
		"some attempts hung":                  {sourced{succeeded: 3000, cut: 4}, "4 of 3004 attempts ended before an answer"},
		"a breaker opened":                    {sourced{succeeded: 3000, opened: true}, "a breaker opened in that time"},
	} {
		for source, of := range sources {
			t.Run(fact+"/"+source, func(t *testing.T) {
				text := "version: 1\ndependencies:\n  stock: {timeout: {attempt: 14s}}\n"
				file, from := written(t, text), of(c.was, t)
				_, out, _ := doctor(t, from, "--config", file)
				out = flat(out)
				_, _, stderr := doctor(t, from, "--config", file, "--write")
				after, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if c.kept == "" {
					if strings.Contains(out, "nothing is shortened") || !strings.Contains(string(after), "attempt: 7.5s") {
						t.Errorf("%s%s\n%s", out, stderr, after)
					}
					return
				}
				if !strings.Contains(out, "nothing is shortened: ") || !strings.Contains(out, c.kept) || strings.Contains(out, "G032") || string(after) != text {
					t.Errorf("%s%s\n%s", out, stderr, after)
				}
			})
		}
	}
}

// The same samples give the same proposal, whichever source tells them; once it is written, there is
// no other.
func TestSourcesProposeTheSame(t *testing.T) {
	for fact, c := range map[string]struct {
		was           sourced
		attempt, want string
	}{
		"far above":                        {sourced{succeeded: 1200}, "14s", "attempt: 7.5s"},
		"few, in an incident":              {sourced{succeeded: 110, failed: 60, opened: true}, "14s", ""},
		"what is cut off can't be seen":    {sourced{succeeded: 195, cut: 5}, "12ms", "attempt: 4s"},
		"others took longer than the file": {sourced{succeeded: 1200}, "5ms", "attempt: 4s"},
		"what hangs is cut off":            {sourced{succeeded: 195, cut: 5}, "1s", ""},
	} {
		for source, from := range map[string]string{"a recording": c.was.recorded(t), "metrics": c.was.exposed(t), "a living page": c.was.shown(t)} {
			text := "version: 1\ndependencies:\n  stock: {timeout: {attempt: " + c.attempt + "}}\n"
			file := written(t, text)
			_, out, _ := doctor(t, from, "--config", file)
			_, _, stderr := doctor(t, from, "--config", file, "--write")
			after, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && string(after) != text || !strings.Contains(string(after), c.want) {
				t.Errorf("%s, %s: %s%s%s", fact, source, out, stderr, after)
			}
			if _, again, _ := doctor(t, from, "--config", file); strings.Contains(again, "+++") {
				t.Errorf("%s, %s: then\n%s", fact, source, again)
			}
		}
	}
}

// A call that ends before answers that others waited for is reported, and its attempts get all of it,
// once.
func TestACallThatEndsBeforeItsAnswersIsTold(t *testing.T) {
	was := sourced{succeeded: 1200}
	for source, from := range map[string]string{"a recording": was.recorded(t), "metrics": was.exposed(t), "a living page": was.shown(t)} {
		file := written(t, "version: 1\ndependencies:\n  stock: {timeout: {call: 4ms, attempt: 2ms}}\n")
		code, out, _ := doctor(t, from, "--config", file)
		if code != cli.ExitFindings || !strings.Contains(flat(out), "p99 of 1200 answers is above 5ms, and timeout.call is 4ms") {
			t.Errorf("%s: code %d\n%s", source, code, out)
		}
		_, _, stderr := doctor(t, from, "--config", file, "--write")
		if after, err := os.ReadFile(file); err != nil || !strings.Contains(string(after), "{call: 4ms, attempt: 4ms}") {
			t.Errorf("%s: %v %s%s", source, err, stderr, after)
		}
		if _, again, _ := doctor(t, from, "--config", file); strings.Contains(again, "+++") || strings.Contains(again, "timeout.attempt") {
			t.Errorf("%s: then\n%s", source, again)
		}
	}
}

// What net/http sends again, gabionhttp charges to the budget: nothing is to be switched off.
func TestWhatNetHTTPSentAgainIsNoFinding(t *testing.T) {
	of := sourced{succeeded: 1000}
	calls, metrics := of.recorded(t), of.exposed(t)
	add(t, calls, recordOf(t, policy.Event{Kind: policy.KindResent, Dependency: "stock", At: 1, Count: 400}))
	add(t, metrics, "# TYPE gabion_resent_below_total counter\ngabion_resent_below_total{dependency=\"stock\"} 400\n")
	for source, from := range map[string]string{"a recording": calls, "metrics": metrics} {
		_, out, stderr := doctor(t, from, "--config", written(t, "version: 1\ndependencies: {stock: {facts: {inner: 1}}}\n"))
		if strings.Contains(out, "G043") || !strings.Contains(out, "no findings in 1 file") || stderr != "" {
			t.Errorf("%s: %s%s", source, out, stderr)
		}
	}
}

// recordOf is an event as recordings write it.
func recordOf(t *testing.T, e policy.Event) string {
	t.Helper()
	var b strings.Builder
	w := record.NewWriter(&b)
	w.Observe(t.Context(), e)
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func add(t *testing.T, file, text string) {
	t.Helper()
	was, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(was, text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
