package behaviour

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

func TestMistakesInCodeAreClearErrors(t *testing.T) {
	ctx := t.Context()
	answer := func(context.Context, error) (int, error) { return 0, nil }
	called := false
	work := func(context.Context) (int, error) { called = true; return 1, nil }
	share := func(s policy.Ratio) error {
		_, err := gabion.DoOr(ctx, gabion.New("db", policy.Policy{}), work, gabion.Fallback[int]{On: never, Answer: answer, Share: s})
		return err
	}
	unmade := func(call func(*gabion.Dependency) error) error { return call(new(gabion.Dependency)) }
	noName := "the name is empty: errors and events would not say who was called"
	noDependency := "gabion: invalid: the dependency is nil, or not made by New"
	for _, c := range []struct {
		fact string
		err  error
		want string
	}{
		{"Do", unmade(func(d *gabion.Dependency) error { _, err := gabion.Do(ctx, d, work); return err }), noDependency},
		{"Run", unmade(func(d *gabion.Dependency) error { return d.Run(ctx, works) }), noDependency},
		{"Open", unmade(func(d *gabion.Dependency) error { _, _, err := gabion.Open(ctx, d, work); return err }), noDependency},
		{"Begin", unmade(func(d *gabion.Dependency) error { _, err := gabion.Begin(ctx, d); return err }), noDependency},
		{"DoOr", unmade(func(d *gabion.Dependency) error {
			_, err := gabion.DoOr(ctx, d, work, gabion.Fallback[int]{On: never, Answer: answer})
			return err
		}), noDependency},
		{"fallback without an answer", func() error {
			_, err := gabion.DoOr(ctx, gabion.New("db", policy.Policy{}), work, gabion.Fallback[int]{})
			return err
		}(), "db: invalid: the fallback's Answer is nil"},
		{"fallback without reasons", func() error {
			_, err := gabion.DoOr(ctx, gabion.New("db", policy.Policy{}), work, gabion.Fallback[int]{Answer: answer, Share: 0.5})
			return err
		}(), "db: invalid: the fallback names no reasons, so that it never answers: On: gabion.Unavailable() are those of a dependency that could not be had"},
		{"share of 5", share(5), "db: invalid: the fallback's share of 5 is not between 0 and 1"},
		{"share below 0", share(-0.5), "db: invalid: the fallback's share of -0.5 is not between 0 and 1"},
		{"share of NaN", share(policy.Ratio(math.NaN())), "db: invalid: the fallback's share of NaN is not between 0 and 1"},
		{"empty name", func() error { _, err := gabion.Make("", policy.Policy{}); return err }(), noName},
		{"empty registry", func() error {
			r, err := gabion.NewRegistry(nil)
			if err != nil {
				return err
			}
			_, err = r.Get("db")
			return err
		}(), "db: unknown_dependency: none is declared"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v", c.fact, c.err)
		}
	}
	if called {
		t.Error("the work was called all the same")
	}
	if _, err := gabion.NewRegistry(map[string]policy.Policy{"": {}}); err == nil {
		t.Error("a registry takes an empty name")
	}
	r, _ := gabion.NewRegistry(nil)
	if err := r.Reload(map[string]policy.Policy{"": {}}); err == nil {
		t.Error("a reload takes an empty name")
	}
}

func TestNothingsAreHarmless(t *testing.T) {
	d := gabion.New("db", policy.Policy{}, nil, gabion.WithObserver(nil), nil)
	if err := d.Run(t.Context(), works, gabion.CallOption{}); err != nil {
		t.Error(err)
	}
	if v := panicOf(func() {
		var b gabion.Breaker
		off, _ := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Off: true}}).Breaker("")
		for _, b := range []gabion.Breaker{b, off} {
			b.ForceOpen(0)
			b.Trip()
			b.Disable(0)
			b.ObserveOnly(0)
			b.Reset()
			b.Isolate()()
			if b.HalfOpen() == nil {
				t.Error("what is not there half-opened")
			}
		}
	}); v != nil {
		t.Errorf("a hand on nothing panics: %v", v)
	}
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
	findings, ok := errors.AsType[policy.Mistakes](err)
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

func TestABackoffOfZeroDoesNotWait(t *testing.T) {
	for fact, c := range map[string]struct {
		backoff backoff.Backoff
		waits   bool
	}{
		"the zero Backoff is the default": {backoff.Backoff{}, true},
		"Const(0) never waits":            {backoff.Const(0), false},
		"a base that is off neither":      {backoff.Backoff{Base: policy.Off}, false},
	} {
		t.Run(fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Safe: true, Retry: policy.Retry{Backoff: c.backoff, Hold: policy.Off, Budget: free}}
				d, n := gabion.New("db", p, gabion.WithSeed(1)), 0
				begin := time.Now()
				d.Run(t.Context(), func(context.Context) error { n++; return errDown })
				if waited := time.Since(begin); n != 3 || waited > 0 != c.waits {
					t.Errorf("%d attempts in %v", n, waited)
				}
			})
		})
	}
}

