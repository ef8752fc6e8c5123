package deadlettertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

var handleCases = []oneCase{
	{"two handles see the same letters", deadletter.Options{}, twoHandles},
	{"many that take at once have each letter once", deadletter.Options{}, takers},
	{"many that put the same letters away have each once", deadletter.Options{}, putters},
	{"many that fail a message at once lose no failure", deadletter.Options{}, failers},
	{"every letter that goes in comes out once while all is done at once", deadletter.Options{}, everything},
}

func twoHandles(b *bench) {
	other := b.other()
	ids := b.put("g", 2)
	l, err := other.Get(b.Context(), ids[0])
	b.ok(err)
	b.same("by the other", fields(l), fields(b.get(ids[0])))
	d, err := other.Order(b.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1})
	b.ok(err)
	taken, _ := b.take("g", 5)
	b.wantTaken(taken, ids[0])
	none, _, err := other.Take(b.Context(), "g", 5, time.Minute)
	b.ok(err)
	b.wantTaken(none) // the rate is that of both
	b.ok(other.Settle(b.Context(), taken[0], done))
	b.wantState(ids[0], deadletter.Done)
	b.ok(other.Stop(b.Context(), d.ID, "", ""))
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Stopped, Total: 2, Done: 1})
}

// both returns the store and another handle on it if there can be one.
func (b *bench) both() []deadletter.Store {
	if b.handles == nil {
		b.handles = []deadletter.Store{b.Store}
		if b.again != nil {
			b.handles = append(b.handles, b.again(b.T))
		}
	}
	return b.handles
}

// at runs f at once in each of several goroutines for each handle.
func (b *bench) at(each int, f func(n int, s deadletter.Store)) {
	var all sync.WaitGroup
	for i, s := range b.both() {
		for n := range each {
			all.Go(func() { f(i*each+n, s) })
		}
	}
	all.Wait()
}

func takers(b *bench) {
	const n = 48
	b.put("g", n, func(n int, l *deadletter.Letter) { l.Order = []string{"", "a", "b"}[n%3] })
	d := b.order("g", 1e6)
	b.pass(time.Second)
	var mu sync.Mutex
	seen := map[deadletter.ID]int{}
	busy := map[string]deadletter.ID{}
	takeAll := func(s deadletter.Store) {
		for !b.Failed() {
			taken, _, err := s.Take(b.Context(), "g", 3, time.Minute)
			if err != nil {
				b.Error(err)
			}
			if len(taken) == 0 {
				return // nothing is left, or the rest waits for others of its order
			}
			for _, l := range taken {
				mu.Lock()
				if seen[l.ID]++; l.Order != "" && busy[l.Order] != "" {
					b.Errorf("%s and %s of one order at once", busy[l.Order], l.ID)
				}
				busy[l.Order] = l.ID
				mu.Unlock()
			}
			for _, l := range taken {
				mu.Lock()
				delete(busy, l.Order)
				mu.Unlock()
				if err := s.Settle(b.Context(), l, done); err != nil {
					b.Error(err)
				}
			}
		}
	}
	b.at(4, func(_ int, s deadletter.Store) { takeAll(s) })
	for _, s := range b.both() { // one of them paces
		takeAll(s)
	}
	for id, times := range seen {
		if times != 1 {
			b.Errorf("%s was taken %d times", id, times)
		}
	}
	if len(seen) != n {
		b.Errorf("%d letters were taken, want %d", len(seen), n)
	}
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: n, Done: n})
}

func putters(b *bench) {
	const n = 15
	b.at(4, func(_ int, s deadletter.Store) {
		for i := range n {
			if err := s.Put(b.Context(), letter("g", i)); err != nil {
				b.Error(err)
			}
		}
	})
	if s := b.stats("g"); s.Put != n || s.Letters != n || len(b.all(deadletter.Query{}, 7)) != n {
		b.Errorf("%+v", s)
	}
}

func failers(b *bench) {
	l := letter("g", 1)
	const each = 4
	b.at(each, func(n int, s deadletter.Store) {
		if err := s.Fail(b.Context(), l.ID, deadletter.Failure{At: begun.Add(time.Duration(n) * time.Second), Message: fmt.Sprint(n)}); err != nil {
			b.Error(err)
		}
	})
	b.ok(b.Put(b.Context(), l))
	if got := len(b.get(l.ID).Failures); got != each*len(b.both()) {
		b.Errorf("%d failures", got)
	}
}

// A whole is everything at once: in the end each letter is done once or dropped.
type whole struct {
	*bench
	total   int
	putting atomic.Int64
	mu      sync.Mutex
	out     map[deadletter.ID]int // how often it came out
}

func everything(b *bench) {
	const each, workers = 10, 2
	x := &whole{bench: b, total: each * workers * len(b.both()), out: map[deadletter.ID]int{}}
	x.putting.Store(int64(workers * len(b.both())))
	b.at(workers, func(w int, s deadletter.Store) {
		for i := range each {
			x.putOne(s, w*each+i)
		}
		x.putting.Add(-1)
		for round := range 20 {
			x.work(s, w == 0, round)
		}
	})
	for round := 0; len(x.out) < x.total && round < 1000 && !b.Failed(); round++ {
		x.work(b.both()[round%len(b.both())], true, round/2)
	}
	for id, n := range x.out {
		if n != 1 {
			b.Errorf("%s came out %d times", id, n)
		}
	}
	if s := b.stats("g"); len(x.out) != x.total || s.Letters != 0 || s.ByState[deadletter.Done]+s.ByState[deadletter.Dropped] != x.total {
		b.Errorf("%d of %d came out, %+v", len(x.out), x.total, s)
	}
}

func (x *whole) came(id deadletter.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.out[id]++
}

// putOne puts a letter away, and drops one in five.
func (x *whole) putOne(s deadletter.Store, n int) {
	l := letter("g", n)
	l.Order = []string{"", "x"}[n%2]
	if err := s.Put(x.Context(), l); err != nil {
		x.Error(err)
	}
	if n%5 != 0 {
		return
	}
	if err := s.Drop(x.Context(), l.ID, "", ""); err == nil {
		x.came(l.ID)
	} else if !errors.Is(err, deadletter.ErrState) {
		x.Error(err)
	}
}

// work is one round: an order now and then, and some letters taken and settled.
func (x *whole) work(s deadletter.Store, orders bool, round int) {
	x.pass(10 * time.Millisecond)
	if orders && x.putting.Load() == 0 {
		d, err := s.Order(x.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1e6})
		if err == nil && round%4 == 3 {
			err = s.Stop(x.Context(), d.ID, "", "")
		}
		if err == nil {
			_, err = s.Sweep(x.Context())
		}
		if err != nil && !errors.Is(err, deadletter.ErrBusy) {
			x.Error(err)
		}
	}
	taken, _, err := s.Take(x.Context(), "g", 5, time.Hour)
	if err != nil {
		x.Error(err)
	}
	for n, l := range taken {
		v := done
		if n == 4 {
			v = failed("no")
		}
		if err := s.Settle(x.Context(), l, v); err != nil {
			x.Error(err)
		} else if v.State == deadletter.Done {
			x.came(l.ID)
		}
	}
}
