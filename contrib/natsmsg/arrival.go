package natsmsg

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A place is what the subject of a delivery's answer says of it.
type place struct {
	stream    uint64 // its number in the stream
	delivery  uint64 // its number among all deliveries of the consumer
	delivered int    // how often the message was delivered
}

// placeOf reads the subject to which a delivery is answered:
//
//	$JS.ACK.stream.consumer.delivered.stream number.delivery number.time.pending
//	$JS.ACK.domain.account.stream.consumer.delivered.stream number.delivery number.time.pending…
//
// It does what nats.Msg.Metadata does, without memory of its own.
func placeOf(reply string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return p, false
	}
	skip := 2
	switch dots := strings.Count(rest, "."); {
	case dots == 6:
	case dots >= 8:
		skip = 4
	default:
		return p, false
	}
	var numbers [3]uint64
	for n := range skip + len(numbers) {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if n < skip {
			continue
		}
		v, err := strconv.ParseUint(token, 10, 63)
		if err != nil {
			return p, false
		}
		numbers[n-skip] = v
	}
	return place{delivered: int(numbers[0]), stream: numbers[1], delivery: numbers[2]}, true
}

// An arrival is what is known of deliveries that are to be here before anything is begun, so that
// nothing overtakes them. It is of a hand with an order, and guarded by its mu.
type arrival struct {
	log     *slog.Logger
	gathers bool      // what a process before this one had comes now
	since   time.Time // something came of that last; zero before a request was made
	owed    int       // messages that may still come of it
	last    uint64    // the number of the last delivery
	calm    time.Time // when that comes again which was lost on the way
}

// settle waits until the broker delivers again what a process before this one had. It comes in no
// order: what was worked on for long comes after what only waited.
func settle(ctx context.Context, durable jetstream.Consumer, visibility time.Duration, log *slog.Logger) (arrival, error) {
	info := durable.CachedInfo()
	end := time.Now().Add(visibility + time.Second)
	for info.NumAckPending > 0 && time.Now().Before(end) {
		timer := time.NewTimer(min(visibility/4, time.Until(end)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return arrival{}, ctx.Err()
		case <-timer.C:
		}
		if now, err := durable.Info(ctx); err == nil {
			info = now
		}
	}
	return arrival{log: log, gathers: info.NumAckPending > 0, owed: info.NumAckPending, last: info.Delivered.Consumer}, nil
}

// lull is for how long nothing comes of what the broker delivers again when that is all.
const lull = time.Second

// note notes that a delivery came.
func (a *arrival) note(p place, now time.Time, visibility time.Duration) {
	if a.gathers {
		a.since = now
		if a.owed--; a.owed <= 0 || p.delivered <= 1 { // what is new comes after what comes again
			a.gathers = false
		}
	}
	if p.delivery > a.last+1 {
		a.calm = now.Add(visibility + time.Second)
		a.log.Warn("deliveries were lost on the way, or another process consumes: nothing is begun until they come again",
			slog.Uint64("deliveries", p.delivery-a.last-1))
	}
	a.last = p.delivery
}

// complete reports whether all is here that must not be overtaken. full says that no more is asked for.
func (a *arrival) complete(now time.Time, full bool) bool {
	if a.gathers && (full || !a.since.IsZero() && now.Sub(a.since) > lull) {
		a.gathers = false
	}
	return !a.gathers && !now.Before(a.calm)
}
