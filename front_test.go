package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// verbs are the ways in, for what must hold for each.
var verbs = map[string]func(context.Context, *gabion.Dependency, func(context.Context) error, ...gabion.CallOption) error{
	"Do": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		_, err := gabion.Do(ctx, d, withResult(work), opts...)
		return err
	},
	"Run": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		return d.Run(ctx, work, opts...)
	},
	"Open": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		_, a, err := gabion.Open(ctx, d, withResult(work), opts...)
		if a != nil {
			a.Close(nil)
		}
		return err
	},
	"DoOr": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		f := gabion.Fallback[int]{On: never, Answer: func(_ context.Context, err error) (int, error) { return 0, err }}
		_, err := gabion.DoOr(ctx, d, withResult(work), f, opts...)
		return err
	},
}

func withResult(work func(context.Context) error) func(context.Context) (int, error) {
	if work == nil {
		return nil
	}
	return func(ctx context.Context) (int, error) { return 1, work(ctx) }
}

// What can't be meant is refused with a clear error, and nothing is touched.
func TestCallsThatCantBeMeantTouchNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		canceled, cancel := context.WithCancelCause(t.Context())
		cancel(errTired)
		expired, stop := context.WithTimeout(t.Context(), -1)
		defer stop()
		cases := []struct {
			name   string
			ctx    context.Context
			work   func(context.Context) error
			none   bool
			reason gabion.Reason
			is     error
			text   string
		}{
			{name: "nil function", ctx: t.Context(), reason: policy.Invalid, text: "db: invalid: the function to call is nil"},
			{name: "nil context", work: works, reason: policy.Invalid, text: "db: invalid: the context is nil"},
			{name: "nil dependency", ctx: t.Context(), work: works, none: true, reason: policy.Invalid, text: "gabion: invalid: the dependency is nil, or not made by New"},
			{name: "canceled", ctx: canceled, work: works, reason: policy.Canceled, is: errTired, text: "db: canceled, nothing sent: the caller is tired"},
			{name: "expired", ctx: expired, work: works, reason: policy.CallTimeout, is: context.DeadlineExceeded, text: "db: call_timeout, nothing sent: context deadline exceeded"},
		}
		for _, c := range cases {
			for verb, call := range verbs {
				d, rec := watched(policy.Policy{Key: policy.KeyMade})
				before := d.Stats()
				callee := d
				if c.none {
					callee = nil
				}
				err := call(c.ctx, callee, c.work)
				wantReason(t, err, c.reason)
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%s, %s: %v is not %v", verb, c.name, err, c.is)
				}
				if err.Error() != c.text {
					t.Errorf("%s, %s: %q, want %q", verb, c.name, err, c.text)
				}
				if gabion.EffectOf(err) != policy.NoEffect || len(rec.Events()) != 0 {
					t.Errorf("%s, %s: effect %s, events %v", verb, c.name, gabion.EffectOf(err), rec.Decisions())
				}
				if after := d.Stats(); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("%s, %s: the dependency changed:\n%+v\n%+v", verb, c.name, before, after)
				}
			}
		}
		if _, err := gabion.Begin(t.Context(), nil); gabion.ReasonOf(err) != policy.Invalid {
			t.Errorf("Begin with no dependency: %v", err)
		}
		if _, err := gabion.Begin(canceled, gabion.New("db", policy.Policy{})); gabion.ReasonOf(err) != policy.Canceled {
			t.Errorf("Begin with a done context: %v", err)
		}
	})
}

// New panics with every finding, Make returns them.
func TestInvalidPoliciesAreRefusedWithEveryFinding(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{Attempts: -3}, Bulkhead: policy.Bulkhead{Limit: -7}}
	_, err := gabion.Make("db", p)
	findings, ok := errors.AsType[policy.Findings](err)
	if !ok || len(findings) != 2 {
		t.Fatalf("Make returned %v", err)
	}
	said := fmt.Sprint(panicOf(func() { gabion.New("db", p) }))
	for _, want := range []string{"db", "retry.attempts", "-3", "bulkhead.limit", "-7"} {
		if !strings.Contains(said, want) {
			t.Errorf("New panicked with %q, which does not name %q", said, want)
		}
	}
	d := gabion.New("db", policy.Policy{Retry: policy.Retry{Attempts: 7}})
	if err := d.Reload(p); err == nil || d.Policy().Retry.Attempts != 7 {
		t.Errorf("a policy that is refused changed something: %v, %d attempts", err, d.Policy().Retry.Attempts)
	}
}

