package idempotency

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A Moment is a time by a store's clock: nanoseconds since 1970, as time.Unix(0, n) has
// them. Zero means that a record has no such moment. The largest means never.
type Moment int64

// Add returns the moment d later. What would be too large is never, and stays so.
func (m Moment) Add(d time.Duration) Moment { return Moment(clock.Instant(m).Add(d)) }

// Sub returns how much later m is than n. It is at most the largest duration.
func (m Moment) Sub(n Moment) time.Duration { return clock.Instant(m).Sub(clock.Instant(n)) }
