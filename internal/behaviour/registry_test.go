package behaviour

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

func registry(t *testing.T, policies map[string]policy.Policy, opts ...gabion.Option) *gabion.Registry {
	t.Helper()
	r, err := gabion.NewRegistry(policies, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func get(t *testing.T, r *gabion.Registry, name string) *gabion.Dependency {
	t.Helper()
	d, err := r.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func instance(t *testing.T, r *gabion.Registry, name, of string) *gabion.Dependency {
	t.Helper()
	d, err := r.Instance(name, of)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRegistryKnowsItsNames(t *testing.T) {
	r := registry(t, map[string]policy.Policy{"b": {}, "a": {}})
	if get(t, r, "a") != get(t, r, "a") || get(t, r, "a") == get(t, r, "b") || get(t, r, "b").Name() != "b" {
		t.Error("a name is a dependency")
	}
	if got := fmt.Sprint(r.Names()); got != "[a b]" {
		t.Errorf("names: %s", got)
	}
	for _, ask := range []func() (*gabion.Dependency, error){
		func() (*gabion.Dependency, error) { return r.Get("c") },
		func() (*gabion.Dependency, error) { return r.Instance("c", "host") },
	} {
		d, err := ask()
		if d != nil || !errors.Is(err, policy.UnknownDependency) || err.Error() != "c: unknown_dependency: known are a, b" {
			t.Errorf("an unknown name: %v, %v", d, err)
		}
	}
	if s := r.Stats(); len(s) != 2 || s[0].Name != "a" || s[1].Name != "b" {
		t.Errorf("stats: %+v", s)
	}
}

func TestRegistryRefusesWithEveryFinding(t *testing.T) {
	bad := map[string]policy.Policy{"a": {Retry: policy.Retry{Attempts: -3}}, "b": {Bulkhead: policy.Bulkhead{Limit: -7}}, "c": {}}
	if _, err := gabion.NewRegistry(bad); !names(err, "a: ", "retry.attempts", "b: ", "bulkhead.limit") {
		t.Errorf("NewRegistry: %v", err)
	}
	r := registry(t, map[string]policy.Policy{"a": {Retry: policy.Retry{Attempts: 5}}})
	instance(t, r, "a", "host")
	if err := r.Reload(bad); !names(err, "a: ", "retry.attempts", "b: ", "bulkhead.limit") {
		t.Errorf("Reload: %v", err)
	}
	if got := fmt.Sprint(r.Names()); got != "[a]" || get(t, r, "a").Policy().Retry.Attempts != 5 || len(r.Stats()) != 2 {
		t.Errorf("a refused file changed something: %s", got)
	}
}

func names(err error, parts ...string) bool {
	return err != nil && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(err.Error(), p) })
}

// Reload keeps what is known; the holder of a dependency sees its new policy.
func TestRegistryReloadKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := policy.Policy{Breaker: eager(time.Hour)}
		for _, name := range []string{"a", "team/a"} {
			r := registry(t, map[string]policy.Policy{name: broken, "gone": {}})
			a, host, gone := get(t, r, name), instance(t, r, name, "host"), get(t, r, "gone")
			goneHost := instance(t, r, "gone", "host")
			a.Run(t.Context(), fails(errDown))
			host.Run(t.Context(), fails(errDown))
			changed := broken
			changed.Retry.Attempts = 9
			if err := r.Reload(map[string]policy.Policy{name: changed, "new": {}}); err != nil {
				t.Fatal(err)
			}
			if get(t, r, name) != a || instance(t, r, name, "host") != host {
				t.Errorf("%s: Reload replaced a dependency that stays", name)
			}
			for _, d := range []*gabion.Dependency{a, host} {
				wantState(t, d, breaker.Open)
				if d.Policy().Retry.Attempts != 9 {
					t.Errorf("%s has the old policy", d.Name())
				}
			}
			get(t, r, "new")
			if _, err := r.Get("gone"); !errors.Is(err, policy.UnknownDependency) {
				t.Errorf("gone: %v", err)
			}
			if _, err := r.Instance("gone", "host"); !errors.Is(err, policy.UnknownDependency) {
				t.Errorf("an instance of what is gone: %v", err)
			}
			for _, d := range []*gabion.Dependency{gone, goneHost} {
				if err := d.Run(t.Context(), works); err != nil {
					t.Errorf("a holder of what is gone can't go on: %v", err)
				}
			}
		}
	})
}