// B5, C66: one key per call, the same on all attempts, hedges and retries.
func TestTheKeyIsTheSameOnAllAttempts(t *testing.T) {
	cases := []struct {
		name string
		mode policy.KeyMode
		opts []gabion.CallOption
		want string // "" = a made one
	}{
		{"given", policy.KeyDeclared, []gabion.CallOption{gabion.WithKey("order-7")}, "order-7"},
		{"made", policy.KeyMade, nil, ""},
		{"given though it would be made", policy.KeyMade, []gabion.CallOption{gabion.WithKey("order-7")}, "order-7"},
		{"required and given", policy.KeyRequired, []gabion.CallOption{gabion.WithKey("order-7")}, "order-7"},
	}
	for _, c := range cases {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/hedge=%d", c.name, hedges), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Key: c.mode, Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Millisecond}, Retry: policy.Retry{Budget: free}})
					s := gabiontest.NewScript(gabiontest.Step{Takes: time.Second, Err: errDown})
					gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return s.Call(ctx) }, c.opts...)
					seen := s.Seen()
					if len(seen) != 3+hedges {
						t.Fatalf("%d attempts", len(seen))
					}
					for i, a := range seen {
						if a.Key != seen[0].Key || a.Key == "" || c.want != "" && a.Key != c.want || a.Attempt != i+1 {
							t.Errorf("attempt %d has key %q", a.Attempt, a.Key)
						}
					}
				})
			})
		}
	}
	t.Run("required and missing", func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Key: policy.KeyRequired})
		for verb, call := range verbs {
			n := 0
			err := call(t.Context(), d, func(context.Context) error { n++; return nil })
			if gabion.ReasonOf(err) != policy.KeyMissing || n != 0 || gabion.EffectOf(err) != policy.NoEffect {
				t.Errorf("%s: %v after %d attempts", verb, err, n)
			}
			for _, how := range []string{"gabion.WithKey", "the header Idempotency-Key"} { // it is read under HTTP clients too
				if !strings.Contains(err.Error(), how) {
					t.Errorf("%s: %v: does not say %s", verb, err, how)
				}
			}
		}
	})
	t.Run("two calls", func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Key: policy.KeyMade})
		s := gabiontest.NewScript()
		d.Run(t.Context(), s.Run)
		d.Run(t.Context(), s.Run)
		if seen := s.Seen(); seen[0].Key == seen[1].Key {
			t.Error("two intents share a key")
		}
	})
	if gabion.Key(t.Context()) != "" || gabion.AttemptNumber(t.Context()) != 0 {
		t.Error("a context of no call has a key or a number")
	}
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// RFC 9562 §5.7.
func TestKeysAreUUIDsOfVersion7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10000
		keys := make([]string, n)
		for i := range keys {
			time.Sleep(time.Millisecond)
			keys[i] = gabion.NewKey()
			if !uuid7.MatchString(keys[i]) {
				t.Fatalf("%s is no UUID of version 7", keys[i])
			}
		}
		if !slices.IsSorted(keys) {
			t.Error("keys made later don't sort later")
		}
		if want := fmt.Sprintf("%012x", time.Now().UnixMilli()); strings.ReplaceAll(keys[n-1], "-", "")[:12] != want {
			t.Errorf("%s does not begin with the time %s", keys[n-1], want)
		}
		seen := map[string]bool{}
		for range n { // all in one millisecond
			seen[gabion.NewKey()] = true
		}
		if len(seen) != n {
			t.Errorf("%d of %d keys are different", len(seen), n)
		}
	})
}

