package behaviour

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// meteredEndpoints is a dependency with endpoints and a quota of 100 tokens that come back in 100 s: of each, or of all.
// Each endpoint has answered.
func meteredEndpoints(t *testing.T, each bool, change func(*policy.Policy), names ...string) *gabion.Dependency {
	t.Helper()
	p := policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: time.Hour, Attempt: time.Minute}, Endpoints: policy.Endpoints{Mode: policy.EndpointsOrdered, Standing: policy.Off},
		RateLimit: policy.RateLimit{Quotas: []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10, Each: each}}},
	}
	for _, name := range names {
		p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: name})
	}
	if change != nil {
		change(&p)
	}
	d, err := gabion.Make("llm", p)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		spendAt(t, d, 0, gabion.WithEndpoint(name))
	}
	return d
}

// spendAt makes a call that uses tokens, and returns where it went and how long that took.
func spendAt(t *testing.T, d *gabion.Dependency, tokens float64, more ...gabion.CallOption) (at string, took time.Duration) {
	t.Helper()
	begun := time.Now()
	at, err := gabion.Do(t.Context(), d, func(ctx context.Context) (string, error) { return gabion.EndpointOf(ctx).Name, nil }, append(more, gabion.WithCost("tokens", tokens))...)
	if err != nil {
		t.Error(err)
	}
	return at, time.Since(begun)
}

// goes checks where a call goes, and when, within a second.
func goes(t *testing.T, d *gabion.Dependency, tokens float64, at string, after time.Duration, more ...gabion.CallOption) {
	t.Helper()
	if got, took := spendAt(t, d, tokens, more...); got != at || took < after || took > after+time.Second {
		t.Errorf("it goes to %s after %v, want %s after %v", got, took, at, after)
	}
}

func TestAnEndpointHasAQuotaOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, true, nil, "a", "b")
		goes(t, d, 90, "a", 0)
		goes(t, d, 90, "b", 0)              // the first has not enough left
		goes(t, d, 5, "a", 0)               // and enough for this
		goes(t, d, 28, "b", 20*time.Second) // none has: the one that has it first, and 2 are left alone
		goes(t, d, 10, "a", 0)
		if st := d.Stats(); len(st.Main.Quotas) != 0 || len(st.Partitions) != 2 || st.Partitions[0].Quotas[0].Left != 15 || st.Partitions[1].Quotas[0].Left != 2 {
			t.Errorf("%+v", st.Partitions)
		}
		gabiontest.NothingHeld(t, d)
	})
}

func TestAQuotaOfTheDependencyIsOfAllEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, false, nil, "a", "b")
		goes(t, d, 90, "a", 0)
		goes(t, d, 28, "a", 20*time.Second)
		if st := d.Stats(); len(st.Main.Quotas) != 1 || st.Partitions[0].Quotas != nil {
			t.Errorf("%+v", st)
		}
	})
}

// What an answer says is left is left at the endpoint that answered, and a 429 for its quota sends calls elsewhere.
func TestAWordIsOfTheEndpointThatSaysIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refused := range []bool{false, true} {
			d := meteredEndpoints(t, true, nil, "a", "b")
			var went []string
			err := d.Run(t.Context(), func(ctx context.Context) error {
				at := gabion.EndpointOf(ctx).Name
				if went = append(went, at); at == "b" {
					return nil
				}
				gabion.TellLeft(ctx, policy.Remaining{Unit: "tokens", Left: 0, Reset: 30 * time.Second})
				if refused {
					return classify.Throttled(errors.New("429"), 30*time.Second)
				}
				return nil
			}, gabion.WithCost("tokens", 10))
			want := []string{"a"}
			if refused {
				want = []string{"a", "b"}
			}
			if err != nil || !slices.Equal(went, want) {
				t.Errorf("it went to %v: %v", went, err)
			}
			goes(t, d, 50, "b", 0)
			goes(t, d, 10, "a", 29*time.Second, gabion.WithEndpoint("a"))
			gabiontest.NothingHeld(t, d)
		}
	})
}

