package dashboard

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// A log is fed to a collector by a clock of its own.
type log struct {
	c    *collector
	now  time.Duration
	call uint64
}

func newLog() *log { return &log{c: newCollector(), now: time.Hour} }

func (l *log) tell(e policy.Event) {
	e.Dependency = cmp.Or(e.Dependency, "bank")
	e.At = policy.Instant(l.now)
	l.c.observe(func() time.Duration { return l.now }, &e)
}

// call tells a call of one attempt that ended so.
func (l *log) calls(n int, class policy.Class, code string, reason policy.Reason, took time.Duration) {
	for range n {
		l.call++
		l.tell(policy.Event{Kind: policy.KindAttemptSent, Attempt: 1, Call: l.call, Left: policy.NoDeadline})
		l.tell(policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Call: l.call, Class: class, Code: code, Took: took})
		l.tell(policy.Event{Kind: policy.KindReturned, Attempt: 1, Call: l.call, Reason: reason, Code: code, Took: took})
	}
}

func (l *log) row() row {
	return l.c.rows(&view{now: l.now, origin: time.Unix(0, 0)}, false)[0]
}

func (l *log) detail() *detail {
	t := (*l.c.tiles.Load())["bank"]
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.detail(&view{now: l.now, origin: time.Unix(0, 0)})
}

func moved(from, to policy.BreakerState, why policy.BreakerCause, n *policy.Numbers) policy.Event {
	return policy.Event{Kind: policy.KindBreakerMoved, From: from, To: to, Cause: why, Numbers: n}
}

// What a tile says of its breaker when events are all that is known.
func TestTileSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name  string
		event policy.Event
		until time.Duration
		state string
		tone  string
		text  string
		then  string
	}{
		{
			"opened by its failure rate", moved(policy.StateClosed, policy.StateOpen, breakers.FailureRate,
				&policy.Numbers{Calls: 40, Failures: 21, Rule: 0.5}), 8200 * time.Millisecond,
			"open", toneTrouble, "failure 53 % ≥ 50 % of 40 calls", "next probe at the latest",
		},
		{
			"opened by slow calls", moved(policy.StateClosed, policy.StateOpen, breakers.SlowRate,
				&policy.Numbers{Calls: 20, Slows: 17, Rule: 0.8}), time.Second,
			"open", toneTrouble, "slow 85 % ≥ 80 % of 20 calls", "next probe at the latest",
		},
		{
			"opened by failures in the window", moved(policy.StateClosed, policy.StateOpen, breakers.Failures,
				&policy.Numbers{Failures: 5, Rule: 5}), time.Second,
			"open", toneTrouble, "5 failures ≥ 5 in the window", "next probe at the latest",
		},
		{
			"opened by a row of failures", moved(policy.StateClosed, policy.StateOpen, breakers.Consecutive,
				&policy.Numbers{Rule: 20}), time.Second,
			"open", toneTrouble, "20 failures in a row", "next probe at the latest",
		},
		{
			"forced open by hand", policy.Event{
				Kind: policy.KindBreakerMoved, To: policy.StateForcedOpen, Cause: breakers.Forced, Code: "ann", Until: policy.Never,
			}, 0, "forced_open", toneTrouble, "forced open by hand (ann): every call is refused", "ends",
		},
		{
			"disabled", moved(policy.StateClosed, policy.StateDisabled, breakers.Forced, nil), time.Minute,
			"disabled", toneHand, "disabled by hand: every call is let through", "ends",
		},
		{
			"observing", moved(policy.StateClosed, policy.StateObserveOnly, breakers.Forced, nil), time.Minute,
			"observe_only", toneHand, "only observing by hand: nothing is refused", "ends",
		},
		{
			"closed again", moved(policy.StateHalfOpen, policy.StateClosed, breakers.ProbesPassed, nil), 0,
			"closed", toneGood, "closed again: the probes succeeded", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLog()
			if c.until > 0 {
				c.event.Until = policy.Instant(l.now + c.until)
			}
			l.tell(c.event)
			at := l.now
			l.now += 500 * time.Millisecond
			r := l.row()
			want := note{Tone: c.tone, Text: c.text, Since: at.Milliseconds(), Then: c.then}
			if c.state == "open" {
				want.Head, want.Help = "open", runbook+"gabionbreakeropen"
			}
			switch {
			case c.until > 0:
				want.Until = (at + c.until).Milliseconds()
			case c.event.Until == policy.Never:
				want.Until = -1
			}
			if r.State != c.state || r.Tone != c.tone || len(r.Notes) != 1 || r.Notes[0] != want {
				t.Errorf("state %s, tone %s, notes %+v\nwant %s, %s, %+v", r.State, r.Tone, r.Notes, c.state, c.tone, want)
			}
		})
	}
}

