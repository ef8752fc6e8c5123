package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// opens tells that the breaker opened, and n times that a probe failed.
func (l *log) opens(n int) {
	e := moved(policy.StateClosed, policy.StateOpen, breakers.Consecutive, &policy.Numbers{Rule: 20})
	e.Until = policy.Instant(l.now + 2*time.Second)
	l.tell(e)
	for range n {
		l.now += 100 * time.Millisecond
		l.tell(moved(policy.StateOpen, policy.StateHalfOpen, breakers.CallsRefused, nil))
		l.tell(policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Class: policy.ClassServer, Code: "503"})
		e := moved(policy.StateHalfOpen, policy.StateOpen, breakers.ProbeFailed, &policy.Numbers{Calls: 1, Failures: 1})
		e.Until = policy.Instant(l.now + 2*time.Second)
		l.tell(e)
	}
}

// However many probes fail, what happened keeps the move that it began with, and the tile says
// since when and why.
func TestProbesDontPushOutWhatItBeganWith(t *testing.T) {
	l := newLog()
	began := l.now
	l.opens(108)
	d := l.detail()
	want := []news{
		{At: l.now.Milliseconds(), Kind: "breaker_moved", Text: "108 probes failed", Since: (began + 100*time.Millisecond).Milliseconds(), Last: "503"},
		{At: began.Milliseconds(), Kind: "breaker_moved", Text: why.Why(policy.Event{
			Kind: policy.KindBreakerMoved, From: policy.StateClosed, To: policy.StateOpen, Numbers: &policy.Numbers{Rule: 20},
			Cause: breakers.Consecutive, At: policy.Instant(began), Until: policy.Instant(began + 2*time.Second),
		})},
	}
	if len(d.News) != 2 || d.News[0] != want[0] || d.News[1] != want[1] {
		t.Errorf("%+v\nwant %+v", d.News, want)
	}
	n := d.Row.Notes[0]
	if n.Head != "open" || n.Since != began.Milliseconds() || n.Text != "20 failures in a row" || n.More != "108 probes failed, last: 503" || n.Until != (l.now+2*time.Second).Milliseconds() {
		t.Errorf("%+v", n)
	}
	l.tell(moved(policy.StateOpen, policy.StateHalfOpen, breakers.CallsRefused, nil))
	if n := l.row().Notes[0]; n.Text != "20 failures in a row" || n.Since != began.Milliseconds() || !strings.HasPrefix(n.More, "108 probes failed, last: 503; probing: ") || n.Tone != toneTrouble {
		t.Errorf("while it probes: %+v", n)
	}
	l.tell(moved(policy.StateHalfOpen, policy.StateClosed, breakers.ProbesPassed, &policy.Numbers{Calls: 1}))
	if r := l.row(); r.Tone != toneGood || r.Notes[0].Text != "closed again: 1 of 1 probe succeeded" {
		t.Errorf("when it is over: %+v", r.Notes)
	}
	again := l.now + time.Second
	l.now = again
	l.opens(2)
	if n := l.row().Notes[0]; n.Since != again.Milliseconds() || n.More != "2 probes failed, last: 503" {
		t.Errorf("the next time: %+v", n)
	}
	if d := l.detail(); len(d.News) != 5 || d.News[0].Text != "2 probes failed" || d.News[3].Text != "108 probes failed" {
		t.Errorf("the next time: %+v", d.News)
	}
}

// The probes of one partition are not those of another, and those for which there is no room
// don't push anything out.
func TestProbesAreFoldedByPartition(t *testing.T) {
	l := newLog()
	for range 50 {
		for _, host := range []string{"a", "b"} {
			for _, to := range []policy.BreakerState{policy.StateHalfOpen, policy.StateOpen} {
				e := moved(policy.StateOpen, to, breakers.ProbeExpired, nil)
				if to == policy.StateHalfOpen {
					e = moved(policy.StateOpen, to, breakers.CooldownOver, nil)
				}
				e.Partition = host
				l.tell(e)
			}
		}
	}
	if d := l.detail(); len(d.News) != 2 || !strings.HasPrefix(d.News[0].Text, "50 probes failed (") {
		t.Errorf("%+v", d.News)
	}
}

// An answer that asks for time comes with each call. It is one line.
func TestNewsThatRepeatsIsOneLine(t *testing.T) {
	l := newLog()
	l.opens(0)
	began := l.now
	for range 200 {
		l.now += time.Millisecond
		l.tell(policy.Event{Kind: policy.KindPaceSet, Until: policy.Instant(l.now + time.Second)})
	}
	d := l.detail()
	if len(d.News) != 2 || !strings.HasSuffix(d.News[0].Text, ", the last of 200 times") || d.News[0].Since != (began+time.Millisecond).Milliseconds() {
		t.Errorf("%+v", d.News)
	}
}

