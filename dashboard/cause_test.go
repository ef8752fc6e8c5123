package dashboard

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// failed tells of n attempts that ended so, each of a call that failed.
func (l *log) failed(n int, class policy.Class, code string, reason policy.Reason) {
	for range n {
		l.call++
		l.tell(policy.Event{Kind: policy.KindAttemptSent, Attempt: 1, Call: l.call})
		l.tell(policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Call: l.call, Class: class, Code: code, Reason: reason})
		l.tell(policy.Event{Kind: policy.KindReturned, Attempt: 1, Call: l.call, Reason: policy.AttemptsExhausted})
	}
}

func TestTheCommonestFailureIsTheCause(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(l *log)
		want string
	}{
		{"errors of a server", func(l *log) {
			l.failed(799, policy.ClassServer, "503", policy.None)
			l.failed(2, policy.ClassNetwork, "", policy.None)
		}, "server 503 ×799"},
		{"timeouts say which", func(l *log) { l.failed(7, policy.ClassTimeout, "", policy.AttemptTimeout) }, "timeout, attempt timeout ×7"},
		{"an answer that says no is the caller's", func(l *log) {
			l.failed(90, policy.ClassClient, "404", policy.None)
			l.failed(9, policy.ClassServer, "500", policy.None)
		}, "server 500 ×9"},
		{"failures that are long over", func(l *log) {
			l.failed(20, policy.ClassServer, "503", policy.None)
			l.now += recently + time.Second
			l.failed(5, policy.ClassNetwork, "", policy.None)
		}, "network ×5"},
		{"opened by hand", func(l *log) { l.tell(moved(policy.StateClosed, policy.StateForcedOpen, breakers.Forced, nil)) }, ""},
		{"all is well", func(l *log) {
			l.calls(100, policy.ClassSuccess, "200", policy.None, time.Millisecond)
			l.failed(1, policy.ClassServer, "503", policy.None)
		}, ""},
	} {
		l := newLog()
		c.tell(l)
		got := ""
		if r := l.row(); r.Cause != nil {
			got = r.Cause.Text
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFailingCallsSayHowFarTheBreakerIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   policy.Breaker
		counts policy.Counts
		state  policy.BreakerState
		want   string
		opens  int
	}{
		{"too few calls", policy.Breaker{FailureRate: 0.5, Consecutive: policy.Off}, policy.Counts{Calls: 4, Failures: 4}, policy.StateClosed,
			"breaker: 100 % of 4 calls failed, 4 of the 30 calls needed so far, it opens at 50 %", 0},
		{"enough calls", policy.Breaker{FailureRate: 0.5}, policy.Counts{Calls: 40, Failures: 10, Slow: 4}, policy.StateClosed,
			"breaker: 25 % of 40 calls failed, 10 % were slow, it opens at 50 % or 20 in a row", 20},
		{"rows are usual", policy.Breaker{}, policy.Counts{Calls: 40, Failures: 36}, policy.StateClosed,
			"breaker: 90 % of 40 calls failed, it opens at 95 % or 57 in a row (not 20, since most calls fail and long rows of failures ended with a success: 7 now)", 57},
		{"others found it broken", policy.Breaker{}, policy.Counts{Calls: 40, Failures: 10}, policy.StateClosed,
			"breaker: 25 % of 40 calls failed, it opens at 95 % or 2 in a row (not 20, since others of the fleet found it broken)", 2},
		{"a number of failures", policy.Breaker{FailureRate: policy.Off, Failures: 9, Consecutive: policy.Off}, policy.Counts{Calls: 40, Failures: 8}, policy.StateClosed,
			"breaker: 20 % of 40 calls failed, it opens at 9 failures", 0},
		{"it is open", policy.Breaker{}, policy.Counts{}, policy.StateOpen, "", 0},
	} {
		l := newLog()
		l.failed(10, policy.ClassServer, "503", policy.None)
		l.sampled(policy.Policy{Breaker: c.rule}, func(s *gabion.Stats) {
			s.Main.Breaker.Counts, s.Main.Breaker.State = c.counts, c.state
			s.Main.Breaker.Run, s.Main.Breaker.RunOpens = 7, c.opens
		})
		got := ""
		for _, n := range l.row().Notes {
			if strings.HasSuffix(n.Text, "failed") {
				got = n.More
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if said := l.row().Breaker; said != "" && said != c.want || (said != "") != strings.Contains(c.want, "(not 20") {
			t.Errorf("%s: the page's answer has %q", c.name, said)
		}
	}
}

// What a note says to read has to be there.
func TestHelpLeadsToASection(t *testing.T) {
	links := []string{runbook + "gabionbreakeropen", runbook + "gabioncallsfailing"}
	for _, about := range refusalNotes {
		links = append(links, reasons+about.reason.String())
	}
	for _, link := range links {
		page, anchor, _ := strings.Cut(strings.TrimPrefix(link, docs), "#")
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ToLower(string(text)), "# "+anchor+"\n") {
			t.Errorf("docs/%s has no section %s", page, anchor)
		}
	}
}
