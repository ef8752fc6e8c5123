package idempotency

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The context of a run ends with the run: not with its client before, and not later.
func TestContextOfARunEndsWithTheRun(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(context.Context)
	}{
		{"it was not asked for its end", func(context.Context) {}},
		{"it was asked for Done", func(ctx context.Context) { ctx.Done() }},
		{"it was asked for a value", func(ctx context.Context) { ctx.Value("none") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, goes := context.WithCancel(context.WithValue(t.Context(), "who", "client"))
				var ctx, child context.Context
				var told bool
				r := newRig(t, Config{}, func(_ http.ResponseWriter, req *http.Request) {
					ctx = req.Context()
					c.ask(ctx)
					goes()
					synctest.Wait()
					if ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value("who") != "client" {
						t.Errorf("after its client went: %v, %v, %v", ctx.Err(), context.Cause(ctx), ctx.Value("who"))
					}
					if _, limited := ctx.Deadline(); limited {
						t.Error("it has a deadline")
					}
					if c.name == "it was not asked for its end" {
						return
					}
					var cancel context.CancelFunc
					child, cancel = context.WithTimeout(ctx, time.Hour)
					t.Cleanup(cancel) // after it ended by itself
					context.AfterFunc(ctx, func() { told = true })
					select {
					case <-ctx.Done():
						t.Error("it ended with its client")
					case <-child.Done():
						t.Error("its child ended with its client")
					default:
					}
				})
				r.send(post("k", "x").WithContext(client))
				synctest.Wait()
				select {
				case <-ctx.Done():
				default:
					t.Error("it lives after the run")
				}
				if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
					t.Errorf("it ended with %v, because of %v", ctx.Err(), context.Cause(ctx))
				}
				if child != nil && (child.Err() == nil || !told) {
					t.Errorf("its child ended with %v; told: %v", child.Err(), told)
				}
			})
		})
	}
}

func TestTheFirstCauseOfAnEndCounts(t *testing.T) {
	for _, asked := range []bool{false, true} {
		l := lateContext{Context: t.Context()}
		if asked {
			l.Done()
		}
		l.end(errFenced)
		l.end(nil)
		if got := context.Cause(&l); got != errFenced || l.Err() != context.Canceled {
			t.Errorf("asked before: %v: ended with %v, because of %v", asked, l.Err(), got)
		}
	}
}

// Heartbeats are used again: a run must not feel those of an earlier one, nor miss
// its own.
func TestHeartbeatsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Lease: 3 * time.Second}}, nil)
		extended := map[string][]time.Duration{}
		var mu sync.Mutex
		start := time.Now()
		r.h.store = watchedExtends{r.store, func(id ID) {
			mu.Lock()
			defer mu.Unlock()
			extended[id.String()] = append(extended[id.String()], time.Since(start))
		}}
		for i, c := range []struct {
			key   string
			takes time.Duration
			beats int
		}{{"short", 0, 0}, {"long", 10 * time.Second, 9}, {"short-again", 0, 0}, {"shorter-than-a-beat", 800 * time.Millisecond, 0}, {"long-again", 5500 * time.Millisecond, 4}} {
			r.work = works(c.takes)
			start = time.Now()
			if w := r.send(post(c.key, "x")); w.Code != 200 {
				t.Errorf("run %d: %d", i+1, w.Code)
			}
			pass(time.Minute)
			got := extended[IDOf("t/", c.key).String()]
			if len(got) < c.beats || len(got) > c.beats+2 || len(got) > 0 && (got[0] < 900*time.Millisecond || got[0] > 1100*time.Millisecond) {
				t.Errorf("run %d, which took %v: extended after %v", i+1, c.takes, got)
			}
		}
		if len(extended) != 2 {
			t.Errorf("extended: %v", extended)
		}
	})
}

// Runs at once have heartbeats of their own.
func TestHeartbeatsOfRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Lease: 3 * time.Second}}, works(0))
		for _, key := range []string{"a", "b", "c"} { // the first of these leave theirs behind
			r.send(post(key, "x"))
		}
		r.work = works(20 * time.Second)
		var all sync.WaitGroup
		for _, key := range []string{"d", "e", "f", "g"} {
			all.Go(func() {
				if w := r.send(post(key, "x")); w.Code != 200 {
					t.Errorf("%s: %d", key, w.Code)
				}
			})
		}
		all.Wait()
		if n := r.seen.count(eventLeaseLost); n != 0 {
			t.Errorf("%d leases were lost", n)
		}
	})
}

