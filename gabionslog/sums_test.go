package gabionslog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/policy"
)

func TestASumMattersAsMuchAsWhatItSums(t *testing.T) {
	opened := gabion.Event{Kind: policy.KindBreakerMoved, Dependency: "bank", From: policy.StateHalfOpen, To: policy.StateOpen}
	probes := gabion.Event{Kind: policy.KindBreakerMoved, Dependency: "bank", From: policy.StateOpen, To: policy.StateHalfOpen}
	for _, c := range []struct {
		fact          string
		first, counts gabion.Event
		want          slog.Level
	}{
		{"what opened after others got better is a warning", probes, opened, slog.LevelWarn},
		{"what got better after others opened is information", opened, probes, slog.LevelInfo},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n notebook
			o := observer(&n)
			for range 20 {
				o.Observe(t.Context(), c.first)
			}
			for range 5 {
				o.Observe(t.Context(), c.counts)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			o.Flush()
			all := strings.Split(strings.TrimSpace(n.text.String()), "\n")
			var last struct {
				Level slog.Level
				Count int
			}
			if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil || last.Level != c.want || last.Count != 5 {
				t.Errorf("%s: %s %v", c.fact, all[len(all)-1], err)
			}
		})
	}
}

func TestASumOfDecisionsSaysWhich(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		for _, code := range []string{"mismatch", "mismatch", "store_unavailable", "mismatch"} {
			o.Observe(t.Context(), gabion.Event{Kind: policy.KindKeyDecided, Dependency: "charges", Code: code})
		}
		for i := range 100 {
			o.Observe(t.Context(), gabion.Event{Kind: policy.KindMessageDisposed, Dependency: "billing", Code: fmt.Sprintf("dead_letter/%d", i)})
		}
		for range 3 {
			o.Observe(t.Context(), gabion.Event{Kind: policy.KindEventsLost, Dependency: "bank", Count: 7})
		}
		for range 4 {
			o.Observe(t.Context(), gabion.Event{Kind: policy.KindLettersLost, Dependency: "bills", Count: 9, Numbers: &policy.Numbers{Bytes: 100}})
		}
		o.Flush()
		text := n.text.String()
		for _, want := range []string{
			`"count":3,`, `"first_code":"mismatch","codes":{"mismatch":2,"store_unavailable":1}`,
			`"others":67`, // of codes without end, the first ones are told by name
			`"count":2,`, `"lost":14`, `"lost":27`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("nothing says %s:\n%s", want, text)
			}
		}
	})
}

func TestASwitchOfRetriesSaysWhoAndForHowLong(t *testing.T) {
	e := gabion.Event{Kind: policy.KindRetriesSwitched, Dependency: "db", Reason: policy.RetriesOff, At: second, Until: 61 * second, Code: "ada"}
	want := `level=WARN msg="gabion: retries_switched" dependency=db reason=retries_off on=false why="retries were switched off, for 1m0s, by ada"`
	if got := line(&gabionslog.Observer{}, e); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The reason of a call says why nothing followed. What was wrong with the dependency is how
// its attempts ended. Both are in one line.
func TestFailedCallsTellTheirCauseBesideTheirReason(t *testing.T) {
	for fact, c := range map[string]struct {
		p    policy.Policy
		work func(context.Context) error
		want []string // in the first line, and in that which sums up the others
	}{
		"attempts time out, and no time is left": {
			policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Second, Attempt: 900 * time.Millisecond}, Retry: policy.Retry{Hold: policy.Off}, Breaker: policy.Breaker{Off: true}},
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			[]string{`"reason":"deadline_short"`, `"last_attempt":"timeout"`, `"first_reason":"deadline_short"`, `"last_attempts":{"timeout":4}`},
		},
		"an answer has a word of its own": {
			policy.Policy{Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}},
			func(context.Context) error { return answer{} },
			[]string{`"reason":"attempts_exhausted"`, `"code":"503"`, `"first_reason":"attempts_exhausted"`, `"last_attempts":{"503":4}`},
		},
		"nothing was sent": {
			policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}},
			nil,
			[]string{`"reason":"bulkhead_full"`, `"first_reason":"bulkhead_full","effect_unknown":0,"succeeded":0}`},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n notebook
			o := observer(&n)
			d := gabion.New("bank", c.p, gabion.WithObserver(o), gabion.WithSeed(1))
			for range 5 {
				if c.work != nil {
					d.Run(t.Context(), c.work)
					continue
				}
				o.Observe(t.Context(), gabion.Event{Kind: policy.KindReturned, Dependency: "bank", Reason: policy.BulkheadFull})
			}
			o.Flush()
			for _, want := range c.want {
				if text := n.text.String(); !strings.Contains(text, want) {
					t.Errorf("%s: nothing says %s:\n%s", fact, want, text)
				}
			}
		})
	}
}

type answer struct{}

func (answer) Error() string { return "503" }

func (answer) Outcome() policy.Outcome { return policy.Outcome{Class: policy.ClassServer, Code: "503"} }
