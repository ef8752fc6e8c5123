package serving

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
)

// Options are the fields that users write, with the same names and zeros.
type Options struct {
	Limit, Min, Max, Queue       int
	Target, Interval, RetryAfter time.Duration
	NewestFirst, Fair            bool // Fair means that requests have tenants
	TenantShare                  float64
}

func (o *Options) learns() bool { return o.Limit == 0 || o.Limit == policy.Learned }

// Open makes a room of options without a Problem.
func (o Options) Open() *Room {
	c := Config{Rules: admission.Rules{
		Limit: o.Limit, Queue: max(o.Queue, 0), Fair: o.Fair, TenantShare: o.TenantShare,
		Target: cmp.Or(o.Target, admission.DefaultTarget), Interval: cmp.Or(o.Interval, admission.DefaultInterval),
	}}
	if o.NewestFirst {
		c.Order = admission.Adaptive
	}
	if o.learns() {
		b := learned.Bounds{Min: max(o.Min, 1), Max: o.Max}
		b.Max = cmp.Or(b.Max, max(admission.MostLimit, b.Min))
		c.Limit, c.Learn = admission.UsualLimit, &b
	}
	if o.Queue == 0 {
		c.QueueOf = admission.QueueFor
	}
	return New(c)
}

// Problem says which fields can't be meant; empty if all can.
func (o Options) Problem() string {
	short := func(d time.Duration) bool { return d != 0 && d < time.Microsecond }
	switch {
	case o.Limit < 0 && !o.learns():
		return fmt.Sprintf("Admission.Limit is %d: no request would be let in", o.Limit)
	case !o.learns() && (o.Min != 0 || o.Max != 0):
		return fmt.Sprintf("Admission has Min %d and Max %d, and a Limit of %d that does not move", o.Min, o.Max, o.Limit)
	case o.Min < 0 || o.Max < 0 || o.Max > 0 && o.Max < o.Min:
		return fmt.Sprintf("Admission learns a limit between Min %d and Max %d", o.Min, o.Max)
	case o.Queue < 0 && o.Queue != policy.Off:
		return fmt.Sprintf("Admission.Queue is %d: write policy.Off for no queue", o.Queue)
	case short(o.Target) || short(o.Interval) || short(o.RetryAfter):
		return fmt.Sprintf("Admission has Target %v, Interval %v and RetryAfter %v: one is negative, or lacks its unit", o.Target, o.Interval, o.RetryAfter)
	case cmp.Or(o.Target, admission.DefaultTarget) > cmp.Or(o.Interval, admission.DefaultInterval):
		return fmt.Sprintf("Admission.Target %v is longer than the Interval %v", o.Target, o.Interval)
	case o.TenantShare != 0 && (!o.Fair || !(o.TenantShare > 0 && o.TenantShare <= 1)):
		return fmt.Sprintf("Admission.TenantShare is %v: it is a share, above 0 and at most 1, and needs Tenant", o.TenantShare)
	}
	return ""
}

// DeadlineProblem says what can't be meant by the times of a Deadline that are negative, or
// so short that they were written without their unit.
func DeadlineProblem(margin, most time.Duration) string {
	switch {
	case margin < 0 || most < 0:
		return fmt.Sprintf("a Deadline of Margin %v and Max %v: neither can be negative", margin, most)
	case margin > 0 && margin < time.Microsecond:
		return fmt.Sprintf("Deadline.Margin is %v: did you mean %d * time.Millisecond?", margin, int64(margin))
	case most > 0 && most < time.Microsecond:
		return fmt.Sprintf("Deadline.Max is %v: did you mean %d * time.Second?", most, int64(most))
	}
	return ""
}

// Verdict is what the end of a request shows of how much the server can take. A caller who has
// gone was late or in a hurry: that depends on how long the work takes. What panics may have
// ended before its time.
func Verdict(ctx context.Context, done bool) learned.Verdict {
	switch err := ctx.Err(); {
	case err == context.DeadlineExceeded, err != nil && done:
		return learned.Left
	case !done:
		return learned.Nothing
	}
	return learned.Worked
}
