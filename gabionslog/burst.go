package gabionslog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

const (
	maxBursts  = 1000 // a program has tens of dependencies
	maxCodes   = 32   // codes that a sum names: there are fewer decisions about keys or messages
	maxChanges = 20   // lines about changes of one kind, of one dependency, before they are counted: partitions may be a thousand
)

// others is the name that dependencies past the bound share.
const others = "others"

// subject is what a burst is about.
type subject struct {
	dependency string
	kind       policy.Kind
	level      slog.Level // of events that come with calls; zero of changes, whose last counts
}

// burst counts the events that are not logged one by one.
type burst struct {
	seen    int        // since it began
	since   time.Time  // of the first that is counted and not told yet
	level   slog.Level // the highest of those
	first   gabion.Event
	count   int
	unknown int   // of those, calls whose effect is unknown
	lost    int64 // events or letters that those say are lost
	reasons map[policy.Reason]int
	codes   map[string]int // of decisions about keys and messages; of calls, how their last attempts ended
	last    gabion.Event   // of those
	code    string         // the last that one of those had
	calls   *calls         // of the dependency; nil unless the burst is of calls
	before  share          // of those, when what is not told yet began
	timer   *time.Timer
}

// counted reports whether an event is counted, to be logged in a sum. The first of a
// burst is not, nor are the first changes of state.
func (o *Observer) counted(level slog.Level, e *gabion.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := subject{dependency: e.Dependency, kind: e.Kind}
	if frequent(e.Kind) {
		s.level = level
	}
	b := o.bursts[s]
	if b == nil && len(o.bursts) >= maxBursts {
		s.dependency = others
		b = o.bursts[s]
	}
	if b == nil {
		o.begin(s, e)
		return false
	}
	b.calls.note(e)
	b.seen++
	if b.seen <= maxChanges && !frequent(e.Kind) {
		return false
	}
	b.add(level, e)
	return true
}

// frequent reports whether events of a kind come with calls, and not with changes.
func frequent(k policy.Kind) bool {
	switch k {
	case policy.KindReturned, policy.KindFellBack, policy.KindBodyFailed, policy.KindPaceSet, policy.KindEventsLost, policy.KindLettersLost,
		policy.KindKeyDecided, policy.KindMessageDisposed:
		return true
	}
	return false
}

func (o *Observer) begin(s subject, e *gabion.Event) {
	if o.bursts == nil {
		o.bursts = map[subject]*burst{}
	}
	b := &burst{seen: 1, calls: o.watch(s, e)}
	b.before = b.calls.now()
	b.calls.note(e)
	b.timer = time.AfterFunc(o.every(), func() { o.elapsed(s, b) })
	o.bursts[s] = b
}

func (o *Observer) every() time.Duration {
	if o.Every <= 0 {
		return defaultEvery
	}
	return o.Every
}

func (b *burst) add(level slog.Level, e *gabion.Event) {
	if b.count == 0 {
		b.since, b.first, b.level = time.Now(), *e, level
		b.reasons, b.codes = map[policy.Reason]int{}, map[string]int{}
	}
	b.count++
	b.level, b.last = max(b.level, level), *e
	b.reasons[e.Reason]++
	if e.Code != "" {
		b.code = e.Code
	}
	if e.Kind == policy.KindReturned {
		b.returned(e)
		return
	}
	switch {
	case e.Kind == policy.KindEventsLost, e.Kind == policy.KindLettersLost:
		b.lost += e.Count
	case decides(e.Kind):
		b.addCode(e.Code)
	}
}

func (b *burst) returned(e *gabion.Event) {
	if e.Effect == policy.UnknownEffect {
		b.unknown++
	}
	if what := cause(e); what != "" {
		b.addCode(what)
	}
}

func (b *burst) addCode(code string) {
	if b.codes[code] > 0 || len(b.codes) < maxCodes {
		b.codes[code]++
	}
}

