package gabionslog_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

const second = clock.Instant(time.Second)

// golden has an event of each kind, with the fields that mean something for it,
// and the line that it becomes.
var golden = []struct {
	event gabion.Event
	line  string
	quiet bool // only with Attempts
}{
	{gabion.Event{Kind: policy.KindAttemptSent, Attempt: 2, Hedge: true, At: second, Until: 5 * second},
		"level=DEBUG msg=\"gabion: attempt_sent\" attempt=2 hedge=true within=4s", true},
	{gabion.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Class: policy.ClassTimeout, Reason: policy.AttemptTimeout, Effect: policy.UnknownEffect, Took: 4 * time.Second, Slow: true},
		"level=DEBUG msg=\"gabion: attempt_settled\" reason=attempt_timeout attempt=1 hedge=false class=timeout effect=unknown took=4s slow=true", true},
	{gabion.Event{Kind: policy.KindLoserSettled, Attempt: 3, Hedge: true, Class: policy.ClassIgnored, Took: time.Second},
		"level=DEBUG msg=\"gabion: loser_settled\" attempt=3 hedge=true class=ignored effect=none took=1s slow=false", true},
	{gabion.Event{Kind: policy.KindWaiting, Attempt: 2, Wait: terms.ForBackoff, At: second, Until: 3 * second},
		"level=DEBUG msg=\"gabion: waiting\" attempt=2 for=backoff wait=2s", true},
	{gabion.Event{Kind: policy.KindAttemptRefused, Attempt: 1, Reason: policy.BreakerOpen, At: second, Until: 31 * second},
		"level=DEBUG msg=\"gabion: attempt_refused\" reason=breaker_open attempt=1 retry_after=30s", true},
	{gabion.Event{Kind: policy.KindHedgeSkipped, Attempt: 1, Reason: policy.BudgetExhausted},
		"level=DEBUG msg=\"gabion: hedge_skipped\" reason=budget_exhausted attempt=1", true},
	{gabion.Event{Kind: policy.KindReturned, Attempt: 1, Took: time.Millisecond},
		"level=DEBUG msg=\"gabion: returned\" attempts=1 effect=none took=1ms", true},
	{gabion.Event{Kind: policy.KindReturned, Attempt: 1, Reason: policy.Canceled, Effect: policy.UnknownEffect},
		"level=DEBUG msg=\"gabion: returned\" reason=canceled attempts=1 effect=unknown took=0s why=\"the caller gave up\"", true},
	{gabion.Event{Kind: policy.KindReturned, Attempt: 3, Reason: policy.AttemptsExhausted, Effect: policy.UnknownEffect, Took: time.Second, Code: "503"},
		"level=WARN msg=\"gabion: returned\" reason=attempts_exhausted attempts=3 effect=unknown took=1s code=503 why=\"every attempt that the policy allows failed\"", false},
	{gabion.Event{Kind: policy.KindReturned, Attempt: 1, Reason: policy.DeadlineShort, Took: time.Second, Numbers: &policy.Numbers{Left: time.Second, Need: 2 * time.Second}},
		"level=INFO msg=\"gabion: returned\" reason=deadline_short attempts=1 effect=none took=1s why=\"too little time is left for another attempt (1s left, 2s needed)\"", false},
	{gabion.Event{Kind: policy.KindBreakerMoved, From: breaker.HalfOpen, To: breaker.Closed, Cause: breaker.ProbesPassed, Numbers: &policy.Numbers{Calls: 3}},
		"level=INFO msg=\"gabion: breaker_moved\" from=half_open to=closed cause=probes_passed calls=3 failures=0 slow=0 for=0s late=0s why=\"breaker half_open → closed: of 3 probes 0 failed\"", false},
	{gabion.Event{Kind: policy.KindKeyDecided, Code: "mismatch"}, "level=WARN msg=\"gabion: key_decided\" code=mismatch", false},
	{gabion.Event{Kind: policy.KindMessageDisposed, Code: "dead_letter/mismatch"}, "level=WARN msg=\"gabion: message_disposed\" code=dead_letter/mismatch", false},
	{gabion.Event{Kind: policy.KindBodyFailed, Attempt: 1, Hedge: true, Took: time.Second},
		"level=INFO msg=\"gabion: body_failed\" attempt=1 hedge=true took=1s", false},
	{gabion.Event{Kind: policy.KindOutlived, Attempt: 1, Took: time.Second},
		"level=DEBUG msg=\"gabion: outlived\" attempt=1 hedge=false took=1s", true},
	{gabion.Event{Kind: policy.KindFellBack, Reason: policy.BreakerOpen},
		"level=INFO msg=\"gabion: fell_back\" reason=breaker_open", false},
	{gabion.Event{Kind: policy.KindBreakerMoved, From: breaker.Closed, To: breaker.Open, Numbers: &policy.Numbers{Calls: 20, Failures: 11, Slows: 2, Rule: 0.5}, At: 3 * second, Due: 2 * second, Until: 33 * second},
		"level=WARN msg=\"gabion: breaker_moved\" from=closed to=open cause=" + breaker.Cause(0).String() + " calls=20 failures=11 slow=2 for=30s late=1s why=\"breaker closed → open: 11 of 20 calls failed, 55 %, the rule is 50 %, for 30s, 1s late\"", false},
	{gabion.Event{Kind: policy.KindBreakerExceeded, From: breaker.ObserveOnly, To: breaker.ObserveOnly, Numbers: &policy.Numbers{Calls: 20, Failures: 11, Rule: 0.5}},
		"level=WARN msg=\"gabion: breaker_exceeded\" from=" + breaker.ObserveOnly.String() + " to=" + breaker.ObserveOnly.String() + " cause=" + breaker.Cause(0).String() + " calls=20 failures=11 slow=0 for=0s late=0s why=\"the breaker would have opened: 11 of 20 calls failed, 55 %, the rule is 50 %\"", false},
	{gabion.Event{Kind: policy.KindKeyDecided, Code: "replay"}, "level=DEBUG msg=\"gabion: key_decided\" code=replay", true},
	{gabion.Event{Kind: policy.KindMessageDisposed, Code: "ack"}, "level=DEBUG msg=\"gabion: message_disposed\" code=ack", true},
	{gabion.Event{Kind: policy.KindPaceSet, At: second, Until: 6 * second}, "level=INFO msg=\"gabion: pace_set\" for=5s why=\"the dependency asked for time: calls are spaced, for 5s\"", false},
	{gabion.Event{Kind: policy.KindEndpointsMoved, Code: terms.BackupOut},
		"level=WARN msg=\"gabion: endpoints_moved\" code=backup_out count=0 why=\"the backup would not work if it were needed\"", false},
	{gabion.Event{Kind: policy.KindLimitMoved, Count: 50}, "level=INFO msg=\"gabion: limit_moved\" count=50", false},
	{gabion.Event{Kind: policy.KindReloaded}, "level=INFO msg=\"gabion: reloaded\"", false},
	{gabion.Event{Kind: policy.KindRetriesSwitched, Reason: policy.RetriesOff}, "level=WARN msg=\"gabion: retries_switched\" reason=retries_off on=false why=\"retries were switched off\"", false},
	{gabion.Event{Kind: policy.KindRetriesSwitched}, "level=INFO msg=\"gabion: retries_switched\" on=true why=\"retries were switched on again\"", false},
	{gabion.Event{Kind: policy.KindResent, Count: 2}, "level=DEBUG msg=\"gabion: resent\" count=2", true},
	{
		gabion.Event{Kind: policy.KindLettersLost, Count: 3, Numbers: &policy.Numbers{Bytes: 4096, Waited: 26 * time.Hour}},
		"level=WARN msg=\"gabion: letters_lost\" count=3 bytes=4096 oldest=26h0m0s why=\"the store of dead letters is full: 3 that wait are removed, 4096 bytes, the oldest waited 26h0m0s\"", false,
	},
	{gabion.Event{Kind: policy.KindEventsLost, Count: 7}, "level=WARN msg=\"gabion: events_lost\" count=7", false},
	{gabion.Event{Kind: policy.KindObserverCrashed}, "level=ERROR msg=\"gabion: observer_crashed\"", false},
}

