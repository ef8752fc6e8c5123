package bulkhead_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/bulkhead"
)

// script runs one line of words against a bulkhead. Calls have names; a name
// that starts with H or L joins with that priority, and "name@tenant" names a
// tenant. The words, and what each asks for:
//
//	in:a       a gets a slot at once      out:a   a gives its slot back
//	no:a       a finds no slot            wait:a  a joins the queue
//	full:a     a joins, queue full        gone:a  a leaves the queue
//	run:a      a has been woken and given a slot
//	still:a    a still waits              push:a  a was pushed out
//	late:a     a leaves and finds it had been given a slot
//	size:l/q   resize    fair, unfair     use:n   n slots in use
type script struct {
	t      *testing.T
	b      *bulkhead.Bulkhead
	slots  map[string]bulkhead.Slot
	stays  map[string]*bulkhead.Waiter
	bells  map[string]*bell
	spoken string
}

func run(t *testing.T, b *bulkhead.Bulkhead, words string) {
	t.Helper()
	s := &script{t, b, map[string]bulkhead.Slot{}, map[string]*bulkhead.Waiter{}, map[string]*bell{}, ""}
	for _, word := range strings.Fields(words) {
		s.spoken += " " + word
		verb, who, _ := strings.Cut(word, ":")
		s.do(verb, who)
	}
}

func (s *script) want(ok bool, what string) {
	s.t.Helper()
	if !ok {
		s.t.Fatalf("after%s: %s", s.spoken, what)
	}
}

func (s *script) do(verb, who string) {
	s.t.Helper()
	switch verb {
	case "in", "no":
		_, tenant, _ := strings.Cut(who, "@")
		slot, ok := s.b.TryAcquire(tenant, 0)
		s.slots[who] = slot
		s.want(ok == (verb == "in") && slot.Held() == ok, "wrong admission")
	case "out":
		s.want(s.slots[who].Held(), "nothing to release")
		s.b.Release(s.slots[who], 0)
		delete(s.slots, who)
	case "wait", "full":
		s.join(verb == "wait", who)
	case "gone", "late":
		slot, ok := s.b.Leave(s.stays[who])
		s.slots[who] = slot
		s.want(ok == (verb == "late") && slot.Held() == ok, "wrong leave")
	case "run", "still", "push":
		s.answer(verb, who)
	case "size":
		var limit, queue int
		fmt.Sscanf(who, "%d/%d", &limit, &queue)
		s.b.Resize(limit, queue)
	case "fair", "unfair":
		s.b.SetFair(verb == "fair")
	case "use":
		s.want(fmt.Sprint(s.b.Stats().InUse) == who, fmt.Sprintf("%+v", s.b.Stats()))
	default:
		s.t.Fatalf("unknown word %q", verb)
	}
}

func (s *script) join(want bool, who string) {
	s.t.Helper()
	p := map[byte]bulkhead.Priority{'H': bulkhead.High, 'L': bulkhead.Low}[who[0]]
	_, tenant, _ := strings.Cut(who, "@")
	s.bells[who] = new(bell)
	w, ok := s.b.Join(s.bells[who], p, tenant)
	s.stays[who] = w
	s.want(ok == want && (w != nil) == ok, "wrong join")
}

func (s *script) answer(verb, who string) {
	s.t.Helper()
	want := map[string]bulkhead.Answer{"run": bulkhead.Granted, "still": bulkhead.Waiting, "push": bulkhead.PushedOut}[verb]
	slot, got := s.b.Granted(s.stays[who])
	s.slots[who] = slot
	s.want(got == want && slot.Held() == (got == bulkhead.Granted), fmt.Sprintf("answer %d", got))
	s.want((s.bells[who].rung == 1) == (got != bulkhead.Waiting), fmt.Sprintf("woken %d times", s.bells[who].rung))
}

