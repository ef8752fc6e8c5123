package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// Open returns a new and empty store with the options, and a function that returns another
// handle on the same letters, as another process has it: with connections and locks of its
// own. Again is nil if only one process can have the store. The options have a Clock, which the
// store has to use.
type Open func(t testing.TB, o deadletter.Options) (first deadletter.Store, again func(testing.TB) deadletter.Store)

// Run checks a store. It takes some seconds.
func Run(t *testing.T, open Open) {
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) { one.run(newBench(t, open, one.options)) })
	}
}

type oneCase struct {
	name    string
	options deadletter.Options
	run     func(*bench)
}

var cases = slices.Concat(letterCases, listCases, resolutionCases, driveCases, clockCases, boundCases, handleCases)

// A bench is what one case works with.
type bench struct {
	*testing.T
	deadletter.Store
	again   func(testing.TB) deadletter.Store
	now     *atomic.Int64 // of the stores' clock
	notices []deadletter.Notice
	events  []policy.Event
	told    func(by string)    // of letters that go; nil means nothing
	handles []deadletter.Store // what both made
}

// begun is when each case begins.
var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newBench(t *testing.T, open Open, o deadletter.Options) *bench {
	b := &bench{T: t, now: new(atomic.Int64)}
	b.now.Store(begun.UnixNano())
	o.Clock = func() time.Time { return time.Unix(0, b.now.Load()) }
	o.Dropping, o.Stream = b.drop, b
	b.Store, b.again = open(t, o)
	return b
}

// drop takes the notices of letters that go.
func (b *bench) drop(_ context.Context, n deadletter.Notice) {
	b.notices = append(b.notices, n)
	if b.told != nil {
		b.told("Dropping")
	}
}

// Observe takes the events of letters that go.
func (b *bench) Observe(_ context.Context, e policy.Event) {
	b.events = append(b.events, e)
	if b.told != nil {
		b.told("Stream")
	}
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) { b.now.Add(int64(d)) }

func (b *bench) time() time.Time { return time.Unix(0, b.now.Load()).UTC() }

func (b *bench) other() deadletter.Store {
	b.Helper()
	if b.again == nil {
		b.Skip("one process at a time has this store")
	}
	return b.again(b.T)
}

// ok ends the case at an error.
func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// is wants an error.
func (b *bench) is(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("error %v, want %v", err, want)
	}
}

// letter returns the n-th letter of a group.
func letter(group string, n int) deadletter.Letter {
	payload := fmt.Appendf(nil, "payload %d of %s", n, group)
	key := fmt.Sprintf("key-%d", n)
	return deadletter.Letter{
		ID: deadletter.LetterID(group, key, payload), Group: group, Key: key, Source: "orders", Position: fmt.Sprint(n),
		Headers: message.Headers{{Name: message.Key, Value: key}}, Payload: payload,
		Reason: "attempts_exhausted", Attempts: 3, First: begun.Add(-time.Minute), Last: begun.Add(-time.Second),
	}
}

// put puts letters of a group away, one each millisecond, and returns their IDs.
func (b *bench) put(group string, n int, change ...func(int, *deadletter.Letter)) (ids []deadletter.ID) {
	b.Helper()
	for i := range n {
		l := letter(group, i)
		for _, f := range change {
			f(i, &l)
		}
		b.ok(b.Put(b.Context(), l))
		ids = append(ids, l.ID)
		b.pass(time.Millisecond)
	}
	return ids
}

func (b *bench) get(id deadletter.ID) deadletter.Letter {
	b.Helper()
	l, err := b.Get(b.Context(), id)
	b.ok(err)
	return l
}

func (b *bench) wantState(id deadletter.ID, want deadletter.State) {
	b.Helper()
	if l := b.get(id); l.State != want {
		b.Errorf("the letter is %s, want %s", l.State, want)
	}
}

// all returns the IDs that a query picks, through all pages.
func (b *bench) all(q deadletter.Query, limit int) (ids []deadletter.ID) {
	b.Helper()
	for from := ""; ; {
		p, err := b.List(b.Context(), q, from, limit)
		b.ok(err)
		for _, l := range p.Letters {
			ids = append(ids, l.ID)
		}
		if from = p.Next; from == "" {
			return ids
		}
	}
}

func (b *bench) wantAll(q deadletter.Query, want ...deadletter.ID) {
	b.Helper()
	for _, limit := range []int{0, 1} {
		if got := b.all(q, limit); !slices.Equal(got, want) {
			b.Errorf("%+v, %d a page: %v, want %v", q, limit, got, want)
		}
	}
}

// order orders all that wait in a group.
func (b *bench) order(group string, rate float64) deadletter.Drive {
	b.Helper()
	d, err := b.Order(b.Context(), deadletter.Query{Group: group}, deadletter.Drive{Rate: rate, By: "ann"})
	b.ok(err)
	return d
}

func (b *bench) take(group string, n int) ([]deadletter.Lease, time.Duration) {
	b.Helper()
	taken, again, err := b.Take(b.Context(), group, n, time.Minute)
	b.ok(err)
	return taken, again
}

func ids(taken []deadletter.Lease) (all []deadletter.ID) {
	for _, l := range taken {
		all = append(all, l.ID)
	}
	return all
}

func (b *bench) wantTaken(taken []deadletter.Lease, want ...deadletter.ID) {
	b.Helper()
	if got := ids(taken); !slices.Equal(got, want) {
		b.Errorf("took %v, want %v", got, want)
	}
}

// ended wants that nothing is left to be taken, which is when a redrive ends.
func (b *bench) ended(group string) {
	b.Helper()
	b.pass(time.Second)
	none, again := b.take(group, 1)
	b.wantTaken(none)
	b.same("again", again, time.Duration(0))
}

// drive returns a redrive of that ID.
func (b *bench) drive(id string) deadletter.Drive {
	b.Helper()
	all, err := b.Drives(b.Context(), "")
	b.ok(err)
	for _, d := range all {
		if d.ID == id {
			return d
		}
	}
	b.Fatalf("there is no redrive %s", id)
	return deadletter.Drive{}
}

func (b *bench) wantDrive(id string, want deadletter.Drive) {
	b.Helper()
	got := b.drive(id)
	want.ID, want.Group, want.Rate, want.By, want.Made, want.Why = id, got.Group, got.Rate, got.By, got.Made, got.Why
	if got != want {
		b.Errorf("redrive %+v, want %+v", got, want)
	}
}

func (b *bench) stats(group string) deadletter.Stats {
	b.Helper()
	s, err := b.Stats(b.Context(), group)
	b.ok(err)
	for state, n := range s.ByState {
		if n == 0 {
			delete(s.ByState, state)
		}
	}
	for reason, n := range s.ByReason {
		if n == 0 {
			delete(s.ByReason, reason)
		}
	}
	return s
}

// same compares two values that have no times with monotonic clocks.
func (b *bench) same(what string, got, want any) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Errorf("%s: %#v, want %#v", what, got, want)
	}
}

func failed(why string) deadletter.Verdict {
	return deadletter.Verdict{State: deadletter.Waiting, Reason: "failed", Failure: &deadletter.Failure{At: begun, Class: "transient", Message: why}}
}

var done = deadletter.Verdict{State: deadletter.Done}