// Letters that a full store removes are news of the group whose they are.
func TestLettersThatAFullStoreRemovesAreNews(t *testing.T) {
	l := newLog()
	for range 3 {
		l.now += time.Millisecond
		l.tell(policy.Event{Kind: policy.KindLettersLost, Count: 2, Numbers: &policy.Numbers{Bytes: 100, Waited: time.Hour}})
	}
	const want = "the store of dead letters is full: 2 that wait are removed, 100 bytes, the oldest waited 1h0m0s, the last of 3 times"
	if d := l.detail(); len(d.News) != 1 || d.News[0].Text != want {
		t.Errorf("%+v", d.News)
	}
}

// sampled is what a living dependency says of itself.
func (l *log) sampled(p policy.Policy, set func(*gabion.Stats)) {
	s := gabion.Stats{Name: "bank"}
	s.Main.Guarded = true
	s.Main.Breaker.Counts.Calls = 1
	s.Bulkhead.Limit = 20
	set(&s)
	l.c.sample(l.now, &s, p.Resolved())
}

// With traffic the probe comes after a number of refused calls, and the time is the latest.
func TestNextProbeIsSaidByTheRuleInForce(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  policy.Breaker
		opens int
		want  string
	}{
		{"the default, at first", policy.Breaker{}, 1, "probes after 3 refused calls, at the latest"},
		{"the default, later", policy.Breaker{}, 40, "probes after 8 refused calls, at the latest"},
		{"one call", policy.Breaker{OpenCalls: 1}, 40, "probes after 1 refused call, at the latest"},
		{"time alone", policy.Breaker{Open: time.Second}, 3, "next probe"},
	} {
		l := newLog()
		l.opens(1)
		l.sampled(policy.Policy{Breaker: c.rule}, func(s *gabion.Stats) {
			s.Main.Breaker.State, s.Main.Breaker.Opens = policy.StateOpen, c.opens
			s.Now, s.Main.Breaker.Until = policy.Instant(l.now), policy.Instant(l.now+2100*time.Millisecond)
		})
		if n := l.row().Notes[0]; n.Then != c.want || n.Until != (l.now+2100*time.Millisecond).Milliseconds() {
			t.Errorf("%s: %+v, want %q", c.name, n, c.want)
		}
	}
}

// second adds one second's calls: sent with the given attempts each, and refused.
func (l *log) second(sent, attempts, refused int) {
	for range sent {
		l.call++
		for n := range attempts {
			l.tell(policy.Event{Kind: policy.KindAttemptSent, Attempt: uint8(n + 1), Call: l.call})
			l.tell(policy.Event{Kind: policy.KindAttemptSettled, Attempt: uint8(n + 1), Call: l.call, Class: policy.ClassServer, Code: "503"})
		}
		l.tell(policy.Event{Kind: policy.KindReturned, Attempt: uint8(attempts), Call: l.call, Reason: policy.AttemptsExhausted})
	}
	for range refused {
		l.call++
		l.tell(policy.Event{Kind: policy.KindReturned, Call: l.call, Reason: policy.BreakerOpen})
	}
	l.now += time.Second
}

func TestTileSaysWhatGabionDoes(t *testing.T) {
	for _, c := range []struct {
		name                    string
		open                    bool
		sent, attempts, refused int
		want                    string
	}{
		{"an open breaker", true, 5, 1, 35, "refuses 35 of 40 calls/s, probes 5/s"},
		{"nothing but refusals", true, 0, 1, 40, "refuses 40 of 40 calls/s"},
		{"retries", false, 10, 3, 0, "sends 3 attempts a call, 2 of them retries"},
		{"refusals and retries", false, 10, 2, 30, "refuses 30 of 40 calls/s, sends 20/s; sends 2 attempts a call, 1 of them retries"},
		{"nothing but calls", false, 10, 1, 0, ""},
	} {
		l := newLog()
		if c.open {
			l.opens(0)
		}
		for range 6 {
			l.second(c.sent, c.attempts, c.refused)
		}
		if r := l.row(); r.Doing != c.want || r.Tone != toneTrouble {
			t.Errorf("%s: %q, want %q (%s)", c.name, r.Doing, c.want, r.Tone)
		}
	}
	l := newLog()
	l.calls(40, policy.ClassSuccess, "200", policy.None, time.Millisecond)
	l.now += time.Second
	if r := l.row(); r.Doing != "" {
		t.Errorf("all is well: %q", r.Doing)
	}
}

// After a wish for time calls go out in part, or not at all.
func TestPacedTileSaysWhatGoesOut(t *testing.T) {
	for _, c := range []struct {
		name          string
		sent, refused int
		want          string
	}{
		{"spaced", 12, 28, "the dependency asked for time: calls are spaced, 12 of 40 a second went out"},
		{"spaced, and none refused", 12, 0, "the dependency asked for time: calls are spaced, all 12 a second went out"},
		{"nothing succeeds", 0, 40, "the dependency asked for time: nothing is sent"},
	} {
		l := newLog()
		for range 6 {
			l.second(c.sent, 1, c.refused)
		}
		l.sampled(policy.Policy{}, func(s *gabion.Stats) { s.Main.Paced = 5 * time.Second })
		found := false
		for _, n := range l.row().Notes {
			if n.Text == c.want {
				found = (n.Until != 0) == (c.sent == 0)
			}
		}
		if !found {
			t.Errorf("%s: %+v, want %q", c.name, l.row().Notes, c.want)
		}
	}
}

