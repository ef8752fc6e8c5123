package behaviour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// SPEC B6, DESIGN §5: who, why, may it have happened, and the real error inside.
func TestErrorTexts(t *testing.T) {
	cases := []struct {
		err  gabion.Error
		want string
	}{
		{gabion.Error{Dependency: "db", Reason: policy.BreakerOpen, RetryAfter: 1500 * time.Millisecond}, "db: breaker_open, nothing sent, retry after 1.5s"},
		{gabion.Error{Dependency: "db", Reason: policy.NotSafe, Attempts: 1, Effect: policy.UnknownEffect, Err: io.ErrUnexpectedEOF}, "db: not_safe after 1 attempt, may have happened: unexpected EOF"},
		{gabion.Error{Dependency: "db", Reason: policy.AttemptsExhausted, Attempts: 3, Err: io.EOF}, "db: attempts_exhausted after 3 attempts: EOF"},
		{gabion.Error{Dependency: "db", Reason: policy.UnknownDependency, Err: errors.New("known are a, b")}, "db: unknown_dependency: known are a, b"},
		{gabion.Error{Dependency: "db", Reason: policy.Invalid, Err: errors.New("no")}, "db: invalid: no"},
		{gabion.Error{Dependency: "db", Reason: policy.Paced, RetryAfter: time.Nanosecond}, "db: paced, nothing sent, retry after 0s"},
	}
	for _, c := range cases {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// Each Reason is its own sentinel, and context errors stay visible.
func TestErrorsAreFound(t *testing.T) {
	for _, r := range policy.Reasons() {
		err := fmt.Errorf("wrapped: %w", &gabion.Error{Dependency: "db", Reason: r, Err: io.EOF})
		for _, other := range policy.Reasons() {
			if errors.Is(err, other) != (r == other) {
				t.Errorf("errors.Is(%s, %s)", r, other)
			}
		}
		timeout := slices.Contains([]gabion.Reason{policy.CallTimeout, policy.AttemptTimeout, policy.IdleTimeout, policy.BodyTimeout}, r)
		if errors.Is(err, context.DeadlineExceeded) != timeout || errors.Is(err, context.Canceled) != (r == policy.Canceled) {
			t.Errorf("%s: the context's error is wrong", r)
		}
		var net net.Error
		var theTimeout interface{ Timeout() bool }
		if errors.As(err, &net) || !errors.As(err, &theTimeout) || theTimeout.Timeout() != timeout {
			t.Errorf("%s: Timeout is wrong", r)
		}
		if !errors.Is(err, io.EOF) || gabion.ReasonOf(err) != r {
			t.Errorf("%s: the real error is lost, or its reason", r)
		}
	}
}

// many holds errors, nils too.
type many []error

func (many) Error() string     { return "many" }
func (m many) Unwrap() []error { return m }

func TestReasonAndEffectOfAnyError(t *testing.T) {
	inner := &gabion.Error{Reason: policy.BreakerOpen, Effect: policy.NoEffect}
	cases := []struct {
		err    error
		reason gabion.Reason
		effect policy.Effect
	}{
		{nil, policy.None, policy.NoEffect},
		{io.EOF, policy.None, policy.UnknownEffect},
		{inner, policy.BreakerOpen, policy.NoEffect},
		{&gabion.Error{Reason: policy.DoNotRetry, Effect: policy.UnknownEffect, Err: inner}, policy.DoNotRetry, policy.UnknownEffect},
		{errors.Join(io.EOF, inner), policy.BreakerOpen, policy.UnknownEffect},
		{fmt.Errorf("pay: %w", inner), policy.BreakerOpen, policy.NoEffect},
		{uncomparable{}, policy.None, policy.UnknownEffect},
	}
	for _, c := range cases {
		if r, e := gabion.ReasonOf(c.err), gabion.EffectOf(c.err); r != c.reason || e != c.effect {
			t.Errorf("%v: %s, %s; want %s, %s", c.err, r, e, c.reason, c.effect)
		}
	}
	ledger := &gabion.Error{Reason: policy.AttemptsExhausted, Effect: policy.NoEffect}
	charge := &gabion.Error{Reason: policy.NotSafe, Effect: policy.UnknownEffect}
	for _, c := range []struct {
		branches []error
		reason   gabion.Reason
		effect   policy.Effect
	}{
		{[]error{ledger, charge}, policy.NotSafe, policy.UnknownEffect},
		{[]error{inner, ledger}, policy.AttemptsExhausted, policy.NoEffect},
		{[]error{inner, fmt.Errorf("book: %w", ledger), nil, charge}, policy.NotSafe, policy.UnknownEffect},
		{[]error{inner, (*gabion.Error)(nil)}, policy.BreakerOpen, policy.UnknownEffect},
	} {
		for _, err := range []error{errors.Join(c.branches...), many(c.branches), many{many(c.branches), inner}} {
			if r, e := gabion.ReasonOf(err), gabion.EffectOf(err); r != c.reason || e != c.effect {
				t.Errorf("%v: %s, %s; want %s, %s", err, r, e, c.reason, c.effect)
			}
			slices.Reverse(c.branches)
		}
	}
	ring := make(many, 2)
	ring[0], ring[1] = ring, ledger
	if gabion.EffectOf(ring) != policy.UnknownEffect {
		t.Error("an error that contains itself has no effect")
	}
	if errors.Is(inner, uncomparable{}) {
		t.Error("an error is another that can't be compared")
	}
}

type uncomparable struct{ _ []int }

func (uncomparable) Error() string { return "uncomparable" }

// net/http reports a context's cause and not its error.
func TestADeadlineThatALibraryTellsByItsCauseIsOne(t *testing.T) {
	for _, cause := range []gabion.Reason{policy.AttemptTimeout, policy.CallTimeout} {
		err := error(&gabion.Error{Dependency: "d", Reason: policy.AttemptsExhausted, Err: fmt.Errorf("Get: %w", cause)})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is no deadline", err)
		}
	}
	if err := error(&gabion.Error{Reason: policy.AttemptsExhausted, Err: errors.New("no")}); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is a deadline", err)
	}
}