func TestQueue(t *testing.T) {
	for _, c := range []struct {
		fact         string
		limit, queue int
		words        string
	}{
		{"C99 two run, the third waits, the fourth is refused, the third runs when one finishes", 2, 1,
			"in:a in:b no:c wait:c full:d still:c out:a run:c use:2"},
		{"the queue is first in, first out", 1, 3,
			"in:a wait:b wait:c wait:d out:a run:b still:c out:b run:c still:d out:c run:d"},
		{"C100 a cancelled waiter leaves its place at once", 1, 1,
			"in:a wait:b full:c gone:b wait:c out:a run:c"},
		{"C100 a run of cancelled waiters does not starve the next live one", 1, 5,
			"in:a wait:b wait:c wait:d wait:e wait:f gone:b gone:d gone:c gone:e out:a run:f out:f use:0 in:g"},
		{"C100 leaving from the middle and the end keeps the order", 1, 4,
			"in:a wait:b wait:c wait:d gone:c wait:e gone:e wait:f out:a run:b out:b run:d out:d run:f out:f use:0"},
		{"one that leaves after it was given a slot has it, and can give it back", 1, 2,
			"in:a wait:b wait:c out:a late:b still:c use:1 out:b run:c out:c use:0"},
		{"a new call gets no slot while others wait", 1, 2,
			"in:a wait:b no:c out:a no:c run:b out:b in:c"},
		{"a slot handed over but not yet taken up is in use", 1, 1,
			"in:a wait:b out:a use:1 no:c late:b out:b use:0"},
		{"no queue: no call waits", 1, 0, "in:a full:b out:a in:b"},
		{"no queue, but a slot came free: join takes it", 1, 0, "wait:a run:a full:b out:a use:0"},
		{"no slots: no call gets through until resized", 0, 1, "no:a wait:a full:b still:a size:1/1 run:a"},
		{"negative numbers mean none", -5, -5, "no:a full:a size:1/-1 in:a full:b"},
		{"C102 shrinking kills nothing and admits no call until under the limit", 3, 1,
			"in:a in:b in:c wait:d size:1/1 use:3 out:a still:d use:2 out:b still:d use:1 no:e out:c run:d use:1"},
		{"C102 growing lets waiters start", 1, 3,
			"in:a wait:b wait:c wait:d size:3/3 run:b run:c still:d use:3"},
		{"a queue that shrinks keeps those in it", 1, 2,
			"in:a wait:b wait:c size:1/0 full:d out:a run:b out:b run:c out:c in:d"},
		{"switching off lets all waiters start", 1, 3, "in:a wait:b wait:c size:9999999/0 run:b run:c in:d"},
		{"high goes before normal before low", 1, 9,
			"in:a wait:L1 wait:n1 wait:H1 wait:L2 wait:n2 wait:H2 out:a run:H1 out:H1 run:H2 out:H2 run:n1 out:n1 run:n2 out:n2 run:L1 out:L1 run:L2"},
		{"priority pushes no call out of a full queue", 1, 1, "in:a wait:L1 full:H1 still:L1"},
	} {
		t.Run(c.fact, func(t *testing.T) { run(t, bulkhead.New(c.limit, c.queue, false), c.words) })
	}
	t.Run("fair among one tenant is the same", func(t *testing.T) {
		run(t, bulkhead.New(1, 3, true), "in:a wait:b wait:c wait:H1 full:d out:a run:H1 out:H1 run:b out:b late:c out:c use:0")
	})
}

// Returns says what giving back and taking again would come to.
func TestASlotReturnsWhereNobodyElseIsNext(t *testing.T) {
	for _, c := range []struct {
		fact  string
		first func(b *bulkhead.Bulkhead)
		fair  bool
		want  bool
	}{
		{"slots are free", func(*bulkhead.Bulkhead) {}, false, true},
		{"it is the last slot", func(b *bulkhead.Bulkhead) { b.Resize(1, 1) }, false, true},
		{"a call waits", func(b *bulkhead.Bulkhead) { b.Resize(1, 1); b.Join(nil, bulkhead.Normal, "") }, false, false},
		{"the limit has fallen", func(b *bulkhead.Bulkhead) { b.Resize(0, 0) }, false, false},
		{"tenants share", func(*bulkhead.Bulkhead) {}, true, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			b := bulkhead.New(2, 1, c.fair)
			slot, _ := b.TryAcquire("", 0)
			if c.first(b); bulkhead.Returns(b, slot) != c.want {
				t.Fatalf("Returns says %v", !c.want)
			}
			if b.Release(slot, 0); !c.fair {
				if _, again := b.TryAcquire("", 0); again != c.want {
					t.Errorf("Returns said %v, and the slot could be taken again: %v", c.want, again)
				}
			}
		})
	}
}

