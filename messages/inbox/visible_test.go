package inbox

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Every case waits for an end of the context; a goroutine that is left over fails
// the bubble.
func TestKeepVisible(t *testing.T) {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for _, c := range []struct {
		name   string
		v      Visibility
		extend func(n int, ctx context.Context) error // n counts from 1
		ends   time.Duration
		calls  int
		cause  error
	}{
		{"every third of the timeout until the most", Visibility{Timeout: seconds(30), Max: seconds(95)},
			func(int, context.Context) error { return nil }, seconds(95), 9, ErrKeptTooLong},
		{"a most that is shorter than the pause", Visibility{Timeout: seconds(30), Max: seconds(3)},
			func(int, context.Context) error { return nil }, seconds(3), 0, ErrKeptTooLong},
		{"failing from the first on", Visibility{Timeout: seconds(30)},
			func(int, context.Context) error { return errDown }, seconds(30), 9, ErrNotKept},
		{"failing after the second", Visibility{Timeout: seconds(30)},
			func(n int, _ context.Context) error {
				if n > 2 {
					return errDown
				}
				return nil
			}, seconds(50), 11, ErrNotKept},
		{"failing now and then", Visibility{Timeout: seconds(30), Max: seconds(600)},
			func(n int, _ context.Context) error {
				if n%3 != 0 {
					return errDown
				}
				return nil
			}, seconds(600), 0, ErrKeptTooLong},
		{"hanging until it is too late", Visibility{Timeout: seconds(30)},
			func(_ int, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, seconds(30), 1, ErrNotKept},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, calls := time.Now(), 0
				alive, stop := KeepVisible(t.Context(), c.v, func(ctx context.Context) error {
					calls++
					return c.extend(calls, ctx)
				})
				<-alive.Done()
				if took := time.Since(start); took != c.ends {
					t.Errorf("ended after %v, want %v", took, c.ends)
				}
				if err := context.Cause(alive); !errors.Is(err, c.cause) {
					t.Errorf("ended because %v", err)
				}
				stop()
				stop() // does no harm
				if c.calls != 0 && calls != c.calls {
					t.Errorf("%d calls, want %d", calls, c.calls)
				}
			})
		})
	}
}

// What an extension began ends with it. One that panics has failed, and is tried again.
func TestAnExtensionLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []context.Context
		alive, stop := KeepVisible(t.Context(), Visibility{Timeout: 30 * time.Second}, func(ctx context.Context) error {
			for n, before := range seen {
				if before.Err() != context.Canceled {
					t.Errorf("the context of extension %d says %v at the next", n, before.Err())
				}
			}
			if seen = append(seen, ctx); len(seen)%2 == 1 {
				panic("a bug of the broker's client")
			}
			return nil
		})
		pass(4 * time.Minute)
		if stop(); len(seen) < 8 || context.Cause(alive) != context.Canceled {
			t.Errorf("%d extensions, and then %v", len(seen), context.Cause(alive))
		}
	})
}

func TestStopWaitsForAnExtensionUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under atomic.Bool
		_, stop := KeepVisible(t.Context(), Visibility{Timeout: 30 * time.Second}, func(ctx context.Context) error {
			under.Store(true)
			<-ctx.Done()
			pass(time.Second)
			under.Store(false)
			return ctx.Err()
		})
		pass(15 * time.Second)
		if !under.Load() {
			t.Fatal("no extension under way")
		}
		stop()
		if under.Load() {
			t.Error("stop returned while an extension was under way")
		}
	})
}

func TestKeepVisibleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		alive, stop := KeepVisible(ctx, Visibility{}, func(context.Context) error { return nil })
		defer stop()
		cancel(errWork)
		<-alive.Done()
		if context.Cause(alive) != errWork {
			t.Error(context.Cause(alive))
		}
		synctest.Wait()
	})
}

// Most work ends before the first extension: then nothing was started for it.
func TestKeepVisibleStartsNoGoroutineBeforeTheFirstExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		var stops []func()
		for range 100 {
			_, stop := KeepVisible(t.Context(), Visibility{}, func(context.Context) error { return nil })
			stops = append(stops, stop)
		}
		if n := runtime.NumGoroutine() - before; n >= 100 {
			t.Errorf("%d goroutines for 100 messages", n)
		}
		for _, stop := range stops {
			stop()
			stop() // twice is once
		}
	})
}

// An extension that hangs keeps no message for longer than it may be kept.
func TestAnExtensionThatHangsEndsAtTheLongestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		alive, stop := KeepVisible(t.Context(), Visibility{Timeout: 90 * time.Second, Max: time.Minute}, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		defer stop()
		<-alive.Done()
		if took := time.Since(begun); took != time.Minute || !errors.Is(context.Cause(alive), ErrKeptTooLong) {
			t.Errorf("it ended after %v by %v", took, context.Cause(alive))
		}
	})
}