// J1: what is refused for its key is in the stream of events like every refusal, or
// nobody who watches a dependency learns that its callers get nothing.
func TestRefusalsForAKeyAreEvents(t *testing.T) {
	old := []gabion.CallOption{gabion.WithKey("k"), gabion.WithKeyRetention(time.Hour), gabion.WithKeyMadeAt(time.Now().Add(-time.Hour))}
	cases := map[string]struct {
		mode   policy.KeyMode
		opts   []gabion.CallOption
		reason gabion.Reason
	}{
		"missing":   {policy.KeyRequired, nil, policy.KeyMissing},
		"too old":   {policy.KeyDeclared, old, policy.OutcomeUnknown},
		"malformed": {policy.KeyDeclared, []gabion.CallOption{gabion.WithKey("a key")}, policy.Invalid},
	}
	for name, c := range cases {
		for verb, call := range verbs {
			for _, hedges := range []int{0, 1} {
				d, rec := watched(policy.Policy{Key: c.mode, Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}})
				err := call(t.Context(), d, works, append(c.opts, gabion.WithOperation("charge"))...)
				wantReason(t, err, c.reason)
				want := []string{"attempt_refused " + c.reason.String(), "returned after 0 " + c.reason.String()}
				if got := rec.Decisions(); !slices.Equal(got, want) {
					t.Errorf("%s, %s: %q, want %q", name, verb, got, want)
				}
				for _, e := range rec.Events() {
					if e.Operation != "charge" || e.Call == 0 || e.Dependency != "db" || e.Kind == policy.KindReturned && e.Effect != gabion.EffectOf(err) {
						t.Errorf("%s, %s: %+v", name, verb, e)
					}
				}
			}
		}
	}
}

// Every option of a call, one by one.
func TestOptionsOfACall(t *testing.T) {
	hedging := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: time.Millisecond}, Retry: policy.Retry{Attempts: 1, Budget: free}}
	cases := []struct {
		name     string
		policy   policy.Policy
		opts     []gabion.CallOption
		step     gabiontest.Step
		attempts int
		reason   gabion.Reason
	}{
		{"nothing declared", policy.Policy{}, nil, gabiontest.Step{Err: errDown}, 1, policy.NotSafe},
		{"WithIdempotent", policy.Policy{}, []gabion.CallOption{gabion.WithIdempotent()}, gabiontest.Step{Err: errDown}, 3, policy.AttemptsExhausted},
		{"WithKey", policy.Policy{}, []gabion.CallOption{gabion.WithKey("k")}, gabiontest.Step{Err: errDown}, 3, policy.AttemptsExhausted},
		{"WithoutRetry", policy.Policy{Safe: true}, []gabion.CallOption{gabion.WithoutRetry()}, gabiontest.Step{Err: errDown}, 1, policy.AttemptsExhausted},
		{"WithTimeout", policy.Policy{Safe: true}, []gabion.CallOption{gabion.WithTimeout(time.Second)}, gabiontest.Step{Hang: true}, 1, policy.CallTimeout},
		{"WithTimeout, longer", policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Second, Attempt: time.Second}}, []gabion.CallOption{gabion.WithTimeout(time.Minute)}, gabiontest.Step{Hang: true}, 3, policy.AttemptsExhausted},
		{"WithTimeout, zero is the policy's", policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Second, Attempt: time.Second}}, []gabion.CallOption{gabion.WithTimeout(0)}, gabiontest.Step{Hang: true}, 1, policy.CallTimeout},
		{"hedging", hedging, []gabion.CallOption{gabion.WithIdempotent()}, gabiontest.Step{Takes: time.Second, Err: errDown}, 2, policy.AttemptsExhausted},
		{"WithoutHedge", hedging, []gabion.CallOption{gabion.WithIdempotent(), gabion.WithoutHedge()}, gabiontest.Step{Takes: time.Second, Err: errDown}, 1, policy.AttemptsExhausted},
		{"hedging, not safe (C110)", hedging, nil, gabiontest.Step{Takes: time.Second, Err: errDown}, 1, policy.AttemptsExhausted},
		{"ClassifyWith", policy.Policy{Safe: true}, []gabion.CallOption{gabion.ClassifyWith(func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassBusiness} })}, gabiontest.Step{}, 1, policy.NotRetryable},
		{"the last one of two counts", policy.Policy{}, []gabion.CallOption{gabion.WithTimeout(time.Hour), gabion.WithTimeout(time.Second)}, gabiontest.Step{Hang: true}, 1, policy.CallTimeout},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := watched(c.policy)
				s := gabiontest.NewScript(c.step)
				_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return s.Call(ctx) }, c.opts...)
				wantReason(t, err, c.reason)
				if s.Attempts() != c.attempts {
					t.Errorf("%d attempts, want %d", s.Attempts(), c.attempts)
				}
			})
		})
	}
}

func TestOperationAndPartitionNameEveryEventOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true})
		d.Run(t.Context(), fails(errDown), gabion.WithOperation("charge"), gabion.WithPartition("eu"))
		d.Run(t.Context(), works)
		events := rec.Events()
		if len(events) < 10 {
			t.Fatal(rec.Decisions())
		}
		for i, e := range events {
			first := i < len(events)-3
			if e.Dependency != "db" || (e.Operation == "charge") != first || (e.Partition == "eu") != first || (e.Call == 1) != first {
				t.Errorf("%+v", e)
			}
		}
	})
}

