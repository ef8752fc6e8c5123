package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// rowLasts is the bit of Breaker.row which says that not all of its calls can have been
// out at the same time. What is below it counts them, and stays at the most.
const (
	rowLasts = 1 << 31
	rowCount = rowLasts - 1
)

// track counts the failures in a row.
func (b *Breaker) track(now clock.Instant, p Permit, r *Rules, failed bool) {
	switch {
	case !r.rows():
	case failed:
		b.lengthen(now, p.start)
	case b.row.Load() != 0:
		b.row.Store(0)
	}
}

// lengthen adds a failure of a call that began then. When the first one of the row
// ended is not kept: it is taken to have been out for as long as this one.
func (b *Breaker) lengthen(now, began clock.Instant) {
	for {
		row := b.row.Load()
		next := row&rowLasts | min(row&rowCount+1, rowCount)
		if row&rowCount == 0 {
			b.since.Store(int64(began))
		} else if began.Sub(clock.Instant(b.since.Load())) > max(now.Sub(began), 0) {
			next |= rowLasts
		}
		if b.row.CompareAndSwap(row, next) {
			return
		}
	}
}

// inRow is how many calls failed in a row.
func (b *Breaker) inRow() uint32 { return b.row.Load() & rowCount }

// lasted returns for how long there has been a row of failures, if there is one.
func (b *Breaker) lasted(now clock.Instant) time.Duration {
	return now.Sub(clock.Instant(b.since.Load()))
}

// Row returns how many calls failed in a row, up to now; 0 unless the breaker counts
// and its rules keep the row. Lasts says that they were not all out at the same time, as
// those are that meet one blip: one of them began after the first had, by more than it
// took.
func (b *Breaker) Row() (failures uint32, lasts bool) {
	if !counts(b.state()) || !b.rules.Load().rows() {
		return 0, false
	}
	row := b.row.Load()
	return row & rowCount, row > rowLasts
}
