// Package gabionslog writes gabion's events as log lines: one for each change of a
// dependency's state, and one for each burst of calls that failed.
package gabionslog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// defaultEvery is what a zero Observer.Every means.
const defaultEvery = 10 * time.Second

// Observer logs what an operator wants to know: what happened to a dependency, and
// that calls failed. Warnings are what an operator should look at: a breaker that opened,
// retries that were switched off, failed calls that may have happened all the same, most
// calls failing, dead letters and their loss, keys in trouble. What failed without an effect, and what gets
// better, is information. The first call that fails is logged at once. Those that fail
// within Every after it are counted, and one line says how many they were, for which
// reasons and since when, and how their last attempts had ended, such as 252 timeouts; so it goes on until no call fails for that long. That line is a
// warning if most calls of the dependency failed in that time because of it, whatever the
// effect. Other
// events that come with calls, such as fallbacks and broken bodies, are treated alike.
// Of changes, such as a breaker's, the first 20 are logged, and then their sum with the
// last of them: what is so now, of the partition that it names.
//
// The zero Observer logs to slog.Default. Lines about one event have the context of
// the call, so that a handler may add a trace. Events have reasons and not errors,
// which may tell secrets: those are the caller's to log. What is counted is bounded: a
// thousand bursts at a time, further dependencies share the name "others". An
// Observer is safe for concurrent use if its Logger is, must not be copied once it is
// used, and may serve many dependencies. It has no goroutine, and a timer only while a
// burst lasts.
type Observer struct {
	// Logger is where to. Nil means slog.Default.
	Logger *slog.Logger

	// Attempts logs each event by itself, and every attempt, wait and success too, at
	// debug level. It must be set before the observer is attached. At a thousand calls a second that is three thousand lines a second.
	Attempts bool

	// Every is the time that one line sums up. Zero means 10 s.
	Every time.Duration

	failing atomic.Int32 // dependencies in calls
	mu      sync.RWMutex // guards bursts and calls
	bursts  map[subject]*burst
	calls   map[string]*calls // of dependencies whose calls fail
}

// levels says how much each kind of event matters: an error is a bug, a warning needs an operator's
// look, information is worth keeping. Kinds that are not named, and those that levelOf makes smaller,
// are logged at debug level, and only if Attempts is set.
var levels = map[policy.Kind]slog.Level{
	policy.KindBreakerMoved:    slog.LevelWarn,
	policy.KindBreakerExceeded: slog.LevelWarn,
	policy.KindRetriesSwitched: slog.LevelWarn,
	policy.KindLettersLost:     slog.LevelWarn,
	policy.KindEventsLost:      slog.LevelWarn,
	policy.KindObserverCrashed: slog.LevelError,
	policy.KindEndpointsMoved:  slog.LevelWarn,
	policy.KindPaceSet:         slog.LevelInfo,
	policy.KindLimitMoved:      slog.LevelInfo,
	policy.KindReloaded:        slog.LevelInfo,
	policy.KindFellBack:        slog.LevelInfo,
	policy.KindBodyFailed:      slog.LevelInfo,
	policy.KindReturned:        slog.LevelInfo,
	policy.KindKeyDecided:      slog.LevelWarn,
	policy.KindMessageDisposed: slog.LevelWarn,
}

// levelOf says how much an event matters.
func levelOf(e *gabion.Event) slog.Level {
	level, ok := levels[e.Kind]
	switch {
	case !ok:
		return slog.LevelDebug
	case e.Kind == policy.KindBreakerMoved && (e.To == policy.StateClosed || e.To == policy.StateHalfOpen),
		e.Kind == policy.KindRetriesSwitched && e.Reason == policy.None:
		return slog.LevelInfo // it gets better
	case e.Kind == policy.KindReturned && (e.Reason == policy.None || e.Reason == policy.Canceled),
		e.Kind == policy.KindKeyDecided && !troubled[e.Code],
		e.Kind == policy.KindMessageDisposed && !strings.HasPrefix(e.Code, "dead_letter"):
		return slog.LevelDebug
	case e.Kind == policy.KindReturned && e.Effect == policy.UnknownEffect:
		return slog.LevelWarn // an operator may have to find out whether it happened
	}
	return level
}

// troubled are the decisions about a key that an operator should look at.
var troubled = map[string]bool{"mismatch": true, "outcome_unknown": true, "record_unreadable": true, "store_unavailable": true}

// Wants implements gabion.Selective: without Attempts, what is never logged costs calls
// nothing.
func (o *Observer) Wants(k policy.Kind) bool {
	_, named := levels[k]
	return o.Attempts || named
}

// Observe implements gabion.Observer.
func (o *Observer) Observe(ctx context.Context, e gabion.Event) {
	level := levelOf(&e)
	if level == slog.LevelDebug && !o.Attempts {
		if e.Kind == policy.KindReturned && e.Reason == policy.None {
			o.succeeded(e.Dependency)
		}
		return
	}
	logger := o.logger()
	enabled := logger.Enabled(ctx, level)
	if !enabled && (o.Attempts || e.Kind != policy.KindReturned || !logger.Enabled(ctx, slog.LevelWarn)) {
		return // the sum of calls may be a warning although none of them is
	}
	if !o.Attempts && o.counted(level, &e) || !enabled {
		return
	}
	logger.LogAttrs(ctx, level, "gabion: "+e.Kind.String(), attrs(&e)...)
}

func (o *Observer) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.Default()
	}
	return o.Logger
}