// WithClassify sees results too; ClassifyWith goes before it.
func TestClassifiersSeeTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true}, gabion.WithClassify(func(v any, err error) policy.Outcome {
			if v == 200 {
				return policy.Outcome{}
			}
			return policy.Outcome{Class: policy.ClassServer}
		}))
		n := 0
		got, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) {
			if n++; n < 3 {
				return 503, nil
			}
			return 200, nil
		})
		if got != 200 || err != nil || n != 3 {
			t.Errorf("%d, %v after %d", got, err, n)
		}
		got, err = gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 503, nil })
		if e := asError(t, err); got != 503 || e.Err != nil || e.Reason != policy.AttemptsExhausted {
			t.Errorf("%d, %+v: the last result is the caller's, and there is no error but gabion's", got, e)
		}
		yes := gabion.ClassifyWith(func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassSuccess} })
		if got, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 503, nil }, yes); got != 503 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	})
}

// A classifier is the user's code too: when it panics, nothing is lost.
func TestAPanickingClassifierLosesNothing(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(policy.Policy{Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}, Bulkhead: policy.Bulkhead{Limit: 1}},
				gabion.WithClassify(func(any, error) policy.Outcome { panic("boom") }))
			if got := panicOf(func() { gabion.Do(t.Context(), d, withResult(works), gabion.WithIdempotent()) }); got != "boom" {
				t.Errorf("it panicked with %v", got)
			}
			nothingHeld(t, d)
		})
	}
}

// C121: the switches work at once, for the process and for one dependency, and
// also on calls that wait for their retry already.
func TestKillSwitch(t *testing.T) {
	t.Cleanup(func() { gabion.SetRetries(true) })
	switches := map[string]func(*gabion.Dependency, bool){
		"process":    func(_ *gabion.Dependency, on bool) { gabion.SetRetries(on) },
		"dependency": func(d *gabion.Dependency, on bool) { d.SetRetries(on) },
	}
	for name, turn := range switches {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/hedge=%d", name, hedges), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Second)}, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}})
					turn(d, false)
					_, err := gabion.Do(t.Context(), d, withResult(fails(errDown)))
					wantReason(t, err, policy.RetriesOff)
					rec.WantAttempts(t, 1)
					if !d.Stats().RetriesOff {
						t.Error("Stats does not tell")
					}
					turn(d, true)
					_, err = gabion.Do(t.Context(), d, withResult(fails(errDown)))
					wantReason(t, err, policy.AttemptsExhausted)
				})
			})
		}
		t.Run(name+"/while waiting for the retry", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Second)}})
				time.AfterFunc(500*time.Millisecond, func() { turn(d, false) })
				err := d.Run(t.Context(), fails(errDown))
				turn(d, true)
				wantReason(t, err, policy.RetriesOff)
				rec.WantAttempts(t, 1)
				if !errors.Is(err, errDown) || d.Stats().Budget.Sent != 0 {
					t.Errorf("%v, budget %+v", err, d.Stats().Budget)
				}
			})
		})
		t.Run(name+"/while the retry waits for a slot", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Second)}, Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off}})
				var wg sync.WaitGroup
				wg.Go(func() {
					time.Sleep(500 * time.Millisecond)
					d.Run(t.Context(), lasts(2*time.Second, nil))
				})
				time.AfterFunc(1500*time.Millisecond, func() { turn(d, false) })
				err := d.Run(t.Context(), fails(errDown))
				wg.Wait()
				turn(d, true)
				wantReason(t, err, policy.RetriesOff)
				rec.WantAttempts(t, 2)
				nothingHeld(t, d)
			})
		})
		t.Run(name+"/while hedges are due", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 3, Delay: 100 * time.Millisecond}, Retry: policy.Retry{Budget: free}})
				time.AfterFunc(150*time.Millisecond, func() { turn(d, false) })
				_, err := gabion.Do(t.Context(), d, withResult(lasts(time.Second, nil)))
				turn(d, true)
				wantReason(t, err, policy.None)
				rec.WantAttempts(t, 2)
			})
		})
	}
}

