package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

var errBroker = errors.New("the broker fails")

// inBubble runs a test in a bubble in which no goroutine may be left.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRelayPublishesInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := newTrial(t, newFake("a1 a2 b1 x1 a3"), &broker{}, once, RelayOptions{Batch: 4}).start()
		pass(time.Millisecond)
		x.want("a1 b1 x1 a2 a3", "/")
		x.fake.mu.Lock()
		x.fake.rows = batchOf("a4")
		x.fake.mu.Unlock()
		pass(time.Millisecond)
		x.want("a1 b1 x1 a2 a3", "a4/") // it looks every second
		x.relay.Wake()
		x.relay.Wake()
		pass(time.Millisecond)
		x.want("a1 b1 x1 a2 a3 a4", "/")
		x.stop()
		x.wantTold("leads", "resigned")
	})
}

// failing fails for some messages, with an error or a panic.
func failing(err error, ids ...string) func(context.Context, Message) error {
	return func(_ context.Context, m Message) error {
		for _, id := range ids {
			if m.ID == id && err == nil {
				panic("no")
			} else if m.ID == id {
				return err
			}
		}
		return nil
	}
}

func TestWhatFailsForEverStopsItsAggregateAlone(t *testing.T) {
	refused, passing := classify.Permanent(errBroker), classify.Transient(errBroker)
	for _, c := range []struct {
		name   string
		fails  func(context.Context, Message) error
		whole  bool
		state  string
		parked bool
	}{
		{"it is refused", failing(refused, "a1"), false, "a2/a1", true},
		{"all that go with it are refused", failing(refused, "a1"), true, "a2/a1", true},
		{"the reason is unknown", failing(errBroker, "a1"), false, "a2/a1", true},
		{"and nothing that goes with it is published", failing(errBroker, "a1"), true, "a2/a1", true},
		{"the publisher panics", failing(nil, "a1"), true, "a2/a1", true},
		{"it is always a matter of time", failing(passing, "a1"), true, "a2/a1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake("a1 a2 b1 b2 x1")
				x := newTrial(t, f, &broker{publish: c.fails, whole: c.whole}, once, RelayOptions{MaxFailures: 3}).start()
				for n := range 200 { // others come all the time
					pass(time.Second)
					f.mu.Lock()
					f.rows = append(f.rows, &row{seq: int64(100 + n), Message: Message{ID: fmt.Sprint("y", n)}})
					f.mu.Unlock()
				}
				pass(2 * time.Minute)
				x.stop()
				got := x.broker.text()
				if c.state[0] == 'a' && (strings.Count(got, "b1 b2")+strings.Count(got, "b1 x1 b2") != 1 || !strings.Contains(got, "x1") || !strings.Contains(got, "y199") || strings.Contains(got, "a")) {
					t.Errorf("published %q", got)
				}
				if got := f.state(); c.parked && got != c.state || !c.parked && got != "a2/a1" && got != "a1 a2/" {
					t.Errorf("left %q, want %q", got, c.state)
				}
				if n := strings.Count(strings.Join(x.told, ","), "parked a1"); (n == 1) != c.parked {
					t.Errorf("told %q", x.told)
				}
			})
		})
	}
}

func TestRelayRestsWhileTheBrokerIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		b := &broker{publish: func(context.Context, Message) error {
			if down.Load() {
				return classify.Transient(errBroker)
			}
			return nil
		}}
		f := newFake("a1 b1 a2 x1 x2 x3")
		p := policy.Policy{Breaker: policy.Breaker{Failures: 5}, Retry: policy.Retry{Attempts: 2}}
		x := newTrial(t, f, b, p, RelayOptions{MaxFailures: 1}).start()
		pass(10 * time.Minute)
		x.want("", "a1 b1 a2 x1 x2 x3/") // only the broker is to blame
		if n := b.calls.Load(); n > 100 {
			t.Errorf("%d calls of a broker that is down", n)
		}
		down.Store(false)
		pass(10 * time.Minute)
		if got := f.state(); got != "/" {
			t.Errorf("left %q", got)
		}
		if got := b.text(); strings.Count(got, " ") != 5 || strings.Index(got, "a1") > strings.Index(got, "a2") {
			t.Errorf("published %q", got)
		}
		x.stop()
	})
}

