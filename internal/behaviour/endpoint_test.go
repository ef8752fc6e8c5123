package behaviour_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

func ways(mode policy.EndpointMode, names ...string) policy.Policy {
	p := policy.Policy{Endpoints: policy.Endpoints{Mode: mode}}
	for _, name := range names {
		p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: name})
	}
	return p
}

// seen is where attempts went.
type seen struct {
	mu    sync.Mutex
	names []string
}

func (s *seen) add(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := gabion.EndpointOf(ctx).Name
	s.names = append(s.names, name)
	return name
}

func (s *seen) count() map[string]int {
	all := map[string]int{}
	for _, n := range s.names {
		all[n]++
	}
	return all
}

var errDown = errors.New("down")

func TestARetryGoesElsewhereAndNeedsNoWait(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			p := ways(policy.EndpointsOrdered, "primary", "backup")
			p.Safe, p.Endpoints.Standing, p.Hedge.Max = true, policy.Off, hedges
			d := gabion.New("payments", p)
			var s seen
			began := time.Now()
			got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (string, error) {
				name := s.add(ctx)
				if name == "primary" {
					return "", classify.Transient(errDown)
				}
				return name, nil
			})
			if got != "backup" || err != nil || time.Since(began) != 0 || len(s.names) != 2 {
				t.Errorf("%d hedges: %s %v after %v by way of %v", hedges, got, err, time.Since(began), s.names)
			}
			if st := d.Stats(); st.Endpoints[0].Failed != 1 || st.Endpoints[1].Failed != 0 || st.Main.Breaker.Counts.Failures != 0 {
				t.Errorf("%+v, %+v", st.Endpoints, st.Main.Breaker.Counts)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// An endpoint that asks for time has it, with and without breakers.
func TestAnEndpointThatAskedForTimeIsLeftAlone(t *testing.T) {
	for _, off := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := ways(policy.EndpointsOrdered, "primary", "backup")
			p.Safe, p.Endpoints.Standing, p.Breaker.Off = true, policy.Off, off
			d := gabion.New("payments", p)
			var s seen
			work := func(ctx context.Context) error {
				if s.add(ctx) == "primary" {
					return classify.Throttled(errors.New("429"), 4*time.Second)
				}
				return nil
			}
			for range 3 {
				if err := d.Run(t.Context(), work); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
			if n := s.count(); n["primary"] != 1 || n["backup"] != 3 {
				t.Errorf("breaker off %t: calls went by way of %v", off, s.names)
			}
		})
	}
}

// What may have happened at one endpoint happens at no other, unless they know each other's keys.
func TestACallWithAKeyStaysWhereItMayHaveHappened(t *testing.T) {
	for _, c := range []struct {
		fact   string
		fails  error
		shared bool
		want   string
		effect policy.Effect
	}{
		{"unknown stays", classify.Transient(errDown), false, "a a a", policy.UnknownEffect},
		{"what was never sent goes elsewhere", classify.NotSent(classify.Transient(errDown)), false, "a b a", policy.NoEffect},
		{"shared keys go elsewhere", classify.Transient(errDown), true, "a b a", policy.UnknownEffect},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := ways(policy.EndpointsOrdered, "a", "b")
			p.Endpoints.SharedKeys, p.Endpoints.Standing = c.shared, policy.Off
			p.Retry.Budget.Off, p.Retry.Hold = true, policy.Off
			d := gabion.New("payments", p)
			var s seen
			err := d.Run(t.Context(), func(ctx context.Context) error {
				s.add(ctx)
				if gabion.Key(ctx) != "k1" {
					t.Error("the key is not there")
				}
				return c.fails
			}, gabion.WithKey("k1"))
			var e *gabion.Error
			if !errors.As(err, &e) || e.Effect != c.effect || strings.Join(s.names, " ") != c.want {
				t.Errorf("%s: %v by way of %v", c.fact, err, s.names)
			}
		})
	}
}