// logger writes lines without their time.
func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func line(o *gabionslog.Observer, e gabion.Event) string {
	var b bytes.Buffer
	o.Logger = logger(&b, slog.LevelDebug)
	o.Observe(context.Background(), e)
	return strings.TrimSuffix(b.String(), "\n")
}

func TestEachKindHasItsLine(t *testing.T) {
	covered := map[policy.Kind]bool{}
	for _, c := range golden {
		covered[c.event.Kind] = true
		e := c.event
		e.Dependency, e.Operation, e.Partition, e.Call, e.Seq = "db", "charge", "eu", 7, 9
		level, rest, _ := strings.Cut(c.line, " msg=")
		kind, particulars, _ := strings.Cut(rest, "\" ")
		kind = strings.TrimSuffix(kind, "\"") + "\""
		reason := ""
		if r, more, ok := strings.Cut(particulars, " "); strings.HasPrefix(r, "reason=") {
			reason = r + " "
			particulars = ""
			if ok {
				particulars = more
			}
		}
		want := strings.TrimSpace(level + " msg=" + kind + " dependency=db operation=charge partition=eu " + reason + "call=7 seq=9 " + particulars)
		if got := line(&gabionslog.Observer{Attempts: true}, e); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := line(&gabionslog.Observer{}, e); (got == "") != c.quiet || got != "" && got != want {
			t.Errorf("%s without Attempts: %q", e.Kind, got)
		}
	}
	for _, k := range policy.Kinds() {
		if !covered[k] {
			t.Errorf("%s has no line", k)
		}
	}
}