func TestRelayRestsWhileTheDatabaseIsDown(t *testing.T) {
	for _, method := range []string{"acquire", "waiting", "tidy", "published", "setAside"} {
		t.Run(method, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &broker{publish: failing(classify.Permanent(errBroker), "b1")}
				f := newFake("a1 b1")
				f.fail(method, errDown)
				x := newTrial(t, f, b, once, RelayOptions{}).start()
				pass(10 * time.Minute)
				if n := f.count(method); n < 10 && method != "setAside" || n == 0 || n > 100 {
					t.Errorf("%d calls in ten minutes", n)
				}
				f.fail(method, nil)
				f.mu.Lock()
				f.rows = append(f.rows, &row{seq: 9, Message: Message{ID: "x1"}})
				f.mu.Unlock()
				pass(time.Minute)
				x.stop()
				x.want("a1 x1", "/b1") // once: what was confirmed is known
				if x.relay.Leads() {
					t.Error("leads after its end")
				}
			})
		})
	}
}

// A deaf table gives no answer to the first that asks for the lease, as on a connection whose server is gone.
type deaf struct {
	*fake
	asked int
}

func (d *deaf) acquire(ctx context.Context, owner string, length time.Duration) (int64, time.Duration, error) {
	if d.asked++; d.asked == 1 {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return d.fake.acquire(ctx, owner, length)
}

func TestADatabaseThatGivesNoAnswerIsAskedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := newTrial(t, newFake("a1"), &broker{}, once, RelayOptions{})
		x.relay.rows = &deaf{fake: x.fake}
		x.start()
		pass(time.Minute)
		x.want("a1", "/")
		x.stop()
		x.wantTold("broken", "leads", "resigned")
	})
}

func TestOneRelayLeads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, b := newFake(""), &broker{}
		var all [3]*trial
		for i := range all {
			all[i] = newTrial(t, f, b, once, RelayOptions{Lease: 15 * time.Second}).start()
		}
		leader := func() (found int) {
			found = -1
			for i, x := range all {
				if x.relay.Leads() && found >= 0 {
					t.Fatal("two lead")
				} else if x.relay.Leads() {
					found = i
				}
			}
			return found
		}
		for range 3 {
			pass(time.Hour)
			was := leader()
			if was < 0 {
				t.Fatal("no relay leads")
			}
			all[was].stop() // it resigns
			pass(6 * time.Second)
			if is := leader(); is < 0 || is == was {
				t.Fatalf("%d leads after %d", is, was)
			}
			all[was].start()
		}
		for _, x := range all {
			x.stop()
		}
	})
}

// A leader that does not hear of its lease stops in time, in the middle of a call too.
func TestALeaderStopsWhenItsLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		steal bool
		after time.Duration // when it stops at the latest
	}{
		{"the database does not answer", false, 13500 * time.Millisecond},
		{"another took it", true, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var ended atomic.Int64
				begun := time.Now()
				b := &broker{publish: func(ctx context.Context, m Message) error {
					<-ctx.Done()
					ended.Store(int64(time.Since(begun)))
					return context.Cause(ctx)
				}}
				f := newFake("a1 a2")
				p := policy.Policy{Timeout: policy.Timeout{Attempt: time.Hour, Call: 2 * time.Hour}}
				x := newTrial(t, f, b, p, RelayOptions{Lease: 15 * time.Second}).start()
				synctest.Wait()
				if c.steal {
					f.mu.Lock()
					f.token++
					f.taken = true
					f.mu.Unlock()
				} else {
					f.fail("renew", errDown)
					f.fail("acquire", errDown)
				}
				pass(time.Minute)
				stopped := time.Duration(ended.Load())
				if stopped == 0 || stopped > c.after || b.calls.Load() != 1 || x.relay.Leads() {
					t.Errorf("stopped after %v, %d calls", stopped, b.calls.Load())
				}
				x.stop()
				x.want("", "a1 a2/") // and no message is blamed for it
				if n := f.count("release"); n != 0 {
					t.Errorf("%d releases of a lease that is another's", n)
				}
			})
		})
	}
}

