package scenario

import (
	"cmp"
	"time"

	ground "github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

func (it item) admission(a *admission) {
	if !it.has("admission") {
		return
	}
	if !it.has("admission.limit") {
		it.fail("admission", "admission.limit is missing", "write admission: {limit: learned}, or a number")
	}
	if a.Limit > 0 {
		it.never("where the limit is not learned", "admission.min", "admission.max")
	}
	if a.Max > 0 && a.Max < a.Min {
		it.fail("admission.max", "max is less than min", "write min or more")
	}
	if a.TenantShare > 0 && !a.Fair {
		it.fail("admission.tenant_share", "tenant_share means nothing unless it is fair", "write fair: true as well")
	}
	if target, interval := or(a.Target, span(ground.DefaultTarget)), or(a.Interval, span(ground.DefaultInterval)); target > interval {
		it.fail("admission.target", "target is longer than the interval", "write at most the interval")
	}
}

func or(d, other span) span {
	if d > 0 {
		return d
	}
	return other
}

func (a *admission) lower() *sim.Admission {
	if a.Limit == 0 {
		return nil
	}
	made := &sim.Admission{
		Limit: int(a.Limit), Queue: int(a.Queue), Target: time.Duration(a.Target), Interval: time.Duration(a.Interval),
		NewestFirst: a.NewestFirst, Fair: a.Fair, TenantShare: float64(a.TenantShare), RetryAfter: time.Duration(a.RetryAfter),
	}
	if a.Limit < 0 {
		b := learned.Bounds{Min: max(int(a.Min), 1), Max: int(a.Max)}
		b.Max = cmp.Or(b.Max, max(ground.MostLimit, b.Min))
		made.Limit, made.Learn = ground.UsualLimit, &b
	}
	return made
}