// An option that can't be meant ends the call before anything is sent, in every kind of call.
func TestOptionsThatCanNotBeMeantSendNothing(t *testing.T) {
	for fact, c := range map[string]struct {
		opts []gabion.CallOption
		want string
	}{
		"an empty key": {[]gabion.CallOption{gabion.WithKey("")},
			"the key given to WithKey is empty: leave the option out to send no key: the idempotency key is malformed"},
		"a timeout without a unit": {[]gabion.CallOption{gabion.WithTimeout(30)},
			"WithTimeout(30ns): did you mean 30 * time.Second?"},
		"a timeout that is over": {[]gabion.CallOption{gabion.WithTimeout(-time.Second)},
			"WithTimeout(-1s): the time is over before the call; zero is the policy's"},
		"a retention without a unit": {[]gabion.CallOption{gabion.WithKey("k"), gabion.WithKeyRetention(24)},
			"WithKeyRetention(24ns): did you mean 24 * time.Hour?"},
		"a retention below zero": {[]gabion.CallOption{gabion.WithKey("k"), gabion.WithKeyRetention(-time.Hour)},
			"WithKeyRetention(-1h0m0s): zero means that nothing is known"},
	} {
		for verb, call := range verbs {
			for mode := range map[policy.KeyMode]bool{policy.KeyDeclared: true, policy.KeyMade: true} {
				ran := false
				err := call(t.Context(), gabion.New("db", policy.Policy{Key: mode}), func(context.Context) error { ran = true; return nil }, c.opts...)
				e, ok := errors.AsType[*gabion.Error](err)
				if !ok || e.Reason != policy.Invalid || e.Effect != policy.NoEffect || e.Err.Error() != c.want || ran {
					t.Errorf("%s, %s: %v; sent %v", fact, verb, err, ran)
				}
			}
		}
	}
	if err := gabion.New("db", policy.Policy{}).Run(t.Context(), works, gabion.WithKey(""), gabion.WithKey("k")); err != nil {
		t.Errorf("the last of two keys counts: %v", err)
	}
}

type charge struct{ state string }

func (c *charge) State() string { return c.state }

// A classifier reads results of its own type; that it can't read a call's is said before
// anything is sent.
func TestAClassifierReadsResultsOfItsType(t *testing.T) {
	declined := func(state string) policy.Outcome {
		if state == "declined" {
			return policy.Outcome{Class: policy.ClassBusiness}
		}
		return policy.Outcome{}
	}
	exact := func(c *charge, _ error) policy.Outcome { return declined(c.state) }
	wide := func(c interface{ State() string }, _ error) policy.Outcome { return declined(c.State()) }
	untyped := func(c any, _ error) policy.Outcome { return declined(c.(*charge).state) }
	other := func(n int, _ error) policy.Outcome { return policy.Outcome{Class: policy.ClassBusiness} }
	const misfit = "the classifier reads results of type int, and those of this call are *behaviour.charge: a classifier of any reads all"
	for fact, c := range map[string]struct {
		own    gabion.CallOption
		shared gabion.Option
		want   string
	}{
		"of the type":                 {gabion.WithClassify(exact), nil, ""},
		"of an interface":             {gabion.WithClassify(wide), nil, ""},
		"of any":                      {gabion.WithClassify(untyped), nil, ""},
		"of another":                  {gabion.WithClassify(other), nil, misfit},
		"of the type, for all calls":  {gabion.CallOption{}, gabion.WithClassify(exact), ""},
		"of another, for all calls":   {gabion.CallOption{}, gabion.WithClassify(other), misfit},
		"the call's is in its place":  {gabion.WithClassify(exact), gabion.WithClassify(other), ""},
		"none leaves it the place":    {gabion.WithClassify[int](nil), gabion.WithClassify(wide), ""},
		"none for all is the default": {gabion.WithClassify(untyped), gabion.WithClassify[int](nil), ""},
	} {
		for _, hedge := range []policy.Hedge{{}, {Max: 1, Delay: time.Hour}} {
			d, sent := gabion.New("bank", policy.Policy{Hedge: hedge, Timeout: policy.Timeout{Call: 2 * time.Hour}}, c.shared), false
			got, err := gabion.Do(t.Context(), d, func(context.Context) (*charge, error) { sent = true; return &charge{"declined"}, nil }, c.own)
			e, ok := errors.AsType[*gabion.Error](err)
			switch {
			case c.want != "" && (!ok || e.Reason != policy.Invalid || e.Err.Error() != c.want || sent):
				t.Errorf("%s: %v, sent %v", fact, err, sent)
			case c.want == "" && (!ok || e.Reason != policy.NotRetryable || got == nil):
				t.Errorf("%s: %v", fact, err)
			}
		}
	}
}

