package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

func floors() []*Contest {
	return []*Contest{{
		Name: "floor", Title: "Floors", Runs: 1, Headline: true,
		About: "The costs of the machine and the standard library. Every row below contains the first one: the call of the work itself and the check of its result.",
		Entries: []Entry{
			floor("function-call", "the harness and the work; part of every figure in this file", func(*Run) func(*Worker) func() {
				return func(*Worker) func() { return func() {} }
			}),
			floor("monotonic-read", "time.Since of a fixed time", func(*Run) func(*Worker) func() {
				epoch := time.Now()
				return func(w *Worker) func() {
					return func() { w.late = time.Since(epoch) < 0 }
				}
			}),
			floor("time-now", "", func(*Run) func(*Worker) func() {
				return func(w *Worker) func() { return func() { w.late = time.Now().IsZero() } }
			}),
			floor("atomic-add", "one word; in parallel all processors write it", func(*Run) func(*Worker) func() {
				word := new(atomic.Int64)
				return func(*Worker) func() { return func() { word.Add(1) } }
			}),
			floor("atomic-add-sharded", "a cache line for each goroutine", func(*Run) func(*Worker) func() {
				return func(*Worker) func() {
					word := new(struct {
						_ [64]byte
						n atomic.Int64
						_ [64]byte
					})
					return func() { word.n.Add(1) }
				}
			}),
			floor("mutex", "lock and unlock", func(*Run) func(*Worker) func() {
				var mu sync.Mutex
				return func(*Worker) func() { return func() { mu.Lock(); mu.Unlock() } } //nolint:staticcheck // empty on purpose
			}),
			floor("allocation-64", "a cache line with pointers in it, which the collector must look at", func(*Run) func(*Worker) func() {
				return func(w *Worker) func() { return func() { w.line = new([8]*byte) } }
			}),
			floor("timer-reset-stop", "of a timer that is used again", func(*Run) func(*Worker) func() {
				return func(*Worker) func() {
					t := time.NewTimer(time.Hour)
					return func() { t.Reset(time.Hour); t.Stop() }
				}
			}),
			floor("goroutine", "start one and receive from it over a channel", func(*Run) func(*Worker) func() {
				return func(*Worker) func() {
					return func() {
						done := make(chan struct{})
						go func() { close(done) }()
						<-done
					}
				}
			}),
			floor("context.WithTimeout", "and cancel", func(*Run) func(*Worker) func() { return withTimeout(false) }),
			floor("context.WithTimeout+Done", "and ask for Done, and cancel", func(*Run) func(*Worker) func() { return withTimeout(true) }),
		},
	}}
}

func withTimeout(done bool) func(*Worker) func() {
	return func(w *Worker) func() {
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			if done {
				select {
				case <-ctx.Done():
					w.Ran = -1
				default:
				}
			}
			cancel()
		}
	}
}

// floor wraps something that costs in a plain call of the work.
func floor(name, note string, start func(*Run) func(*Worker) func()) Entry {
	return Entry{Name: name, Kind: Floor, Note: note, Start: func(r *Run) func(*Worker) func() bool {
		play := start(r)
		return func(w *Worker) func() bool {
			act, work := play(w), w.Plain
			return func() bool {
				act()
				return w.Right(work())
			}
		}
	}}
}
