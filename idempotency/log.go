package idempotency

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// How an outage becomes a few lines.
const (
	logEvery = 10 * time.Second
	logKeys  = 20 // keys that a sum names
)

// LogTo returns an Observer that logs: trouble as warnings, the rest for debugging. Of
// trouble of one kind the first is logged at once. What follows within ten seconds is
// counted, and told in one line, with the first keys and the last error; so it goes on until
// ten seconds bring nothing. It has no goroutine, and a timer only for that time. What is
// counted and not told when the program ends is lost: at most ten seconds of it, and never
// the first of its kind.
func LogTo(log *slog.Logger) Observer { return &logger{log: log} }

type logger struct {
	log *slog.Logger

	mu    sync.Mutex
	bouts map[bout]*troubles
}

// A bout is what troubles are counted by: a closed set.
type bout struct {
	kind    EventKind
	problem Problem
}

// troubles are those of one kind that are not told yet.
type troubles struct {
	count int
	since time.Time
	keys  []string
	last  Event
}

// Observe implements Observer.
func (l *logger) Observe(ctx context.Context, e Event) {
	level := slog.LevelDebug
	if trouble[e.Kind] || e.Err != nil {
		level = slog.LevelWarn
	}
	if !l.log.Enabled(ctx, level) || level == slog.LevelWarn && l.counted(&e) {
		return
	}
	l.log.LogAttrs(ctx, level, "idempotency: "+string(e.Kind), e.attrs()...)
}

// counted reports whether a trouble is logged later, with others. A rare one that belongs to no
// request is logged by itself.
func (l *logger) counted(e *Event) bool {
	switch e.Kind {
	case eventStoreUnsafe, eventSwept, eventSweepFailed:
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := bout{e.Kind, e.Problem}
	t := l.bouts[b]
	if t == nil {
		if l.bouts == nil {
			l.bouts = map[bout]*troubles{}
		}
		l.bouts[b] = new(troubles)
		time.AfterFunc(logEvery, func() { l.elapsed(b) })
		return false
	}
	if t.count == 0 {
		t.since = time.Now()
	}
	t.count++
	t.last = *e
	if key := e.ID.String(); e.ID != (ID{}) && len(t.keys) < logKeys && !slices.Contains(t.keys, key) {
		t.keys = append(t.keys, key)
	}
	return true
}

// elapsed tells what was counted, or forgets the bout if there was nothing.
func (l *logger) elapsed(b bout) {
	l.mu.Lock()
	told := *l.bouts[b]
	if told.count == 0 {
		delete(l.bouts, b)
	} else {
		*l.bouts[b] = troubles{}
		time.AfterFunc(logEvery, func() { l.elapsed(b) })
	}
	l.mu.Unlock()
	if told.count == 0 {
		return
	}
	as := []slog.Attr{
		slog.Int("count", told.count), slog.Time("since", told.since), slog.Duration("for", time.Since(told.since)),
		slog.String("guarantee", told.last.Guarantee.String()),
	}
	if len(told.keys) > 0 {
		as = append(as, slog.Any("key_hashes", told.keys))
	}
	if b.problem != "" {
		as = append(as, slog.String("problem", string(b.problem)))
	}
	if told.last.Err != nil {
		as = append(as, slog.Any("last_error", told.last.Err))
	}
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "idempotency: more of "+string(b.kind), as...)
}

// attrs are the fields that mean something.
func (e *Event) attrs() (attrs []slog.Attr) {
	if e.Kind == eventSwept || e.Kind == eventSweepFailed {
		attrs = append(attrs, slog.Int("records", e.Records), slog.Duration("took", e.Took))
	} else {
		if e.ID != (ID{}) { // zero if the key is missing, or nothing was asked yet
			attrs = append(attrs, slog.String("key_hash", e.ID.String()))
		}
		attrs = append(attrs, slog.String("guarantee", e.Guarantee.String()))
	}
	if e.Decision != 0 {
		attrs = append(attrs, slog.String("decision", e.Decision.String()))
	}
	if e.State != StateAbsent {
		attrs = append(attrs, slog.String("state", e.State.String()))
	}
	if e.Problem != "" {
		attrs = append(attrs, slog.String("problem", string(e.Problem)))
	}
	if e.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", e.Attempt))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return attrs
}