func TestTileCountsTheLastHalfMinute(t *testing.T) {
	l := newLog()
	l.calls(80, policy.ClassSuccess, "200", policy.None, 10*time.Millisecond)
	l.calls(20, policy.ClassServer, "503", policy.AttemptsExhausted, 20*time.Millisecond)
	l.now += time.Second
	r := l.row()
	if r.Calls != 100 || r.Attempts != 100 || *r.Amp != 1 || *r.Good != 0.8 || r.Outcomes != (outcomes{First: 80, Failed: 20}) {
		t.Errorf("%+v, amplification %v, answered %v", r, *r.Amp, *r.Good)
	}
	if r.Second == nil || *r.Second != [3]uint32{100, 20, 0} {
		t.Errorf("the second is %v", r.Second)
	}
	if l := r.Latency; l.P50 < 9.4 || l.P50 > 10.6 || l.P99 < 18.8 || l.P99 > 21.2 {
		t.Errorf("latency %+v, want 10 and 20 ms within 6 %%", *l)
	}
	if e := r.Errors[0]; e.Class != "server" || e.Code != "503" || e.Count != 20 {
		t.Errorf("errors %+v", r.Errors)
	}
	l.now += 40 * time.Second
	if r := l.row(); r.Calls != 0 || r.Amp != nil || r.Latency != nil || r.Tone != toneQuiet {
		t.Errorf("40 s later: %+v", r)
	}
	if d := l.detail(); (*d.Row.History)[historySeconds-2-40] != [3]uint32{100, 20, 0} {
		t.Errorf("the history forgot: %v", *d.Row.History)
	}
	l.now += 2 * time.Minute
	if d := l.detail(); strings.Contains(fmt.Sprint(*d.Row.History), "100") {
		t.Errorf("the history remembers what is over: %v", *d.Row.History)
	}
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		name  string
		event policy.Event
		want  outcomes
	}{
		{"first attempt", policy.Event{Attempt: 1}, outcomes{First: 1}},
		{"after a retry", policy.Event{Attempt: 2}, outcomes{Rescued: 1}},
		{"by a hedge", policy.Event{Attempt: 1, Hedge: true}, outcomes{Rescued: 1}},
		{"a valid no", policy.Event{Attempt: 1, Reason: policy.NotRetryable}, outcomes{Answered: 1}},
		{"exhausted", policy.Event{Attempt: 3, Reason: policy.AttemptsExhausted}, outcomes{Failed: 1}},
		{"timed out", policy.Event{Attempt: 1, Reason: policy.CallTimeout}, outcomes{Failed: 1}},
		{"refused before anything was sent", policy.Event{Reason: policy.BreakerOpen}, outcomes{Refused: 1}},
		{"refused after an attempt failed", policy.Event{Attempt: 1, Reason: policy.BreakerOpen}, outcomes{Failed: 1}},
		{"the caller left", policy.Event{Attempt: 1, Reason: policy.Canceled}, outcomes{Left: 1}},
	} {
		l := newLog()
		c.event.Kind, c.event.Call = policy.KindReturned, 1
		l.tell(c.event)
		r := l.row()
		if r.Outcomes != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, r.Outcomes, c.want)
		}
		if good := c.want.First+c.want.Rescued+c.want.Answered == 1; c.want.Left == 0 && (*r.Good == 1) != good || c.want.Left == 1 && r.Good != nil {
			t.Errorf("%s: answered is %v", c.name, r.Good)
		}
	}
}