func TestNamesThatAreNotGivenAreLeftOut(t *testing.T) {
	if got := line(&gabionslog.Observer{}, gabion.Event{Kind: policy.KindReloaded, Dependency: "db"}); got != `level=INFO msg="gabion: reloaded" dependency=db` {
		t.Errorf("got %s", got)
	}
}

// What is not logged costs no allocation.
func TestDisabledLevelsCostNothing(t *testing.T) {
	quiet := &gabionslog.Observer{Logger: logger(io.Discard, slog.LevelError+1), Attempts: true}
	zero := &gabionslog.Observer{Logger: logger(io.Discard, slog.LevelDebug)}
	for _, c := range golden {
		if n := testing.AllocsPerRun(100, func() { quiet.Observe(context.Background(), c.event) }); n != 0 {
			t.Errorf("%s at a disabled level: %.0f allocations", c.event.Kind, n)
		}
		if !c.quiet {
			continue
		}
		if n := testing.AllocsPerRun(100, func() { zero.Observe(context.Background(), c.event) }); n != 0 {
			t.Errorf("%s without Attempts: %.0f allocations", c.event.Kind, n)
		}
	}
}

// The context of the call reaches the handler, so that it may add a trace.
func TestTheHandlerSeesTheCallsContext(t *testing.T) {
	type key struct{}
	h := &contextual{Handler: slog.NewTextHandler(io.Discard, nil)}
	ctx := context.WithValue(context.Background(), key{}, 1)
	(&gabionslog.Observer{Logger: slog.New(h)}).Observe(ctx, gabion.Event{Kind: policy.KindReloaded})
	if h.ctx == nil || h.ctx.Value(key{}) != 1 {
		t.Error("the handler got another context")
	}
}

type contextual struct {
	slog.Handler
	ctx context.Context
}

func (c *contextual) Handle(ctx context.Context, r slog.Record) error {
	c.ctx = ctx
	return nil
}

// The zero Observer logs to slog.Default.
func TestZeroObserverUsesTheDefaultLogger(t *testing.T) {
	var b bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(logger(&b, slog.LevelInfo))
	new(gabionslog.Observer).Observe(context.Background(), gabion.Event{Kind: policy.KindReloaded, Dependency: "db"})
	if !strings.Contains(b.String(), "gabion: reloaded") {
		t.Errorf("it logged %q", &b)
	}
}
