package gabionslog_test

import (
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