// attrs are the fields of e that mean something.
func attrs(e *gabion.Event) []slog.Attr {
	as := append(make([]slog.Attr, 0, 12), slog.String("dependency", e.Dependency))
	text := func(key, value string) {
		if value != "" {
			as = append(as, slog.String(key, value))
		}
	}
	text("operation", e.Operation)
	text("partition", e.Partition)
	if e.Reason != policy.None {
		text("reason", e.Reason.String())
	}
	if e.Call != 0 {
		as = append(as, slog.Uint64("call", e.Call))
	}
	if e.Seq != 0 {
		as = append(as, slog.Uint64("seq", e.Seq))
	}
	as = append(as, particulars(e)...)
	text("why", because(e))
	return as
}

// because says in words what was decided and with which numbers, where that helps an operator to act.
func because(e *gabion.Event) string {
	switch {
	case e.Kind == policy.KindBreakerMoved, e.Kind == policy.KindBreakerExceeded, e.Kind == policy.KindRetriesSwitched, e.Kind == policy.KindPaceSet,
		e.Kind == policy.KindLettersLost, e.Kind == policy.KindEndpointsMoved:
		return why.Why(*e)
	case e.Kind == policy.KindReturned && e.Reason != policy.None:
		if about := why.Numbers(e.Reason, e.Numbers); about != "" {
			return why.Reason(e.Reason) + " (" + about + ")"
		}
		return why.Reason(e.Reason)
	}
	return ""
}

func particulars(e *gabion.Event) []slog.Attr {
	switch e.Kind {
	case policy.KindAttemptSent:
		return []slog.Attr{attempt(e), slog.Bool("hedge", e.Hedge), slog.Duration("within", until(e))}
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		attrs := withCode(e, attempt(e), slog.Bool("hedge", e.Hedge), slog.String("class", e.Class.String()),
			slog.String("effect", e.Effect.String()), slog.Duration("took", e.Took), slog.Bool("slow", e.Slow))
		if e.Measured {
			attrs = append(attrs, slog.Bool("measured", true))
		}
		return attrs
	case policy.KindBodyFailed, policy.KindOutlived:
		return []slog.Attr{attempt(e), slog.Bool("hedge", e.Hedge), slog.Duration("took", e.Took)}
	case policy.KindWaiting:
		return []slog.Attr{attempt(e), slog.String("for", e.Wait), slog.Duration("wait", until(e))}
	case policy.KindAttemptRefused:
		return []slog.Attr{attempt(e), slog.Duration("retry_after", until(e))}
	case policy.KindHedgeSkipped:
		return []slog.Attr{attempt(e)}
	case policy.KindReturned:
		as := []slog.Attr{slog.Int("attempts", int(e.Attempt)), slog.String("effect", e.Effect.String()), slog.Duration("took", e.Took)}
		if what := cause(e); what != "" && what != e.Code {
			as = append(as, slog.String("last_attempt", what))
		}
		return withCode(e, as...)
	case policy.KindBreakerMoved, policy.KindBreakerExceeded:
		return []slog.Attr{slog.String("from", e.From.String()), slog.String("to", e.To.String()),
			slog.String("cause", e.Cause.String()), slog.Int64("calls", numbers(e).Calls), slog.Int64("failures", numbers(e).Failures),
			slog.Int64("slow", numbers(e).Slows), slog.Duration("for", until(e)), slog.Duration("late", late(e))}
	case policy.KindRetriesSwitched:
		return []slog.Attr{slog.Bool("on", e.Reason == policy.None)}
	case policy.KindKeyDecided, policy.KindMessageDisposed:
		return []slog.Attr{slog.String("code", e.Code)}
	case policy.KindEndpointsMoved:
		return []slog.Attr{slog.String("code", e.Code), slog.Int64("count", e.Count)}
	case policy.KindLettersLost:
		return []slog.Attr{slog.Int64("count", e.Count), slog.Int64("bytes", numbers(e).Bytes), slog.Duration("oldest", numbers(e).Waited)}
	case policy.KindPaceSet:
		return []slog.Attr{slog.Duration("for", until(e))}
	case policy.KindLimitMoved, policy.KindEventsLost, policy.KindResent:
		return []slog.Attr{slog.Int64("count", e.Count)}
	}
	return nil
}

// cause is how the last attempt of a call that failed had ended: the dependency's own word,
// or else its class, such as timeout. It is empty where no attempt had ended. The reason of
// the call says only why no other attempt followed.
func cause(e *gabion.Event) string {
	if e.Code != "" || e.Class == policy.ClassUndecided || e.Class == policy.ClassSuccess {
		return e.Code
	}
	return e.Class.String()
}

// numbers are those of the event, or zeros.
func numbers(e *gabion.Event) policy.Numbers {
	if e.Numbers == nil {
		return policy.Numbers{}
	}
	return *e.Numbers
}

// withCode adds the dependency's own word, if there is one.
func withCode(e *gabion.Event, as ...slog.Attr) []slog.Attr {
	if e.Code != "" {
		as = append(as, slog.String("code", e.Code))
	}
	return as
}

func attempt(e *gabion.Event) slog.Attr { return slog.Int("attempt", int(e.Attempt)) }

// late is by how much a move was taken later than it was due.
func late(e *gabion.Event) time.Duration {
	if e.Due == 0 || e.At <= e.Due {
		return 0
	}
	return e.At.Sub(e.Due)
}

// until is how long from the event to what it names: a deadline, the end of a wait. It is
// zero where there is no end.
func until(e *gabion.Event) time.Duration {
	if e.Until <= e.At || e.Until == policy.Never {
		return 0
	}
	return e.Until.Sub(e.At)
}