// decides reports whether the code of an event is what was decided.
func decides(k policy.Kind) bool {
	return k == policy.KindKeyDecided || k == policy.KindMessageDisposed
}

// elapsed tells what was counted, or ends the burst if there was nothing.
func (o *Observer) elapsed(s subject, b *burst) {
	o.mu.Lock()
	if o.bursts[s] != b { // already flushed
		o.mu.Unlock()
		return
	}
	told, now := *b, b.calls.now()
	if b.count == 0 {
		delete(o.bursts, s)
		o.unwatch(s, b.calls)
	} else {
		*b = burst{seen: b.seen, timer: b.timer, calls: b.calls, before: now}
		b.timer.Reset(o.every())
	}
	o.mu.Unlock()
	o.tell(s, &told, now.since(told.before))
}

// Flush tells what was counted and not told yet, as at the end of a program.
func (o *Observer) Flush() {
	o.mu.Lock()
	bursts := o.bursts
	o.bursts, o.calls = nil, nil
	o.failing.Store(0)
	o.mu.Unlock()
	for s, b := range bursts {
		b.timer.Stop()
		o.tell(s, b, b.calls.now().since(b.before))
	}
}

// tell logs a burst in one line. It belongs to no call, so it has no call's context.
func (o *Observer) tell(s subject, b *burst, of share) {
	logger, ctx, level := o.logger(), context.Background(), b.level
	if of.most() {
		level = max(level, slog.LevelWarn)
	}
	if b.count == 0 || !logger.Enabled(ctx, level) {
		return
	}
	as := []slog.Attr{
		slog.String("dependency", s.dependency), slog.Int("count", b.count),
		slog.Time("since", b.since), slog.Duration("for", time.Since(b.since)),
	}
	if b.first.Reason != policy.None {
		as = append(as, slog.String("first_reason", b.first.Reason.String()))
	}
	switch {
	case s.kind == policy.KindReturned:
		as = append(as, slog.Int("effect_unknown", b.unknown))
		if b.calls != nil {
			as = append(as, slog.Int64("succeeded", of.succeeded))
		}
		as = withLast(b, as)
		if len(b.codes) > 0 {
			as = append(as, b.byCode("last_attempts", 0))
		}
	case s.kind == policy.KindEventsLost, s.kind == policy.KindLettersLost:
		as = append(as, slog.Int64("lost", b.lost))
	case decides(s.kind):
		as = append(as, slog.String("first_code", b.first.Code), b.byCode("codes", b.count))
	}
	if len(b.reasons) > 1 {
		as = append(as, b.byReason())
	}
	if !frequent(s.kind) { // a change of state: what it is now
		as = append(as, slog.Attr{Key: "last", Value: slog.GroupValue(attrs(&b.last)[1:]...)})
	}
	logger.LogAttrs(ctx, level, titleOf(s.kind), as...)
}

func titleOf(k policy.Kind) string {
	if k == policy.KindReturned {
		return "gabion: more calls failed"
	}
	return "gabion: more of " + k.String()
}

// withLast adds what the dependency said to the last call that got an answer.
func withLast(b *burst, as []slog.Attr) []slog.Attr {
	if b.code != "" {
		as = append(as, slog.String("last_code", b.code))
	}
	return as
}

// byReason says how many there were for each reason.
func (b *burst) byReason() slog.Attr {
	var as []any
	for _, r := range policy.Reasons() {
		if n := b.reasons[r]; n > 0 {
			as = append(as, slog.Int(r.String(), n))
		}
	}
	return slog.Group("reasons", as...)
}

// byCode says how many there were of each decision, or of each end of attempts. others is the total of
// those without a code.
func (b *burst) byCode(key string, others int) slog.Attr {
	var as []any
	for _, code := range slices.Sorted(maps.Keys(b.codes)) {
		as = append(as, slog.Int(code, b.codes[code]))
		others -= b.codes[code]
	}
	if others > 0 {
		as = append(as, slog.Int("others", others))
	}
	return slog.Group(key, as...)
}