// C117: a call ends on the policy that it began with.
func TestReloadLeavesCallsUnderWayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 4, Backoff: every(time.Second)}})
		n := 0
		work := func(context.Context) error {
			if n++; n == 2 {
				if err := d.Reload(policy.Policy{Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}}); err != nil {
					t.Error(err)
				}
			}
			return errDown
		}
		start := time.Now()
		wantReason(t, d.Run(t.Context(), work), policy.AttemptsExhausted)
		wantElapsed(t, start, 3*time.Second)
		rec.WantAttempts(t, 4)
		wantReason(t, d.Run(t.Context(), fails(errDown)), policy.AttemptsExhausted)
		rec.WantAttempts(t, 5)
		if n := count(rec, kind(policy.KindReloaded)); n != 1 {
			t.Errorf("%d reloads reported", n)
		}
	})
}

// C117: breakers keep what they know when the policy changes.
func TestReloadKeepsTheBreakersState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Minute)})
		d.Run(t.Context(), fails(errDown))
		p := policy.Policy{Breaker: eager(time.Minute), Retry: policy.Retry{Attempts: 5}}
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		wantState(t, d, breaker.Open)
		p.Breaker = policy.Breaker{Off: true}
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		if err := d.Run(t.Context(), works); err != nil {
			t.Errorf("with the breaker off: %v", err)
		}
	})
}

// G1: who matters more waits less.
func TestHighPriorityGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: 10, QueueTimeout: policy.Off}})
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, p := range []policy.Priority{policy.PriorityNormal, policy.PriorityLow, policy.PriorityNormal, policy.PriorityHigh, policy.PriorityLow, policy.PriorityHigh} {
			wg.Go(func() {
				err := d.Run(t.Context(), func(ctx context.Context) error {
					mu.Lock()
					order = append(order, fmt.Sprint(i))
					mu.Unlock()
					return lasts(10*time.Millisecond, nil)(ctx)
				}, gabion.WithPriority(p))
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got := strings.Join(order, " "); got != "0 3 5 2 1 4" {
			t.Errorf("they went %s", got)
		}
	})
}

// G1: a tenant that floods the queue leaves the others their share.
func TestFairBulkheadSharesAmongTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2, Queue: 200, QueueTimeout: policy.Off, Fair: true}})
		var mu sync.Mutex
		done := map[string]time.Duration{}
		start := time.Now()
		var wg sync.WaitGroup
		call := func(tenant string) {
			wg.Go(func() {
				if err := d.Run(t.Context(), lasts(10*time.Millisecond, nil), gabion.WithTenant(tenant)); err != nil {
					t.Errorf("%s: %v", tenant, err)
				}
				mu.Lock()
				defer mu.Unlock()
				done[tenant] = time.Since(start)
			})
			synctest.Wait()
		}
		for range 100 {
			call("loud")
		}
		for range 5 {
			call("quiet")
		}
		wg.Wait()
		if done["quiet"] > 100*time.Millisecond {
			t.Errorf("the quiet tenant was done after %s, the loud one after %s", done["quiet"], done["loud"])
		}
	})
}

// F8, C120: partitions are bounded, those past the bound share one, and idle ones
// make room, but never one in flight or with a breaker that is not closed.
func TestPartitionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := eager(time.Hour)
		b.Partitions, b.PartitionIdle = 3, time.Minute
		d, _ := watched(policy.Policy{Breaker: b, Timeout: policy.Timeout{Attempt: policy.Off, Call: policy.Off}})
		in := func(name string, work func(context.Context) error) error {
			return d.Run(t.Context(), work, gabion.WithPartition(name))
		}
		names := func() (all []string) {
			for _, p := range d.Stats().Partitions {
				all = append(all, p.Name)
			}
			return all
		}
		in("broken", fails(errDown))
		in("idle", works)
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { in("flying", func(context.Context) error { <-release; return nil }) })
		synctest.Wait()
		wantReason(t, in("broken", works), policy.BreakerOpen)
		if err := in("idle", works); err != nil {
			t.Errorf("partitions share a breaker: %v", err) // C47
		}
		if err := in("fourth", works); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(names()); got != "[broken flying idle _overflow]" && got != "[_overflow broken flying idle]" {
			t.Errorf("partitions: %s", got)
		}
		if d.Stats().Spilled != 1 {
			t.Errorf("%d calls spilled", d.Stats().Spilled)
		}
		in("fourth", fails(errDown))
		if err := in("fifth", works); err != nil {
			t.Errorf("the shared partition refused: %v", err)
		}
		time.Sleep(2 * time.Minute)
		in("sixth", works)
		if got := names(); !slices.Contains(got, "sixth") || !slices.Contains(got, "broken") || !slices.Contains(got, "flying") || slices.Contains(got, "idle") {
			t.Errorf("after a pause: %v", got)
		}
		close(release)
		wg.Wait()
	})
}