// A publisher that does not return when its context ends stops its relay, and no other.
func TestAPublisherThatHangsLosesTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFake("a1 a2")
		p := policy.Policy{Timeout: policy.Timeout{Attempt: time.Second}, Retry: policy.Retry{Attempts: 1}}
		stuck := newTrial(t, f, &broker{publish: func(context.Context, Message) error { <-release; return errBroker }}, p, RelayOptions{Lease: 15 * time.Second}).start()
		pass(10 * time.Second)
		if !stuck.relay.Leads() {
			t.Error("it lost the lease at once: a call may be late")
		}
		other := newTrial(t, f, &broker{}, p, RelayOptions{}).start()
		pass(time.Minute)
		other.want("a1 a2", "/")
		close(release)
		pass(time.Minute)
		stuck.stop()
		other.stop()
		stuck.wantTold("leads", "lease_lost")
	})
}

// The policy decides how often a call is repeated, and a broker that asks for time gets it.
func TestThePolicyHolds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, begun := newFake("a1"), time.Now()
		var at []time.Duration
		b := &broker{publish: func(context.Context, Message) error {
			at = append(at, time.Since(begun))
			switch len(at) {
			case 1:
				return classify.Transient(errBroker)
			case 2:
				return classify.Throttled(errBroker, 10*time.Minute)
			}
			return nil
		}}
		p := policy.Policy{Retry: policy.Retry{Attempts: 2, Hold: policy.Off, Backoff: backoff.Const(time.Second)}}
		x := newTrial(t, f, b, p, RelayOptions{}).start()
		pass(time.Hour)
		x.stop()
		if len(at) != 3 || at[1] != time.Second || at[2] < 10*time.Minute || at[2] > 11*time.Minute {
			t.Errorf("called after %v", at)
		}
		x.want("a1", "/")
		x.wantTold("leads", "resting", "resigned")
	})
}

// A topic that the broker does not have stops its aggregate alone, and not for ever unseen: also
// where nothing else is published that the broker could confirm.
func TestATopicThatTheBrokerDoesNotHave(t *testing.T) {
	for _, c := range []struct {
		name, rows   string
		made         time.Duration // until the topic exists; zero means never
		out, left    string
		parked, asks int
	}{
		{"alone", "a1 a2", 0, "", "a2/a1", 1, 3},
		{"beside others", "a1 a2 b1", 0, "b1", "a2/a1", 1, 3},
		{"made soon", "a1 a2", time.Second, "a1 a2", "/", 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				begun, asks := time.Now(), 0
				b := &broker{publish: func(_ context.Context, m Message) error {
					if m.Aggregate != "a" || c.made > 0 && time.Since(begun) > c.made {
						return nil
					}
					asks++
					return classify.Permanent(fmt.Errorf("%w: a", ErrNoTopic))
				}}
				x := newTrial(t, newFake(c.rows), b, policy.Policy{}, RelayOptions{MaxFailures: 3}).start()
				pass(time.Hour)
				x.want(c.out, c.left)
				x.stop()
				if n := strings.Count(strings.Join(x.told, ","), "parked a1"); n != c.parked || asks > c.asks {
					t.Errorf("it was asked %d times, told %q", asks, x.told)
				}
			})
		})
	}
}

// Where the broker refuses everything, as after a password has expired, nothing is parked.
func TestBrokerThatRefusesAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("a1 a2 b1 x1")
		refuses := classify.Permanent(errBroker)
		b := &broker{publish: func(_ context.Context, m Message) error {
			if m.ID == "c1" {
				return nil
			}
			return refuses
		}}
		x := newTrial(t, f, b, once, RelayOptions{MaxFailures: 1}).start()
		pass(time.Hour)
		x.want("", "a1 a2 b1 x1/")
		f.mu.Lock()
		f.rows = append(f.rows, &row{seq: 9, Message: Message{ID: "c1", Aggregate: "c"}})
		f.mu.Unlock()
		x.relay.Wake() // it answers, so others need not wait long
		pass(time.Millisecond)
		x.want("c1", "a2/a1 b1 x1")
		x.stop()
	})
}