// A name that a file lost for a while, by a slip of the pen, is the one dependency
// that it was: two would share neither breaker nor budget, and its holders would never
// see a policy again.
func TestRegistryNameThatComesBackIsTheOneThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy.Policy{Breaker: eager(time.Hour)}
		r := registry(t, map[string]policy.Policy{"a": p})
		a := get(t, r, "a")
		a.Run(t.Context(), fails(errDown))
		for range 2 {
			if err := r.Reload(map[string]policy.Policy{"mistyped": p}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Get("a"); !errors.Is(err, policy.UnknownDependency) {
				t.Errorf("gone: %v", err)
			}
		}
		p.Retry.Attempts = 9
		if err := r.Reload(map[string]policy.Policy{"a": p}); err != nil {
			t.Fatal(err)
		}
		if get(t, r, "a") != a || a.Policy().Retry.Attempts != 9 {
			t.Errorf("a came back as another: its holder has %d attempts, want 9", a.Policy().Retry.Attempts)
		}
		wantState(t, get(t, r, "a"), breaker.Open)
		if got := len(r.Stats()); got != 1 {
			t.Errorf("%d dependencies, want 1", got)
		}
	})
}

// A dependency that is gone and not held is not kept for the day on which it may come back.
func TestRegistryKeepsNothingOfWhatIsGone(t *testing.T) {
	r := registry(t, map[string]policy.Policy{"a": {}, "gone": {}})
	collected := make(chan struct{})
	runtime.AddCleanup(get(t, r, "gone"), func(c chan struct{}) { close(c) }, collected)
	if err := r.Reload(map[string]policy.Policy{"a": {}}); err != nil {
		t.Fatal(err)
	}
	for range 100 { // the cleanup runs on a goroutine of its own, some time after a collection
		runtime.GC()
		select {
		case <-collected:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("it is still kept")
}

// Names that look like an instance's don't get mixed up.
func TestRegistryTellsNamesWithSlashesApart(t *testing.T) {
	r := registry(t, map[string]policy.Policy{"a": {Retry: policy.Retry{Attempts: 2}}, "a/b": {Retry: policy.Retry{Attempts: 3}}})
	one, other := instance(t, r, "a", "b/c"), instance(t, r, "a/b", "c")
	if one == other || one.Policy().Retry.Attempts != 2 || other.Policy().Retry.Attempts != 3 {
		t.Error("two instances of two dependencies are one")
	}
}

// Instances are bounded. Those past the bound share one; idle ones make room,
// but never one in flight or with a breaker that is not closed.
func TestRegistryInstancesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, map[string]policy.Policy{"a": {Breaker: eager(24 * time.Hour), Bulkhead: policy.Bulkhead{Off: true}, Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}}})
		broken, flying := instance(t, r, "a", "broken"), instance(t, r, "a", "flying")
		broken.Run(t.Context(), fails(errDown))
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { flying.Run(t.Context(), func(context.Context) error { <-release; return nil }) })
		held := instance(t, r, "a", "open")
		if twice, err := gabion.Begin(t.Context(), held); err == nil {
			twice.Close(nil)
			twice.Close(nil)
		}
		_, open, err := gabion.Open(t.Context(), held, withResult(works))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			instance(t, r, "a", fmt.Sprint("host", i))
		}
		if n := len(r.Stats()); n > 1002 {
			t.Errorf("%d dependencies are kept", n)
		}
		x, y := instance(t, r, "a", "x"), instance(t, r, "a", "y")
		if x != y || x == get(t, r, "a") || x.Name() != "a/"+terms.Overflow {
			t.Errorf("past the bound: %s and %s", x.Name(), y.Name())
		}
		if n := r.Spilled(); n < 1000 {
			t.Errorf("%d calls shared the overflow, want the thousand that found no room", n)
		}
		if instance(t, r, "a", "host7") != instance(t, r, "a", "host7") {
			t.Error("one that has its own lost it")
		}
		time.Sleep(11 * time.Minute)
		fresh := instance(t, r, "a", "z")
		if fresh.Name() != "a/z" {
			t.Errorf("after a pause z is %s", fresh.Name())
		}
		for i := range 1000 { // of those that are idle not one is left
			instance(t, r, "a", fmt.Sprint("new", i))
		}
		for _, d := range []*gabion.Dependency{broken, flying} {
			if _, of, _ := strings.Cut(d.Name(), "/"); instance(t, r, "a", of) != d {
				t.Errorf("%s was forgotten", d.Name())
			}
		}
		if !slices.ContainsFunc(r.Stats(), func(s gabion.Stats) bool { return s.Name == "a/open" }) {
			t.Error("one with an open result was forgotten")
		}
		close(release)
		wg.Wait()
		open.Close(nil)
	})
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	policies := map[string]policy.Policy{"a": {}, "b": {}}
	r := registry(t, policies)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				if d, err := r.Instance("a", fmt.Sprint(i%50)); err == nil {
					d.Run(t.Context(), works)
				}
				switch (g + i) % 20 {
				case 0:
					r.Reload(policies)
				case 1:
					r.Stats()
				}
			}
		})
	}
	wg.Wait()
}