func TestRefusalsComeWithTheirNumbers(t *testing.T) {
	l := newLog()
	for range 14 {
		l.tell(policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.BulkheadFull, Numbers: &policy.Numbers{Limit: 8, InUse: 8, Queued: 4}})
	}
	r := l.row()
	want := note{Tone: toneWarning, Text: "14 attempts turned away: no slot is free", About: "limit 8, 4 queued", Since: l.now.Milliseconds(), Help: reasons + "bulkhead_full"}
	if r.Notes[0] != want || r.Tone != toneWarning {
		t.Errorf("%+v, want %+v", r.Notes, want)
	}
	if d := l.detail(); d.Refusals[0] != (refused{"bulkhead_full", 14, l.now.Milliseconds(), "limit 8, 4 queued"}) {
		t.Errorf("%+v", d.Refusals)
	}
}

// A retry that was not tried is counted once, whichever events tell of it.
func TestRetriesThatWereNotTriedAreCountedOnce(t *testing.T) {
	l := newLog()
	for call := range uint64(6) {
		l.tell(policy.Event{Kind: policy.KindAttemptSent, Attempt: 1, Call: call + 1})
		reason := policy.BudgetExhausted
		if call >= 4 {
			reason = policy.BulkheadFull
			l.tell(policy.Event{Kind: policy.KindAttemptRefused, Attempt: 2, Call: call + 1, Reason: reason})
		}
		l.tell(policy.Event{Kind: policy.KindReturned, Attempt: 1, Call: call + 1, Reason: reason})
	}
	got := map[string]uint32{}
	for _, r := range l.detail().Refusals {
		got[r.Reason] = r.Count
	}
	if len(got) != 2 || got["budget_exhausted"] != 4 || got["bulkhead_full"] != 2 {
		t.Errorf("%v", got)
	}
}

// A call that failed can be read again, decision by decision.
func TestStoryOfACall(t *testing.T) {
	l := newLog()
	l.call = 7
	tell := func(after time.Duration, e policy.Event) {
		l.now += after
		e.Call, e.Operation = 7, "charge"
		l.tell(e)
	}
	tell(0, policy.Event{Kind: policy.KindAttemptSent, Attempt: 1, Left: time.Second})
	tell(40*time.Millisecond, policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Class: policy.ClassServer, Code: "503", Took: 40 * time.Millisecond})
	tell(0, policy.Event{Kind: policy.KindWaiting, Wait: terms.ForBackoff, Until: policy.Instant(l.now + 100*time.Millisecond), Attempt: 2})
	tell(100*time.Millisecond, policy.Event{
		Kind: policy.KindAttemptRefused, Reason: policy.BudgetExhausted, Attempt: 2,
		Numbers: &policy.Numbers{Level: 0.2, Ratio: 0.3, Successes: 12, Window: time.Second},
	})
	tell(0, policy.Event{Kind: policy.KindReturned, Reason: policy.BudgetExhausted, Attempt: 1, Took: 140 * time.Millisecond, Code: "503"})
	calls := l.detail().Calls
	if len(calls) != 1 || calls[0].Operation != "charge" || calls[0].Took != 140 || calls[0].Outcome != "budget exhausted, last answer 503" {
		t.Fatalf("%+v", calls)
	}
	var lines []string
	for _, s := range calls[0].Steps {
		lines = append(lines, fmt.Sprintf("+%v %s %s [%s]", s.After, s.Kind, s.Tone, s.Setting))
		if s.Text == "" {
			t.Errorf("%s says nothing", s.Kind)
		}
	}
	want := `+0 attempt_sent quiet [timeout.attempt]
+40 attempt_settled trouble []
+40 waiting quiet [retry.backoff.base]
+140 attempt_refused warning [retry.budget.ratio]
+140 returned trouble [retry.budget.ratio]`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// In an outage the calls of its beginning are still there, and those that ended otherwise.
func TestStoriesThatEndAlikeLeaveRoom(t *testing.T) {
	l := newLog()
	l.calls(1, policy.ClassTimeout, "", policy.CallTimeout, time.Second)
	for range 30 {
		l.calls(100, policy.ClassServer, "503", policy.AttemptsExhausted, time.Millisecond)
		l.now += time.Second
	}
	if calls := l.detail().Calls; len(calls) != 1+alikeStories || calls[len(calls)-1].Outcome != "call timeout" {
		t.Errorf("%d calls: %+v", len(calls), calls)
	}
	l.calls(1000, policy.ClassSuccess, "", policy.None, time.Millisecond)
	if n := len(l.detail().Calls); n != 1+alikeStories {
		t.Errorf("%d calls: what went well is no story", n)
	}
}