// A context that ends with DeadlineExceeded though it never named a deadline is
// somebody's own. The call ends with it, and does not spin until its own deadline.
func TestACallersContextWithoutADateEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, hedges := range []int{0, 1} {
			inner, cancel := context.WithCancel(t.Context())
			ctx := undated{inner}
			d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(5 * time.Second)}, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}})
			start := time.Now()
			time.AfterFunc(time.Second, cancel)
			_, err := gabion.Do(ctx, d, withResult(fails(errDown)))
			wantElapsed(t, start, time.Second)
			if err == nil || !errors.Is(err, errDown) {
				t.Errorf("ended with %v", err)
			}
			rec.WantAttempts(t, 1+hedges)
		}
	})
}

type undated struct{ context.Context }

func (u undated) Err() error {
	if u.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// C75, C116, C6: five layers of three attempts make three calls, not 243: the layer
// next to the failure retries, and its answer stops the others.
func TestRetryingIsDoneInOneLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layers := make([]*gabion.Dependency, 5)
		for i := range layers {
			layers[i] = gabion.New(fmt.Sprint("layer", i), policy.Policy{Safe: true, Retry: policy.Retry{Budget: free}})
		}
		n := 0
		var call func(context.Context, int) error
		call = func(ctx context.Context, i int) error {
			if i == len(layers) {
				n++
				return errDown
			}
			return layers[i].Run(ctx, func(ctx context.Context) error {
				if err := call(ctx, i+1); err != nil {
					return fmt.Errorf("in layer %d: %w", i, err)
				}
				return nil
			})
		}
		err := call(t.Context(), 0)
		if n != 3 || !errors.Is(err, errDown) {
			t.Errorf("%d calls, %v", n, err)
		}
		wantReason(t, err, policy.DoNotRetry)
		if e := asError(t, err); e.Dependency != "layer0" || e.Attempts != 1 {
			t.Errorf("%+v", e)
		}
	})
}

// What an inner layer refuses or ends is the outer's failure of the right kind.
func TestAnInnerCallsEndIsReadByTheOuter(t *testing.T) {
	cases := []struct {
		name  string
		err   error
		class policy.Class
	}{
		{"canceled", &gabion.Error{Reason: policy.Canceled}, policy.ClassIgnored},
		{"timeout", &gabion.Error{Reason: policy.CallTimeout, Effect: policy.UnknownEffect}, policy.ClassTimeout},
		{"refused", &gabion.Error{Reason: policy.BreakerOpen, RetryAfter: time.Second}, policy.ClassRejected},
		{"a declined card stays one", &gabion.Error{Reason: policy.NotRetryable, Err: classify.Business(errors.New("no"))}, policy.ClassBusiness},
		{"ours to mend", &gabion.Error{Reason: policy.KeyMissing}, policy.ClassClient},
		{"no time left after a queue", &gabion.Error{Reason: policy.DeadlineShort}, policy.ClassRejected},
		{"no time left for a retry", &gabion.Error{Reason: policy.DeadlineShort, Attempts: 1, Err: errDown}, policy.ClassServer},
	}
	for _, c := range cases {
		o := classify.Error(fmt.Errorf("wrapped: %w", c.err))
		e := c.err.(*gabion.Error)
		if o.Class != c.class || !o.Stop || o.Effect != e.Effect || o.HasAfter != (e.RetryAfter > 0) {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

func TestADependencyBelongsToItsBubble(t *testing.T) {
	refused := func(t *testing.T, d *gabion.Dependency) {
		t.Helper()
		ran := 0
		work := func(context.Context) (int, error) { ran++; return 0, nil }
		for verb, call := range map[string]func() error{
			"Do":    func() error { _, err := gabion.Do(t.Context(), d, work); return err },
			"Run":   func() error { return d.Run(t.Context(), func(context.Context) error { ran++; return nil }) },
			"Open":  func() error { _, _, err := gabion.Open(t.Context(), d, work); return err },
			"Begin": func() error { _, err := gabion.Begin(t.Context(), d); return err },
		} {
			if err := call(); gabion.ReasonOf(err) != policy.Invalid || !strings.Contains(err.Error(), "bubble") {
				t.Errorf("%s: %v", verb, err)
			}
		}
		if s := d.Stats(); ran != 0 || s.Bulkhead.InUse != 0 {
			t.Errorf("the work ran %d times, and %d slots are taken", ran, s.Bulkhead.InUse)
		}
	}
	hedged := policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Percentile: policy.Off}}
	for name, p := range map[string]policy.Policy{"serial": {}, "hedged": hedged} {
		d := gabion.New("db", p)
		t.Run(name+", made outside, called inside", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { refused(t, d) })
		})
		t.Run(name+", made late in one bubble, called early in the next", func(t *testing.T) {
			var d *gabion.Dependency
			synctest.Test(t, func(*testing.T) { time.Sleep(time.Second); d = gabion.New("db", p) })
			synctest.Test(t, func(t *testing.T) { refused(t, d) })
		})
		t.Run(name+", made outside, called outside after all that", func(t *testing.T) {
			if err := d.Run(t.Context(), works); err != nil {
				t.Error(err)
			}
		})
	}
}