// Both hold where there are both: one of each endpoint, and one of all.
func TestQuotasOfEachAndOfAllHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, true, func(p *policy.Policy) {
			p.RateLimit.Quotas = append(p.RateLimit.Quotas, policy.Quota{Unit: "tokens", Amount: 150, Span: 100 * time.Second, Estimate: 10})
		}, "a", "b")
		goes(t, d, 90, "a", 0)
		goes(t, d, 50, "b", 0)
		goes(t, d, 10, "a", 2*time.Second) // 10 of 150 are left, of which 3 are left alone
		if all := d.Stats(); len(all.Quotas()) != 1 || all.Main.Quotas[0].Left > 4 {
			t.Errorf("%+v", all.Quotas())
		}
		time.Sleep(200 * time.Second)
		err := d.Run(t.Context(), func(ctx context.Context) error {
			gabion.TellLeft(ctx, policy.Remaining{Unit: "tokens", Left: 80})
			gabion.Spent(ctx, "tokens", 30)
			return nil
		}, gabion.WithCost("tokens", 10))
		all := d.Stats()
		if a := all.Partitions[0].Quotas[0]; err != nil || !a.Told || a.Left != 70 {
			t.Errorf("the endpoint's: %+v, %v", a, err)
		}
		if q := all.Main.Quotas[0]; q.Told || q.Left != 120 {
			t.Errorf("that of all: %+v", q)
		}
		gabiontest.NothingHeld(t, d)
	})
}

// A call with a key waits for room where it is bound to.
func TestACallWithAKeyWaitsForRoomWhereItIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, true, func(p *policy.Policy) { p.Safe, p.Retry.Budget.Off, p.Retry.Hold = false, true, policy.Off }, "a", "b")
		var went []string
		begun := time.Now()
		err := d.Run(t.Context(), func(ctx context.Context) error {
			gabion.Key(ctx)
			if went = append(went, gabion.EndpointOf(ctx).Name); len(went) == 1 {
				return classify.Transient(errors.New("it may have happened"))
			}
			return nil
		}, gabion.WithKey("k"), gabion.WithCost("tokens", 60))
		if took := time.Since(begun); err != nil || !slices.Equal(went, []string{"a", "a"}) || took < 20*time.Second || took > 24*time.Second {
			t.Errorf("it went to %v in %v: %v", went, took, err)
		}
	})
}

// One that may be repeated anywhere needs no wait for the room of the endpoint that failed it.
func TestARetryTakesOfTheEndpointToWhichItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, true, nil, "a", "b")
		begun := time.Now()
		at, err := gabion.Do(t.Context(), d, func(ctx context.Context) (string, error) {
			if at := gabion.EndpointOf(ctx).Name; at != "a" {
				return at, nil
			}
			return "", classify.Transient(errors.New("down"))
		}, gabion.WithCost("tokens", 60))
		if at != "b" || err != nil || time.Since(begun) != 0 {
			t.Errorf("%s after %v: %v", at, time.Since(begun), err)
		}
		for _, p := range d.Stats().Partitions {
			if p.Quotas[0].Left != 40 {
				t.Errorf("%s has %v left", p.Name, p.Quotas[0].Left)
			}
		}
	})
}

// takes is work that takes so long, unless it is no longer wanted.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A hedge goes where there is room now, or is not made.
func TestAHedgeTakesWhatIsThereOrIsNotMade(t *testing.T) {
	for _, tt := range []struct {
		fact  string
		each  bool
		first float64 // that was used at a before
		other float64 // at b
		want  []string
	}{
		{"there is room for both", false, 0, 0, []string{"a", "b"}},
		{"there is room for one", false, 60, 0, []string{"a"}},
		{"there is room at the other", true, 60, 0, []string{"a", "b"}},
		{"there is no room at the other", true, 60, 80, []string{"a"}},
	} {
		t.Run(tt.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := meteredEndpoints(t, tt.each, func(p *policy.Policy) {
					p.Hedge, p.Retry.Budget.Off = policy.Hedge{Max: 1, Delay: 50 * time.Millisecond}, true
				}, "a", "b")
				goes(t, d, tt.first, "a", 0, gabion.WithEndpoint("a"))
				goes(t, d, tt.other, "b", 0, gabion.WithEndpoint("b"))
				var mu sync.Mutex // guards went: a hedge runs beside the first attempt
				var went []string
				_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
					mu.Lock()
					went = append(went, gabion.EndpointOf(ctx).Name)
					mu.Unlock()
					return 0, takes(ctx, time.Second)
				}, gabion.WithCost("tokens", 30))
				mu.Lock()
				defer mu.Unlock()
				if err != nil || !slices.Equal(went, tt.want) {
					t.Errorf("it went to %v: %v", went, err)
				}
				synctest.Wait()
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}