// Where the endpoint is left out by then, the call ends, and says where its outcome is not known.
func TestAnUnknownOutcomeAtADeadEndpointStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsOrdered, "a", "b")
		p.Retry.Budget.Off, p.Retry.Hold, p.Retry.Attempts, p.Endpoints.Standing = true, policy.Off, 10, policy.Off
		p.Retry.Backoff = backoff.Const(10 * time.Millisecond)
		d := gabion.New("payments", p)
		var s seen
		work := func(ctx context.Context) error {
			gabion.Key(ctx)
			if s.add(ctx) == "a" {
				return classify.Transient(errDown)
			}
			return nil
		}
		err := d.Run(t.Context(), work, gabion.WithKey("k1"))
		var e *gabion.Error
		if !errors.As(err, &e) || e.Reason != policy.BreakerOpen || e.Effect != policy.UnknownEffect || e.Endpoint != "a" || len(s.names) != 5 || s.count()["b"] != 0 {
			t.Fatalf("%v by way of %v", err, s.names)
		}
		if text := err.Error(); !strings.Contains(text, "at a after 5 attempts, may have happened") {
			t.Error(text)
		}
		if err := d.Run(t.Context(), work, gabion.WithKey("k2")); err != nil || s.names[5] != "b" {
			t.Errorf("another call: %v by way of %v", err, s.names[5:])
		}
		if err := d.Run(t.Context(), work, gabion.WithKey("k1"), gabion.WithEndpoint("a")); gabion.ReasonOf(err) != policy.BreakerOpen || len(s.names) != 6 {
			t.Errorf("the same operation: %v by way of %v", err, s.names[5:])
		}
		if err := d.Run(t.Context(), work, gabion.WithEndpoint("c")); gabion.ReasonOf(err) != policy.Invalid || len(s.names) != 6 {
			t.Errorf("an endpoint that is not there: %v", err)
		}
	})
}

// C51
//
// Attempts are spread over all, and an event says so.
func TestWhereNoneWorksNoneIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsEqual, "a", "b", "c")
		p.Retry.Attempts, p.Breaker.Consecutive, p.Breaker.FailureRate = 1, policy.Off, policy.Off
		var told []string
		d := gabion.New("payments", p, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if e.Kind == policy.KindEndpointsMoved {
				told = append(told, e.Code)
			}
		})))
		var s seen
		down := true
		work := func(ctx context.Context) error {
			s.add(ctx)
			if down {
				return classify.Transient(errDown)
			}
			return nil
		}
		for range 300 {
			_ = d.Run(t.Context(), work)
		}
		n := s.count()
		if st := d.Stats(); !st.Panicked || st.SpreadToAll < 250 || n["a"] < 50 || n["b"] < 50 || n["c"] < 50 {
			t.Errorf("%v, panicked %v, %d spread", n, st.Panicked, st.SpreadToAll)
		}
		down = false
		time.Sleep(5 * time.Second)
		for range 30 {
			if err := d.Run(t.Context(), work); err != nil {
				t.Error(err)
			}
		}
		if st := d.Stats(); st.Panicked || strings.Join(told, " ") != "panic calm" {
			t.Errorf("panicked %v, told %v", st.Panicked, told)
		}
	})
}

// An endpoint that an operator has shut gets nothing while another one is there, though that fails, too.
func TestAnEndpointThatIsShutByHandGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsEqual, "a", "b")
		p.Retry.Attempts, p.Breaker.Consecutive, p.Breaker.FailureRate = 1, policy.Off, policy.Off
		d := gabion.New("payments", p)
		a, _ := d.Breaker("a")
		a.ForceOpen(time.Hour)
		var s seen
		work := func(ctx context.Context) error { s.add(ctx); return classify.Transient(errDown) }
		for range 100 {
			_ = d.Run(t.Context(), work)
		}
		err := d.Run(t.Context(), work, gabion.WithEndpoint("a"))
		if n := s.count(); n["a"] != 0 || n["b"] != 100 || gabion.ReasonOf(err) != policy.BreakerOpen {
			t.Errorf("%v, %v", n, err)
		}
		b, _ := d.Breaker("b")
		b.ForceOpen(time.Hour) // then none is left to ask
		for range 100 {
			_ = d.Run(t.Context(), work)
		}
		if n := s.count(); n["a"] == 0 {
			t.Errorf("all are shut, and calls go to %v", n)
		}
	})
}

func TestAttemptsAreEventsOfTheirEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsOrdered, "primary", "backup")
		p.Safe, p.Endpoints.Standing = true, policy.Off
		var told []string
		d := gabion.New("payments", p, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			told = append(told, e.Kind.String()+"@"+e.Partition)
		})))
		_ = d.Run(t.Context(), func(ctx context.Context) error {
			if gabion.EndpointOf(ctx).Name == "primary" {
				return classify.Transient(errDown)
			}
			return nil
		}, gabion.WithPartition("tenant"))
		want := "attempt_sent@primary attempt_settled@primary attempt_sent@backup attempt_settled@backup returned@tenant"
		if got := strings.Join(told, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if name := gabion.EndpointOf(t.Context()).Name; name != "" {
			t.Errorf("outside of an attempt: %s", name)
		}
		other := gabion.New("other", policy.Policy{})
		_ = d.Run(t.Context(), func(ctx context.Context) error {
			return other.Run(ctx, func(ctx context.Context) error {
				if name := gabion.EndpointOf(ctx).Name; name != "" {
					t.Errorf("in an attempt of another dependency: %s", name)
				}
				return nil
			})
		})
	})
}

// meanwhile does something when a call is announced, which is after its options were read and before it begins, and
// when an attempt is.
type meanwhile struct {
	do      func()
	attempt func(gabion.Event)
}

func (m meanwhile) Observe(context.Context, gabion.Event) {}

func (m meanwhile) TraceCall(ctx context.Context, _ gabion.Event) (context.Context, bool) {
	m.do()
	return ctx, true
}

func (m meanwhile) TraceAttempt(ctx context.Context, e gabion.Event) context.Context {
	m.attempt(e)
	return ctx
}

// A call for one endpoint goes to no other, also if that one goes away before the call begins.
func TestACallForAnEndpointThatWasRemovedIsNotSentElsewhere(t *testing.T) {
	for fact, left := range map[string]policy.Policy{"that one": ways(policy.EndpointsEqual, "b"), "all": {}} {
		var d *gabion.Dependency
		d = gabion.New("payments", ways(policy.EndpointsEqual, "a", "b"), gabion.WithObserver(meanwhile{do: func() {
			if err := d.Reload(left); err != nil {
				t.Error(err)
			}
		}}))
		sent := 0
		err := d.Run(t.Context(), func(context.Context) error { sent++; return nil }, gabion.WithEndpoint("a"), gabion.WithKey("k"))
		if sent != 0 || !errors.Is(err, policy.Invalid) || !strings.Contains(err.Error(), "no such endpoint") {
			t.Errorf("%s: sent %d times, %v", fact, sent, err)
		}
		gabiontest.NothingHeld(t, d)
	}
}

// While a Tracer makes the context of a hedge, the call goes on, and may send an attempt elsewhere. The race detector sees what
// both use.
func TestATracerMayTakeItsTimeWhileTheCallGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsEqual, "a", "b", "c")
		p.Safe, p.Retry.Budget.Off, p.Hedge = true, true, policy.Hedge{Max: 2, Delay: 10 * time.Millisecond}
		third, at := make(chan struct{}), make(chan string, 3)
		d := gabion.New("payments", p, gabion.WithObserver(meanwhile{func() {}, func(e gabion.Event) {
			if e.Attempt == 2 {
				<-third
			}
			at <- e.Partition
		}}))
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			switch n {
			case 1:
				time.Sleep(20 * time.Millisecond)
				return n, classify.Transient(errDown)
			case 2:
				time.Sleep(time.Millisecond) // so the third is the first to answer
			case 3:
				close(third)
			}
			return n, nil
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if a, b, c := <-at, <-at, <-at; got != 3 || err != nil || a == b || b == c || c == a {
			t.Errorf("%d, %v; at %s, %s, %s", got, err, a, b, c)
		}
	})
}
