package behaviour

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Hosts that others name fill the partitions, and more of them fail in the one that
// the rest share. A healthy host that is new there is called all the same.
func TestTheSharedPartitionRefusesNobody(t *testing.T) {
	for name, bad := range map[string]error{"they fail": errDown, "they ask for time": classify.Throttled(errDown, time.Minute)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Partitions: policy.Partitions{Max: 20}}
				d, rec := watched(p)
				for i := range 200 {
					d.Run(t.Context(), fails(bad), gabion.WithPartition(fmt.Sprint("bad", i)), gabion.WithoutRetry())
				}
				if err := d.Reload(p); err != nil {
					t.Fatal(err)
				}
				for range 100 {
					if err := d.Run(t.Context(), works, gabion.WithPartition("good")); err != nil {
						t.Fatal(err)
					}
				}
				exceeded := count(rec, func(e gabion.Event) bool {
					return e.Kind == policy.KindBreakerExceeded && e.Partition == terms.Overflow
				})
				if bad == errDown && exceeded == 0 {
					t.Error("no event says that it fails")
				}
			})
		})
	}
}

// Names from traffic are bounded in size: what is kept and told is short, and two long
// names stay two.
func TestLongNamesAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{})
		long := strings.Repeat("é", 250_000)
		for _, name := range []string{long + "a", long + "b"} {
			d.Run(t.Context(), works, gabion.WithPartition(name), gabion.WithOperation(name))
		}
		seen := map[string]bool{}
		for _, e := range rec.Events() {
			if len(e.Partition) > 128 || len(e.Operation) > 128 || !strings.HasPrefix(e.Partition, "éé") || strings.ToValidUTF8(e.Partition, "") != e.Partition {
				t.Fatalf("%d bytes of partition, %d of operation", len(e.Partition), len(e.Operation))
			}
			seen[e.Partition], seen[e.Operation] = true, true
		}
		if len(seen) != 2 {
			t.Errorf("two names became %d", len(seen))
		}
	})
}

func TestAnUnknownNameIsQuotedAndTheKnownAreBounded(t *testing.T) {
	policies := map[string]policy.Policy{}
	for i := range 500 {
		policies[fmt.Sprintf("service-%03d", i)] = policy.Policy{}
	}
	r, err := gabion.NewRegistry(policies)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Get("a\x1b[2J\n" + strings.Repeat("x", 10_000))
	if text := err.Error(); len(text) > 600 || strings.ContainsAny(text, "\x1b\n") || !strings.Contains(text, "and 490 more") {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
}

// An instance whose name was gone for a while is still the same one, for those who hold it and for
// those who ask again.
func TestAnInstanceThatIsHeldGetsNoTwin(t *testing.T) {
	r, err := gabion.NewRegistry(map[string]policy.Policy{"shop": {}})
	if err != nil {
		t.Fatal(err)
	}
	held, err := r.Instance("shop", "eu")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(map[string]policy.Policy{"other": {}}); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // only the instance holds its dependency
	if err := r.Reload(map[string]policy.Policy{"shop": {Bulkhead: policy.Bulkhead{Limit: 7}}}); err != nil {
		t.Fatal(err)
	}
	again, err := r.Instance("shop", "eu")
	if err != nil || again != held {
		t.Errorf("%p and %p, %v", held, again, err)
	}
	if n := held.Policy().Bulkhead.Limit; n != 7 {
		t.Errorf("its limit is %d", n)
	}
}

// panics is a log handler that panics.
type panics struct{ slog.Handler }

func (panics) Enabled(context.Context, slog.Level) bool { return true }

func (panics) Handle(context.Context, slog.Record) error { panic("no disk") }

func TestALogHandlerThatPanicsTakesNobodyAlong(t *testing.T) {
	bad := gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("observer") })
	for verb, call := range waiting {
		d := gabion.New("db", policy.Policy{}, gabion.WithObserver(bad), gabion.WithLogger(slog.New(panics{slog.DiscardHandler})))
		if crash := panicOf(func() {
			if err := call(t.Context(), d, works); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}); crash != nil {
			t.Errorf("%s panicked: %v", verb, crash)
		}
		if n := d.Stats().ObserverPanics; n == 0 {
			t.Errorf("%s: no panic is counted", verb)
		}
	}
}
