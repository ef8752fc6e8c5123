package gabionotel

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/baggage"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// DeadlineMember is the member of the baggage that tells how much time is left: whole
// milliseconds. It is a span of time and no date, because clocks differ.
const DeadlineMember = "gabion.deadline_ms"

// maxDigits bounds what is read: ten days and more are no deadline.
const maxDigits = 9

// sendDeadline writes the attempt's time left into the baggage, or takes out what an
// earlier hop wrote.
func (o *Observer) sendDeadline(ctx context.Context, e *gabion.Event) context.Context {
	if o.config.SendDeadline == nil {
		return ctx
	}
	bag := baggage.FromContext(ctx)
	if e.Until == policy.Never || !o.config.SendDeadline(e.Dependency) {
		return without(ctx, bag)
	}
	left := max(e.Until.Sub(e.At)-max(o.config.DeadlineMargin, 0), 0)
	m, err := baggage.NewMemberRaw(DeadlineMember, strconv.FormatInt(min(left.Milliseconds(), 999_999_999), 10))
	if err != nil {
		return without(ctx, bag)
	}
	if bag, err = bag.SetMember(m); err != nil { // there is no room
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

// without returns ctx without the member.
func without(ctx context.Context, bag baggage.Baggage) context.Context {
	if bag.Member(DeadlineMember).Key() == "" {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag.DeleteMember(DeadlineMember))
}

// errOver is the cause with which a context of [WithDeadline] ends.
var errOver = fmt.Errorf("gabionotel: the caller's time is over: %w", context.DeadlineExceeded)

// WithDeadline is for servers: it returns a context with the time that the caller has left, if
// the baggage of ctx tells it, but with most at most. Most that is not positive means
// no bound, and then a context without that baggage has no new deadline. What cannot be
// read is as good as absent. A caller without time left makes a context that has ended.
//
// The baggage of the context that it returns does not tell the time any more: it has passed
// on by the time of the next call. Cancel must be called, as with context.WithTimeout.
//
// It goes together with gabionhttp.Deadline: the earlier deadline counts.
func WithDeadline(ctx context.Context, most time.Duration) (with context.Context, cancel context.CancelFunc) {
	bag := baggage.FromContext(ctx)
	left, ok := timeLeft(bag.Member(DeadlineMember).Value())
	ctx = without(ctx, bag)
	if most > 0 && (!ok || left > most) {
		left, ok = most, true
	}
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, left, errOver)
}

// timeLeft reads the member's value: up to nine digits, and nothing else.
func timeLeft(s string) (time.Duration, bool) {
	if s == "" || len(s) > maxDigits {
		return 0, false
	}
	var n int64
	for _, digit := range []byte(s) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = n*10 + int64(digit-'0')
	}
	return time.Duration(n) * time.Millisecond, true
}
