package gabionprom_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// live is how much memory is in use.
func live() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// TestAnAttackOnLabelsStaysBounded has 100,000 names of each kind that may come from
// traffic: of dependencies, of operations with ids in them, of codes, of decisions.
func TestAnAttackOnLabelsStaysBounded(t *testing.T) {
	const zeros = 100 * 130 // what begins at zero, of the first hundred dependencies
	for _, c := range []struct {
		name   string
		names  int
		event  func(i int) []gabion.Event
		label  string
		series int // at most
	}{
		{"hosts", 100_000, func(i int) []gabion.Event {
			e := gabion.Event{Dependency: fmt.Sprintf("host%d.example.com", i), Attempt: 1}
			return []gabion.Event{withKind(e, policy.KindAttemptSettled), withKind(e, policy.KindReturned)}
		}, "dependency", 15*1001 + zeros},
		{"operations with ids", 100_000, func(i int) []gabion.Event {
			e := gabion.Event{Dependency: "d", Operation: fmt.Sprintf("GET /orders/%d", i), Attempt: 1}
			return []gabion.Event{withKind(e, policy.KindAttemptSettled), withKind(e, policy.KindReturned)}
		}, "operation", 15*201 + 130},
		{"hosts and operations", 100_000, func(i int) []gabion.Event {
			e := gabion.Event{Dependency: fmt.Sprintf("host%d", i%2000), Operation: fmt.Sprintf("GET /orders/%d", i), Attempt: 1}
			return []gabion.Event{withKind(e, policy.KindReturned)}
		}, "operation", 40_000 + zeros},
		{"codes", 100_000, func(i int) []gabion.Event {
			return []gabion.Event{{Kind: policy.KindAttemptSent, Dependency: "d", Attempt: 2, Code: fmt.Sprintf("E%d", i)}}
		}, "code", 230 + 130},
		{"decisions", 100_000, func(i int) []gabion.Event {
			return []gabion.Event{{Kind: policy.KindKeyDecided, Dependency: "d", Code: fmt.Sprintf("E%d", i)}}
		}, "result", 70 + 140},
		{"dispositions", 100_000, func(i int) []gabion.Event {
			return []gabion.Event{{Kind: policy.KindMessageDisposed, Dependency: "d", Code: fmt.Sprintf("retry/E%d", i)}}
		}, "disposition", 70 + 150},
		{"what is not text", 10_000, func(i int) []gabion.Event {
			e := gabion.Event{Dependency: "d", Operation: strings.Repeat("\xff€", 40) + fmt.Sprintf("%d\xf0", i), Attempt: 1}
			return []gabion.Event{withKind(e, policy.KindReturned)}
		}, "", 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := gabionprom.New(gabionprom.Config{})
			before, calls := live(), 0
			for i := range c.names {
				for _, e := range c.event(i) {
					m.Observe(t.Context(), e)
					if e.Kind == policy.KindReturned {
						calls++
					}
				}
			}
			if grown := live() - before; grown > 80<<20 {
				t.Errorf("%d MB are in use", grown>>20)
			}
			if n := testutil.CollectAndCount(m); n > c.series {
				t.Errorf("%d series, want at most %d", n, c.series)
			}
			got := gather(t, m)
			if n := got.sum("gabion_calls_total"); int(n) != calls {
				t.Errorf("%v calls, want %d: none is lost", n, calls)
			}
			if c.label != "" && got.sum("gabion_label_overflow_total", "label="+c.label) == 0 {
				t.Errorf("nothing says that there were too many values of %s", c.label)
			}
			runtime.KeepAlive(m)
		})
	}
}

func withKind(e gabion.Event, k policy.Kind) gabion.Event { e.Kind = k; return e }

func TestBoundsAreAsConfigured(t *testing.T) {
	m := gabionprom.New(gabionprom.Config{MaxDependencies: 2, MaxSets: 3})
	for d := range 4 {
		for o := range 5 {
			m.Observe(t.Context(), gabion.Event{Kind: policy.KindReturned, Dependency: fmt.Sprint("d", d), Operation: fmt.Sprint("o", o), Attempt: 1})
		}
	}
	got := gather(t, m)
	for _, x := range []expect{
		series(5, "gabion_calls_total", "dependency=d0"),
		series(2, "gabion_calls_total", "dependency=d0", "operation=_other"),
		series(10, "gabion_calls_total", "dependency=_other"),
		series(10, "gabion_label_overflow_total", "label=dependency"),
		series(8, "gabion_label_overflow_total", "label=operation"),
	} {
		if sum := got.sum(x.name, x.labels...); sum != x.want {
			t.Errorf("%s%v is %v, want %v", x.name, x.labels, sum, x.want)
		}
	}
}

// TestNamesThatShareASlotAreToldApart has enough names that some must collide where those that were
// seen last are found quickly.
func TestNamesThatShareASlotAreToldApart(t *testing.T) {
	m := gabionprom.New(gabionprom.Config{})
	for range 3 {
		for i := range 300 {
			m.Observe(t.Context(), gabion.Event{Kind: policy.KindReturned, Dependency: fmt.Sprintf("%03d", i), Operation: "x", Attempt: 1})
		}
	}
	got := gather(t, m)
	for i := range 300 {
		if n := got.sum("gabion_calls_total", fmt.Sprintf("dependency=%03d", i)); n != 3 {
			t.Fatalf("%03d has %v calls, want 3", i, n)
		}
	}
}

// TestObserversComeAndGoUnderLoad is for the race detector, with scrapes in between.
func TestObserversComeAndGoUnderLoad(t *testing.T) {
	reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"d": {Safe: true}, "e": {Safe: true}})
	var all sync.WaitGroup
	var done atomic.Bool
	calls := 0
	for _, name := range []string{"d", "e"} {
		dep, _ := reg.Get(name)
		calls += 2000
		all.Go(func() {
			for i := range 2000 {
				dep.Run(t.Context(), works, gabion.WithOperation(fmt.Sprint("op", i%300)), gabion.WithPartition(fmt.Sprint(i%50)))
			}
		})
	}
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for !done.Load() {
				second := gabionprom.New(gabionprom.Config{Registry: reg})
				stop := reg.Observe(second)
				r := prometheus.NewPedanticRegistry()
				r.MustRegister(m)
				if _, err := r.Gather(); err != nil {
					t.Error(err)
				}
				stop()
			}
		})
	}
	all.Wait()
	done.Store(true)
	others.Wait()
	got := gather(t, m)
	if n := got.sum("gabion_calls_total"); int(n) != calls {
		t.Errorf("%v calls, want %d", n, calls)
	}
	if n := got.sum("gabion_attempts_total"); int(n) != calls {
		t.Errorf("%v attempts, want %d", n, calls)
	}
}
