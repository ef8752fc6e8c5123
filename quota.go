package gabion

import (
	"context"
	"math"

	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

// WithCost says what each attempt of the call is thought to use of a quota, in place of the policy's estimate: see
// [policy.Quota]. Of another unit nothing is said, and a unit without a quota has no effect. Zero
// means that the call uses nothing of it. What is below zero, or no number, ends the call before anything is
// sent. A call that needs more than there is in all is refused.
func WithCost(unit string, amount float64) CallOption {
	return CallOption{set: setCost, text: unit, num: int64(math.Float64bits(amount))}
}

// Spent says what the attempt that ctx belongs to really used of a quota, as answers tell. It replaces
// what was reserved for the attempt, and estimates of later calls are corrected by it. It may be used until long after the
// attempt has ended, as by the reader of a stream; of several words the last counts. Outside of an
// attempt, for a unit without a quota, below zero and for what is no number it does nothing. It is safe for concurrent use.
func Spent(ctx context.Context, unit string, amount float64) {
	if q := quotaOf(ctx); q != nil {
		q.of.Spent(q.d.now(), unit, amount)
	}
}

// TellLeft says what the answer to the attempt that ctx belongs to told about what is left of the
// dependency's quotas, such as its headers. Calls go by that as long as it is news: they never use more than
// the policy has, but less where others use the same quota. Package gabionhttp does it by itself. What makes no sense is ignored.
// Outside of an attempt it does nothing. It is safe for concurrent use.
func TellLeft(ctx context.Context, left ...policy.Remaining) {
	if q := quotaOf(ctx); q != nil {
		q.of.Told(q.d.now(), left)
	}
}

// quotaContext is around the context of an attempt that has taken something from quotas.
type quotaContext struct {
	context.Context
	d  *Dependency
	of *quota.Reservation
}

// quotaKey finds it.
type quotaKey struct{}

// Value implements context.Context.
func (q *quotaContext) Value(key any) any {
	if _, ok := key.(quotaKey); ok {
		return q
	}
	return q.Context.Value(key)
}

// quotaOf finds what the attempt that ctx belongs to has taken from quotas, or nil.
func quotaOf(ctx context.Context) *quotaContext {
	q, _ := ctx.Value(quotaKey{}).(*quotaContext)
	if a := attemptOf(ctx); q == nil || a == nil || a.d != q.d {
		return nil
	}
	return q
}