// Who finds no slot is counted, with what became of him.
func TestTheRoomIsSaidInWords(t *testing.T) {
	for _, c := range []struct {
		fact       string
		policy     policy.Bulkhead
		full, late int
		want       string
	}{
		{"all found a slot", policy.Bulkhead{Limit: 30, Queue: 60}, 0, 0, "30 attempts at once, and up to 60 may wait: 3 out, 1 waiting. In 30 s all found a slot"},
		{"some did not", policy.Bulkhead{Limit: 30, Queue: 60}, 10, 2, "30 attempts at once, and up to 60 may wait: 3 out, 1 waiting. In 30 s 12 found none: 10 where the queue was full, and 2 that waited too long"},
		{"one of a whole call", policy.Bulkhead{Limit: 1, Queue: 60, Per: policy.PerCall}, 0, 1, "1 call at once, and up to 60 may wait: 3 out, 1 waiting. In 30 s 1 found none: 0 where the queue was full, and 1 that waited too long"},
		{"a limit that is learned", policy.Bulkhead{Limit: policy.Learned, Queue: 60}, 0, 0, "0 attempts at once (learned), and up to 60 may wait: 3 out, 1 waiting. In 30 s all found a slot"},
	} {
		l := newLog()
		for range c.full {
			l.tell(policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.BulkheadFull})
		}
		for range c.late {
			l.tell(policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.QueueTimeout})
		}
		l.sampled(policy.Policy{Bulkhead: c.policy}, func(s *gabion.Stats) {
			s.Bulkhead = policy.BulkheadStats{InUse: 3, Queued: 1, Limit: max(c.policy.Limit, 0), QueueLimit: 60}
		})
		if got := l.row().Slots.Text; got != c.want {
			t.Errorf("%s: %q, want %q", c.fact, got, c.want)
		}
	}
}

func TestAQueueAtTheDependencyIsNamed(t *testing.T) {
	b := policy.Policy{}.Resolved().Retry.Budget
	if got := budgetGauge(&policy.BudgetStats{Queued: true}, &b).Text; !strings.HasSuffix(got, "calls wait for each other there, so nothing is earned") {
		t.Error(got)
	}
	if got := budgetGauge(&policy.BudgetStats{}, &b).Text; strings.Contains(got, "wait for each other") {
		t.Error(got)
	}
}

// The page names slots that are held by unclosed results.
func TestSlotLeakIsNamed(t *testing.T) {
	for _, c := range []struct {
		name        string
		inUse, open int
		out, away   int
		want        string
	}{
		{"results open after their time", 20, 376, 20, 5, "20 slots are taken, and 376 results are still open after their time: are bodies closed?"},
		{"slots that came free just now", 17, 376, 17, 5, "17 slots are taken, and 376 results are still open after their time: are bodies closed?"},
		{"results open within their time", 20, 0, 3, 5, "20 slots are taken, but only 3 attempts are out: the others hold results that are still open, are bodies closed?"},
		{"a dependency that is slow", 20, 0, 20, 5, ""},
		{"long results, and room", 3, 376, 3, 0, ""},
		{"full, and no call refused", 20, 0, 3, 0, ""},
	} {
		l := newLog()
		for range c.out {
			l.tell(policy.Event{Kind: policy.KindAttemptSent, Attempt: 1})
		}
		for range c.away {
			l.tell(policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.BulkheadFull, Numbers: &policy.Numbers{Limit: 20, InUse: 20}})
		}
		l.sampled(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 20}}, func(s *gabion.Stats) {
			s.Bulkhead.InUse, s.Streams = c.inUse, int64(c.open)
		})
		got := ""
		if n := l.row().Notes; len(n) > 0 && strings.Contains(n[0].Text, "bodies") {
			got = n[0].Text
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A server that answers 503 succeeds in nothing, and one that says no does not succeed either.
func TestSucceededIsNotAnswered(t *testing.T) {
	l := newLog()
	l.calls(5, policy.ClassSuccess, "200", policy.None, time.Millisecond)
	l.calls(3, policy.ClassClient, "404", policy.NotRetryable, time.Millisecond)
	l.calls(2, policy.ClassServer, "503", policy.AttemptsExhausted, time.Millisecond)
	if r := l.row(); *r.Well != 0.5 || *r.Good != 0.8 {
		t.Errorf("succeeded %v, answered %v", *r.Well, *r.Good)
	}
}

// A refusal that is over is not listed as one that happened no time.
func TestRefusalsThatAreOverAreLeftOut(t *testing.T) {
	l := newLog()
	l.tell(policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.NotSafe})
	if n := len(l.detail().Refusals); n != 1 {
		t.Errorf("%d refusals", n)
	}
	l.now += time.Minute
	if d := l.detail(); len(d.Refusals) != 0 {
		t.Errorf("a minute later: %+v", d.Refusals)
	}
}