// A hedge of a dependency without endpoints as well, and what it took is given back where it was not made.
func TestAHedgeUnderQuotas(t *testing.T) {
	for _, tt := range []struct {
		first    float64
		attempts int64
		left     float64 // of 100, at the end of the call a second later
	}{{0, 2, 41}, {60, 1, 11}} {
		synctest.Test(t, func(t *testing.T) {
			d := metered(t, func(p *policy.Policy) {
				p.Safe, p.Hedge, p.Retry.Budget.Off = true, policy.Hedge{Max: 1, Delay: 50 * time.Millisecond}, true
			})
			if err := spend(d, tt.first); err != nil {
				t.Fatal(err)
			}
			var n atomic.Int64 // a hedge runs beside the first attempt
			_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { n.Add(1); return 0, takes(ctx, time.Second) }, gabion.WithCost("tokens", 30))
			if err != nil || n.Load() != tt.attempts || left(d) != tt.left {
				t.Errorf("%d attempts, %v left: %v", n.Load(), left(d), err)
			}
			synctest.Wait()
			gabiontest.NothingHeld(t, d)
		})
	}
}

// A reload gives endpoints quotas of their own, and takes them away; those that stay keep what is used.
func TestAReloadOfTheQuotasOfEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, false, nil, "a", "b")
		p := d.Policy()
		p.RateLimit.Quotas[0].Each = true
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			spendAt(t, d, 0, gabion.WithEndpoint(name))
		}
		goes(t, d, 90, "a", 0)
		goes(t, d, 90, "b", 0)
		p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: "c"})
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		goes(t, d, 20, "c", 0)
		goes(t, d, 5, "a", 0)
		p.RateLimit.Quotas = nil
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		goes(t, d, 1e6, "a", 0)
		if got := d.Stats(); got.Quotas() != nil {
			t.Errorf("%+v", got.Quotas())
		}
		gabiontest.NothingHeld(t, d)
	})
}

// However a call ends that waits for the room of an endpoint, its place in line is given back, and what it has of all endpoints.
func TestACallThatWaitsForAnEndpointsRoomLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, true, func(p *policy.Policy) {
			p.RateLimit.Quotas = append(p.RateLimit.Quotas, policy.Quota{Unit: "usd", Amount: 10, Span: time.Hour, Estimate: 1, Window: true})
		}, "a")
		goes(t, d, 95, "a", 0)
		usd := d.Stats().Main.Quotas[0].Left
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		leaves, leave := context.WithCancel(ctx)
		go func() {
			_ = d.Run(leaves, func(context.Context) error { return nil }, gabion.WithCost("tokens", 40))
		}()
		synctest.Wait()
		if n := d.Stats().Partitions[0].Quotas[0].Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		leave()
		synctest.Wait()
		gabiontest.NothingHeld(t, d)
		if left := d.Stats().Main.Quotas[0].Left; left != usd {
			t.Errorf("%v usd are left of %v", left, usd)
		}
	})
}

// An endpoint that is left out while a call waits for its room is not waited for any longer than that.
func TestAnEndpointThatGoesOutWhileItIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := meteredEndpoints(t, true, nil, "a", "b")
		goes(t, d, 90, "a", 0)
		goes(t, d, 95, "b", 0)
		var at string
		var took time.Duration
		done := make(chan struct{})
		go func() {
			at, took = spendAt(t, d, 18)
			close(done)
		}()
		time.Sleep(time.Second)
		b, _ := d.Breaker("a")
		b.ForceOpen(time.Hour)
		if <-done; at != "b" || took < 14*time.Second {
			t.Errorf("it goes to %s after %v, without the room that is there after 15s", at, took)
		}
		gabiontest.NothingHeld(t, d)
	})
}