// What an older leader has at hand changes nothing that a newer one did.
func TestAnOlderLeaderParksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("a1 a2 x1")
		b := &broker{}
		b.publish = func(_ context.Context, m Message) error {
			if m.ID == "x1" {
				return nil
			}
			f.mu.Lock()
			f.token, f.taken = f.token+1, true
			f.mu.Unlock()
			return classify.Permanent(errBroker)
		}
		x := newTrial(t, f, b, once, RelayOptions{}).start()
		pass(time.Minute)
		x.stop()
		x.want("x1", "a1 a2/")
		x.wantTold("leads", "lease_lost")
	})
}

func TestPublisherThatLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("a1")
		x := newTrial(t, f, &broker{publish: func(context.Context, Message) error { runtime.Goexit(); return nil }}, once, RelayOptions{})
		var all sync.WaitGroup
		all.Go(func() { _ = x.relay.Run(t.Context()) })
		all.Wait()
		if x.relay.Leads() || f.count("release") != 1 {
			t.Error("the lease was not given back")
		}
		x.broker.publish = nil // and it can run again
		x.start()
		pass(time.Second)
		x.stop()
		x.want("a1", "/")
	})
}

// short returns too few errors.
type short struct{}

func (short) Publish(context.Context, []Message) []error { return []error{} }

func TestMistakes(t *testing.T) {
	box, err := New(nil, SQLite, "outbox", Options{})
	if err != nil {
		t.Fatal(err)
	}
	dep := gabion.New("broker", once)
	for name, err := range map[string]error{
		"migrate without a database": box.Migrate(t.Context()),
		"stats":                      second(box.Stats(t.Context())),
		"retry":                      box.Retry(t.Context(), "x"),
		"discard":                    box.Discard(t.Context(), "x"),
		"a relay":                    second(box.Relay(short{}, dep, RelayOptions{})),
		"no transaction":             box.Enqueue(t.Context(), nil),
		"a short lease":              second(newRelay(newFake(""), short{}, dep, RelayOptions{Lease: time.Millisecond}, "o")),
		"a negative batch":           second(newRelay(newFake(""), short{}, dep, RelayOptions{Batch: -1}, "o")),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	inBubble(t, func(t *testing.T) {
		f := newFake("a1")
		x := newTrial(t, f, &broker{}, once, RelayOptions{}).start()
		synctest.Wait()
		if err := x.relay.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("running twice: %v", err)
		}
		x.stop()
		f = newFake("a1")
		x = newTrial(t, f, &broker{}, once, RelayOptions{})
		x.relay.publisher = short{}
		x.start()
		pass(time.Minute)
		x.stop()
		x.want("", "a1/")
	})
}

func second[T any](_ T, err error) error { return err }

func TestEach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		p := Each(3, func(_ context.Context, m Message) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			pause := time.NewTimer(time.Second)
			<-pause.C
			mu.Lock()
			now--
			mu.Unlock()
			switch m.ID {
			case "bad":
				return errBroker
			case "panic":
				panic(errBroker)
			case "exit":
				runtime.Goexit()
			}
			return nil
		})
		begun := time.Now()
		errs := p.Publish(t.Context(), []Message{{ID: "a"}, {ID: "bad"}, {ID: "b"}, {ID: "panic"}, {ID: "exit"}, {ID: "c"}, {ID: "d"}})
		if took := time.Since(begun); took != 3*time.Second || most != 3 {
			t.Errorf("%v, %d at the same time", took, most)
		}
		for i, want := range []error{nil, errBroker, nil, errBroker, errLeft, nil, nil} {
			if !errors.Is(errs[i], want) || (errs[i] == nil) != (want == nil) {
				t.Errorf("%d: %v, want %v", i, errs[i], want)
			}
		}
	})
}
