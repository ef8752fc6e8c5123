package idempotency

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// decided tells Stream what became of a key, if the request or run has one.
func (c *core) decided(ctx context.Context, a Answer, asked time.Time, err error) {
	if c.terms.Stream != nil {
		c.stream(ctx, policy.Event{Code: codeOf(a, err), Attempt: uint8(min(a.Record.Attempt, 255)), Took: time.Since(asked)})
	}
}

// leftTx tells Stream of a key whose transaction was left by a panic or runtime.Goexit,
// which goes on up. Granted is the record that its work had, if it came to that.
func (c *core) leftTx(ctx context.Context, granted Record, asked time.Time) {
	var err error
	if granted.Attempt == 0 {
		err = errNoClaim
	}
	c.decided(ctx, Answer{Decision: DecisionRun, Record: granted}, asked, err)
}

// turnedAway tells Stream of a request whose key was not looked up.
func (c *core) turnedAway(ctx context.Context, p Problem) {
	if c.terms.Stream != nil {
		c.stream(ctx, policy.Event{Code: strings.ReplaceAll(string(p), "-", "_")})
	}
}

func (c *core) stream(ctx context.Context, e policy.Event) {
	defer func() { _ = recover() }() // it takes nothing from the request
	e.Kind, e.Dependency, e.At = policy.KindKeyDecided, c.terms.Name, policy.Instant(time.Since(c.made))
	c.terms.Stream.Observe(ctx, e)
}

// codeOf is the decision as Stream gets it.
func codeOf(a Answer, err error) string {
	switch {
	case errors.Is(err, ErrUnknown):
		return "outcome_unknown"
	case errors.Is(err, ErrUnreadable):
		return "record_unreadable"
	case err != nil:
		return "store_unavailable"
	case a.Decision == DecisionRun && a.Record.Attempt > 1:
		return "again"
	}
	return decisionCodes[a.Decision]
}

var decisionCodes = map[Decision]string{
	DecisionRun:        "first",
	DecisionRecover:    "recover",
	DecisionReplay:     "replay",
	DecisionInProgress: "in_flight",
	DecisionMismatch:   "mismatch",
	DecisionUnknown:    "outcome_unknown",
}