func TestFair(t *testing.T) {
	for _, c := range []struct {
		fact         string
		limit, queue int
		words        string
	}{
		{"a free slot goes to the tenant with the fewest in use", 3, 4,
			"in:1@a in:2@a in:3@b wait:4@a wait:5@b out:1@a run:4@a out:2@a run:5@b"},
		{"fewest in use goes before first come", 3, 4,
			"in:1@a in:2@a in:3@a wait:4@a wait:5@b out:1@a run:5@b still:4@a out:2@a run:4@a"},
		{"first come among equals, and inside a tenant", 1, 4,
			"in:1@x wait:2@a wait:3@a wait:4@b out:1@x run:2@a out:2@a run:3@a out:3@a run:4@b"},
		{"a full queue makes room for the tenant with fewest: the newest of the tenant with most goes", 1, 3,
			"in:1@a wait:2@a wait:3@a wait:4@a wait:5@b push:4@a still:3@a still:5@b"},
		{"no tenant pushes out its own calls, nor an equal's", 1, 2,
			"in:1@x wait:2@a wait:3@b full:4@a full:5@b wait:6@c push:3@b full:7@a"},
		{"priority first, then fairness", 3, 4,
			"in:1@a in:2@a in:3@b wait:L4@c wait:H5@a out:3@b run:H5@a still:L4@c out:1@a run:L4@c"},
		{"the tenant with most loses its lowest class first", 1, 3,
			"in:1@x wait:L2@a wait:H3@a wait:n4@a wait:n5@b push:L2@a still:H3@a still:n4@a"},
		{"a lower class pushes no higher one out", 1, 2, "in:1@x wait:H2@a wait:H3@a full:L4@b full:n5@b wait:H6@b push:H3@a"},
		{"switched on while calls wait: these go first", 1, 4,
			"in:1@a wait:2@a wait:3@a fair wait:4@b out:1@a run:2@a out:2@a run:3@a out:3@a run:4@b out:4@b use:0"},
		{"a call that waited before it was switched on is not pushed out", 1, 2, "in:1 wait:2 wait:3 fair full:4@b still:3"},
		{"switched off while they wait: the order of arrival counts again", 2, 4,
			"fair in:1@a in:2@a wait:3@a wait:4@b unfair wait:5@c out:1@a run:3@a out:2@a run:4@b out:3@a run:5@c out:4@b out:5@c use:0"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			fair := !strings.Contains(c.words, "fair")
			run(t, bulkhead.New(c.limit, c.queue, fair), c.words)
		})
	}
}

// Starving is bounded: behind a flood of High, Normal gets the slot after 32 of
// them, and Low the one after that.
func TestClassOutOfPatienceGetsTheNextSlot(t *testing.T) {
	b := bulkhead.New(1, 100, false)
	slot, _ := b.TryAcquire("", 0)
	stays := map[string]*bulkhead.Waiter{}
	stays["low"], _ = b.Join(nil, bulkhead.Low, "")
	stays["normal"], _ = b.Join(nil, bulkhead.Normal, "")
	when := map[string]int{}
	for turn := 1; turn <= 40; turn++ {
		high, _ := b.Join(nil, bulkhead.High, "")
		b.Release(slot, 0)
		for name, w := range map[string]*bulkhead.Waiter{"low": stays["low"], "normal": stays["normal"], "high": high} {
			if s, a := b.Granted(w); a == bulkhead.Granted {
				slot, when[name] = s, turn
			}
		}
		if when["high"] == 0 {
			t.Fatal("the first High did not go first")
		}
		drain(b, high)
	}
	if when["normal"] != 33 || when["low"] != 34 {
		t.Errorf("normal at %d, low at %d; want 33 and 34", when["normal"], when["low"])
	}
}