func TestACallWithoutAResultWantsAClassifierOfAny(t *testing.T) {
	typed := gabion.New("bank", policy.Policy{}, gabion.WithClassify(func(*charge, error) policy.Outcome { return policy.Outcome{} }))
	_, begun := gabion.Begin(t.Context(), typed)
	for _, err := range []error{begun, typed.Run(t.Context(), works)} {
		if want := "bank: invalid: the classifier reads results of type *behaviour.charge, and this call has none: a classifier of any reads all"; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	busy := gabion.New("bank", policy.Policy{}, gabion.WithClassify(func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassBusiness} }))
	if err := busy.Run(t.Context(), works); gabion.ReasonOf(err) != policy.NotRetryable {
		t.Errorf("a classifier of any says business, and the call ended with %v", err)
	}
}

// A classifier that says nothing of an error says nothing: the next is asked, and no
// error becomes a success by being forgotten.
func TestAnOutcomeWithoutAClassDecidesNothing(t *testing.T) {
	busy := classify.Throttled(errors.New("busy"), 0)
	nothing := func(any, error) policy.Outcome { return policy.Outcome{} }
	business := func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassBusiness} }
	only := func(o policy.Outcome) gabion.CallOption {
		return gabion.WithClassify(func(any, error) policy.Outcome { return o })
	}
	for fact, c := range map[string]struct {
		own    gabion.CallOption
		shared gabion.Option
		err    error
		want   gabion.Reason
	}{
		"an unknown error is no success either": {gabion.WithClassify(nothing), nil, errors.New("odd"), policy.UnclassifiedError},
		"an error is what it is by itself":      {gabion.WithClassify(nothing), nil, busy, policy.AttemptsExhausted},
		"the dependency's is asked next":        {gabion.WithClassify(nothing), gabion.WithClassify(business), busy, policy.NotRetryable},
		"and package classify last":             {gabion.WithClassify(nothing), gabion.WithClassify(nothing), busy, policy.AttemptsExhausted},
		"also without one of the call's":        {gabion.CallOption{}, gabion.WithClassify(nothing), busy, policy.AttemptsExhausted},
		"one that can't read it is not asked":   {gabion.WithClassify(nothing), gabion.WithClassify(func(string, error) policy.Outcome { panic("asked") }), busy, policy.AttemptsExhausted},
		"no error is a success":                 {gabion.WithClassify(nothing), gabion.WithClassify(nothing), nil, policy.None},
		"which a success that is said is too":   {only(policy.Succeeded()), gabion.WithClassify(business), errors.New("no rows"), policy.None},
		"what is said beside it counts":         {only(policy.Outcome{Stop: true}), nil, busy, policy.DoNotRetry},
		"what may have happened may":            {only(policy.Outcome{Effect: policy.UnknownEffect}), nil, classify.NotSent(errors.New("dial")), policy.NotSafe},
		"what was never sent is safe to repeat": {only(policy.Outcome{NeverSent: true}), nil, errDown, policy.AttemptsExhausted},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := gabion.New("db", policy.Policy{Pace: policy.Pace{Off: true}, Retry: policy.Retry{Attempts: 2, Budget: free}}, c.shared)
			_, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 0, c.err }, c.own)
			if got := gabion.ReasonOf(err); got != c.want || c.want == policy.None && err != c.err {
				t.Errorf("%s: the call ended with %v, want %v", fact, err, c.want)
			}
		})
	}
}

func TestAnAttemptSettledWithoutAClassIsReadByItsError(t *testing.T) {
	for want, settled := range map[gabion.Reason]error{policy.UnclassifiedError: errors.New("odd"), policy.None: nil} {
		a, err := gabion.Begin(t.Context(), gabion.New("db", policy.Policy{}))
		if err != nil {
			t.Fatal(err)
		}
		err = a.SettleOutcome(policy.Outcome{}, settled)
		if got := gabion.ReasonOf(err); got != want || (err == nil) != (settled == nil) {
			t.Errorf("settled with %v it ends with %v", settled, err)
		}
		a.Close(nil)
	}
}