// J7: a snapshot tells what a dependency is at.
func TestStatsTellWhatADependencyIsAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Breaker: policy.Breaker{Window: time.Minute}, Bulkhead: policy.Bulkhead{Limit: 2, Queue: 5}})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { d.Run(t.Context(), lasts(500*time.Millisecond, nil)) })
		}
		synctest.Wait()
		s := d.Stats()
		if s.Name != "db" || !s.At.Equal(time.Now()) || s.Bulkhead.InUse != 2 || s.Bulkhead.Queued != 1 || s.Bulkhead.Limit != 2 {
			t.Errorf("%+v", s)
		}
		wg.Wait()
		n := 0
		d.Run(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return errDown
			}
			return nil
		})
		s = d.Stats()
		if s.Budget.Calls != 4 || s.Budget.Sent != 1 || s.Main.Breaker.Counts.Calls != 5 || s.Main.Breaker.Counts.Failures != 1 || !s.Main.Guarded {
			t.Errorf("%+v", s)
		}
	})
}

// The hand that switches off the retries of a declared dependency means its
// instances too, those that are there and those that come.
func TestRegistrySwitchesRetriesOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := gabion.NewRegistry(map[string]policy.Policy{"db": {Safe: true, Retry: policy.Retry{Budget: free, Hold: policy.Off}}, "other": {Safe: true, Retry: policy.Retry{Budget: free, Hold: policy.Off}}})
		if err != nil {
			t.Fatal(err)
		}
		want := func(name, instance string, reason gabion.Reason) {
			t.Helper()
			d, err := r.Instance(name, instance)
			if err != nil {
				t.Fatal(err)
			}
			wantReason(t, d.Run(t.Context(), fails(errDown)), reason)
			if off := d.Stats().RetriesOff; off != (reason == policy.RetriesOff) {
				t.Errorf("%s %s: Stats say %v", name, instance, off)
			}
		}
		want("db", "there", policy.AttemptsExhausted)
		db, err := r.Get("db")
		if err != nil {
			t.Fatal(err)
		}
		db.Retries().Stop(0)
		want("db", "there", policy.RetriesOff)
		want("db", "new", policy.RetriesOff)
		want("other", "there", policy.AttemptsExhausted)
		db.Retries().Resume()
		want("db", "there", policy.AttemptsExhausted)
	})
}

// A registry of a thousand names is two megabytes, however many processors there are: what only failures, hedges and
// latencies need is made by the first of them, names of equal policies share what is
// compiled of them, and what successes count gets a cache line for each shard only where two of them meet.
func TestANameInARegistryIsSmall(t *testing.T) {
	const names = 1000
	policies := map[string]policy.Policy{}
	for i := range names {
		policies[fmt.Sprint("name", i)] = policy.Policy{}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r, err := gabion.NewRegistry(policies)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each, most := int(after.HeapAlloc-before.HeapAlloc)/names, 2048 // 1962 without the race detector
	t.Logf("a name takes %d bytes", each)
	if each > most {
		t.Errorf("a name takes %d bytes, and %d at most are stated", each, most)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(policies)
}