func drain(b *bulkhead.Bulkhead, w *bulkhead.Waiter) {
	if s, ok := b.Leave(w); ok {
		b.Release(s, 0)
	}
}

func TestVerbsAreTotal(t *testing.T) {
	b := bulkhead.New(1, 1, false)
	b.Release(bulkhead.Slot{}, 0)
	if _, a := b.Granted(nil); a != bulkhead.Gone {
		t.Error("no stay is a stay that is over")
	}
	if _, ok := b.Leave(nil); ok {
		t.Error("leaving no stay gave a slot")
	}
	w, _ := b.Join(nil, 100, "")
	first, a := b.Granted(w)
	again, over := b.Granted(w)
	if a != bulkhead.Granted || over != bulkhead.Gone || again.Held() {
		t.Errorf("Granted, Granted = %d, %d, %v; a slot is handed over once", a, over, again)
	}
	if _, ok := b.Leave(w); ok {
		t.Error("leaving after the slot was taken gave another")
	}
	b.Release(first, 0)
	if s := b.Stats(); s.InUse != 0 || s.Queued != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestLimitsAreBounded(t *testing.T) {
	got := bulkhead.New(math.MaxInt, math.MaxInt, false).Stats()
	want := bulkhead.Stats{Limit: bulkhead.Off, QueueLimit: 1<<20 - 1}
	if got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	if got := bulkhead.New(math.MinInt, math.MinInt, true).Stats(); got != (bulkhead.Stats{}) {
		t.Errorf("Stats = %+v, want none", got)
	}
}

func TestReleasingTooMuchPanicsAndBreaksNothing(t *testing.T) {
	for _, fair := range []bool{false, true} {
		b := bulkhead.New(1, 1, fair)
		s, _ := b.TryAcquire("a", 0)
		b.Release(s, 0)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("fair %v: the second Release went unnoticed", fair)
				}
			}()
			b.Release(s, 0)
		}()
		if got, want := b.Stats(), (bulkhead.Stats{Limit: 1, QueueLimit: 1}); got != want {
			t.Errorf("fair %v: Stats = %+v, want %+v", fair, got, want)
		}
	}
}

func TestReleasingToAnotherBulkheadPanicsAndBreaksNothing(t *testing.T) {
	one, other := bulkhead.New(8, 0, false), bulkhead.New(8, 0, false)
	s, _ := one.TryAcquire("", 0)
	func() {
		defer func() {
			if r := recover(); r != "bulkhead: more slots released than acquired" {
				t.Errorf("panics with %v", r)
			}
		}()
		other.Release(s, 0)
	}()
	if got := other.Stats().InUse; got != 0 {
		t.Errorf("%d in use", got)
	}
	one.Release(s, 0)
}

func TestAllocations(t *testing.T) {
	for _, fair := range []bool{false, true} {
		b := bulkhead.New(1, 10, fair)
		free := testing.AllocsPerRun(1000, func() {
			s, _ := b.TryAcquire("a", 0)
			b.Release(s, 0)
		})
		held, _ := b.TryAcquire("a", 0)
		refused := testing.AllocsPerRun(1000, func() { b.TryAcquire("b", 0) })
		bell := new(bell)
		queued := testing.AllocsPerRun(1000, func() {
			w, _ := b.Join(bell, bulkhead.Normal, "b")
			b.Release(held, 0)
			held, _ = b.Granted(w)
		})
		if free != 0 || refused != 0 || queued != 1 {
			t.Errorf("fair %v: %v allocations free, %v refused, %v queued; want 0, 0, 1", fair, free, refused, queued)
		}
	}
}