// The partitions that deserve to be looked at come first, and one that is open decides what
// the tile shows.
func TestTroubledPartitionLeads(t *testing.T) {
	s := gabion.Stats{Name: "bank"}
	s.Main.Guarded = true
	for n := range 300 {
		one := policy.PartitionStats{Name: fmt.Sprintf("host-%03d", n), Guarded: true}
		one.Breaker.FailureRate = -1
		switch n {
		case 17:
			one.Breaker.State = policy.StateHalfOpen
		case 200:
			one.Breaker.State = policy.StateOpen
		case 250:
			one.Breaker.FailureRate = 0.2
		}
		s.Partitions = append(s.Partitions, one)
	}
	l := newLog()
	l.c.sample(l.now, &s, policy.Policy{}.Resolved())
	l.tell(policy.Event{Kind: policy.KindAttemptSent})
	d := l.detail()
	if d.Row.State != "open" || d.Row.Partitions != 300 || d.Row.Troubled != 2 || !strings.HasSuffix(d.Row.Notes[0].Text, "(host-200 and 1 more of 300)") {
		t.Errorf("%+v", d.Row)
	}
	if len(d.Partitions) != 3 || d.Partitions[0].Name != "host-200" || d.Partitions[1].Name != "host-017" || d.Hidden != 297 {
		t.Errorf("%+v and %d more", d.Partitions, d.Hidden)
	}
}

func TestSettingsTellDefaultsFromTheRest(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{Attempts: 5}, Breaker: policy.Breaker{Open: 20 * time.Second}, Bulkhead: policy.Bulkhead{Off: true}}
	got := map[string]string{}
	for _, s := range settingsOf(p.Resolved()) {
		got[s.Path] = s.Value + ", " + s.Source
	}
	for path, want := range map[string]string{
		"retry.attempts":          "5, set in code or file",
		"retry.backoff.base":      "1s, default",
		"retry.budget.ratio":      "30%, default",
		"breaker.open":            "20s, set in code or file",
		"breaker.failure_rate":    "95%, default",
		"breaker.slow_rate":       "off, default",
		"breaker.consecutive_for": "10s, default",
		"bulkhead.off":            "yes, set in code or file",
		"bulkhead.limit":          "", // of what is off nothing else is said,
		"breaker.off":             "", // and of what is on not that it is
		"timeout.attempt":         "4s, default",
		"trust":                   "external, default",
		"http.replay_limit":       "65536, default",
	} {
		if got[path] != want {
			t.Errorf("%s is %q, want %q", path, got[path], want)
		}
	}
}

// Servers and consumers tell what became of keys and messages in the same stream.
func TestDecisionsAboutKeysAreCounted(t *testing.T) {
	l := newLog()
	for n := range 20 {
		l.tell(policy.Event{Kind: policy.KindKeyDecided, Code: []string{"first", "replay"}[n/15]})
	}
	for n := range 20 {
		l.tell(policy.Event{Kind: policy.KindMessageDisposed, Code: fmt.Sprint("code_", n)})
	}
	r := l.row()
	if r.State != "keys" || !strings.HasPrefix(r.Notes[0].Text, "key first ×15, key replay ×5, message code 0 ×1, ") || !strings.HasSuffix(r.Notes[0].Text, ", others ×10") {
		t.Errorf("%s %+v", r.State, r.Notes)
	}
	l.c.observe(func() time.Duration { return l.now }, &policy.Event{Kind: policy.KindKeyDecided, Code: "first"})
	if (*l.c.tiles.Load())[nameless] == nil {
		t.Error("a server without a name has no tile")
	}
}