type watchedExtends struct {
	Store
	extended func(ID)
}

func (s watchedExtends) Apply(ctx context.Context, ref Ref, c Change) error {
	if c.State == StateRunning {
		s.extended(ref.ID)
	}
	return s.Store.Apply(ctx, ref, c)
}

// A store that hangs when a result is brought keeps the client for five seconds.
func TestResultIsNotWaitedForLonger(t *testing.T) {
	for _, asks := range []func(context.Context){func(context.Context) {}, func(ctx context.Context) { ctx.Deadline() }} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{}, answer(200, "done"))
			r.h.store = hangsAtApply{r.store, asks}
			start := time.Now()
			w := r.send(post("k", "x"))
			if took := time.Since(start); took != resultTimeout || w.Body.String() != "done" {
				t.Errorf("%q after %v", w.Body, took)
			}
			pass(time.Hour)
		})
	}
}

type hangsAtApply struct {
	Store
	asks func(context.Context)
}

func (s hangsAtApply) Apply(ctx context.Context, _ Ref, _ Change) error {
	s.asks(ctx)
	<-ctx.Done()
	return ctx.Err()
}

// A duplicate that stops waiting leaves the others waiting.
func TestOneWaiterLeavesAnotherIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Wait: 30 * time.Second}}, works(10010*time.Millisecond)) // between two looks of those who wait
		var all sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			all.Go(func() { r.send(post(key, "x")) })
		}
		synctest.Wait()
		start := time.Now()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r.send(post("a", "x").WithContext(ctx))
		})
		all.Go(func() {
			r.send(post("b", "x"))
			if took := time.Since(start); took != 10010*time.Millisecond {
				t.Errorf("woken after %v", took)
			}
		})
		all.Wait()
	})
}

// What a handler changes after it wrote the header is neither sent nor kept, as in
// net/http.
func TestHeaderAsItWasWritten(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(http.Header)
	}{
		{"nothing is changed", func(http.Header) {}},
		{"a line is added", func(h http.Header) { h.Set("Etag", "late") }},
		{"a line is removed", func(h http.Header) { h.Del("Location") }},
		{"a line is replaced", func(h http.Header) { h.Set("Location", "/2") }},
		{"a line is exchanged for another", func(h http.Header) { h.Del("Location"); h.Set("Etag", "late") }},
		{"a value is added", func(h http.Header) { h.Add("Link", "<c>") }},
		{"values are taken away", func(h http.Header) { h["Link"] = h["Link"][:1] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Content-Type", "text/plain") // else one is added, and nothing stays as it is
				h.Set("Location", "/1")
				h["Link"] = append(make([]string, 0, 8), "<a>", "<b>")
				w.WriteHeader(201)
				c.change(h)
				io.WriteString(w, "body")
			})
			first, second := r.send(post("k", "x")), r.send(post("k", "x"))
			r.wantReplay(first, second)
			for i, h := range []http.Header{first.Header(), second.Header()} {
				if h.Get("Location") != "/1" || h.Get("Etag") != "" || !slices.Equal(h["Link"], []string{"<a>", "<b>"}) {
					t.Errorf("answer %d: %v", i+1, h)
				}
			}
		})
	}
}

func TestNoTypeIsGuessedOfEncodedBodies(t *testing.T) {
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "\x1f\x8b")
	})
	first := r.send(post("k", "x"))
	r.wantReplay(first, r.send(post("k", "x")))
	for _, f := range r.record("k").Result.Header {
		if f.Name == "Content-Type" {
			t.Errorf("it is kept with the type %s", f.Value)
		}
	}
}

func TestLinesAreSetOnce(t *testing.T) {
	l := linesOf(http.Header{"A": {"1"}, "B": {"2"}})
	l.set("A", []string{"3"})
	l.set("C", []string{"4"})
	if !slices.Equal(l.get("A"), []string{"3"}) || len(l) != 3 || !l.has("C") || l.has("D") || l.get("D") != nil {
		t.Errorf("%v", l)
	}
	l.set(http.TrailerPrefix+"X", []string{"1"})
	for range 2 {
		l.declare([]Field{{"X", "1"}, {"X", "2"}, {"Y", "3"}})
		if !slices.Equal(l.get("Trailer"), []string{"X", "Y"}) || len(l) != 4 {
			t.Errorf("%v", l)
		}
	}
}