// C103: what a layer below refuses says nothing of what this layer calls. Its breaker
// does not hear of it, and nobody is held back until that one may be asked again.
func TestARefusalBelowConcernsNobodyElse(t *testing.T) {
	full := policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}
	cases := map[string]struct {
		inner  policy.Policy
		spoil  func(context.Context, *gabion.Dependency)
		reason gabion.Reason
	}{
		"open": {policy.Policy{}, func(_ context.Context, d *gabion.Dependency) { b, _ := d.Breaker(""); b.Trip() }, policy.BreakerOpen},
		"paced": {policy.Policy{}, func(ctx context.Context, d *gabion.Dependency) {
			d.Run(ctx, fails(classify.Throttled(errDown, time.Minute)))
		}, policy.Paced},
		"queued in vain": {full, func(ctx context.Context, d *gabion.Dependency) { go d.Run(ctx, lasts(480*time.Millisecond, nil)) }, policy.DeadlineShort},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, outer := gabion.New("inner", c.inner), gabion.New("outer", policy.Policy{})
				c.spoil(t.Context(), inner)
				synctest.Wait()
				err := outer.Run(t.Context(), func(ctx context.Context) error {
					return inner.Run(ctx, works, gabion.WithTimeout(500*time.Millisecond))
				})
				if !errors.Is(err, c.reason) || gabion.ReasonOf(err) != policy.DoNotRetry || asError(t, err).RetryAfter != asError(t, errors.Unwrap(err)).RetryAfter {
					t.Errorf("it ended with %v", err)
				}
				if s := outer.Stats().Main; s.Paced != 0 || s.Breaker.Counts.Failures != 0 {
					t.Errorf("the outer dependency is held back for %s and counted %d failures", s.Paced, s.Breaker.Counts.Failures)
				}
			})
		})
	}
}

// rpcStatus and rpcError have the methods of grpc-go's types.
type (
	rpcStatus struct{ code uint32 }
	rpcError  struct{ s *rpcStatus }
)

func (s *rpcStatus) Code() uint32          { return s.code }
func (e *rpcError) Error() string          { return "rpc error" }
func (e *rpcError) GRPCStatus() *rpcStatus { return e.s }

// B8: gRPC's DEADLINE_EXCEEDED is worth a retry only where it was the attempt's own
// deadline. A server that says so early had another one, and perhaps always has.
func TestOnlyTheAttemptsOwnDeadlineIsRetried(t *testing.T) {
	late := &rpcError{&rpcStatus{4}}
	cases := []struct {
		name     string
		takes    time.Duration
		attempts int
		reason   gabion.Reason
	}{
		{"a deadline of the server's", time.Millisecond, 1, policy.UnclassifiedError},
		{"the attempt's own", time.Second, 3, policy.AttemptsExhausted},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Timeout: policy.Timeout{Attempt: time.Second}, Retry: policy.Retry{Budget: free}})
				err := d.Run(t.Context(), func(context.Context) error { time.Sleep(c.takes); return late })
				wantReason(t, err, c.reason)
				rec.WantAttempts(t, c.attempts)
				if f := d.Stats().Main.Breaker.Counts.Failures; f != int64(c.attempts) {
					t.Errorf("the breaker counted %d failures of %d", f, c.attempts)
				}
			})
		})
	}
}
