package bulkhead_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/chance"
)

// A wake-up that gets lost leaves a goroutine asleep for ever. In a synctest
// bubble that is a deadlock, found at once and without a clock.
//
// A resize repairs lost wake-ups, since it hands over what is free; so half of the runs
// have none. Waiters that give up hide lost wake-ups as timeouts; so in half of the runs
// all wait for ever.
func TestNoWakeUpIsLostAndTheLimitHolds(t *testing.T) {
	for i := range 16 {
		c := crew{fair: i&1 != 0, resizing: i&2 != 0, leaving: i&4 != 0}
		if i&8 == 0 {
			c.slots, c.workers = 2, 8
		} else {
			c.slots, c.workers, c.switching = 8, 16, true
		}
		t.Run(fmt.Sprintf("slots=%d fair=%v resizing=%v leaving=%v", c.slots, c.fair, c.resizing, c.leaving), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.stress(t) })
		})
	}
}

const workers = 8

// crew is what the workers of one run share.
type crew struct {
	slots, workers                     int
	fair, resizing, leaving, switching bool

	b       *bulkhead.Bulkhead
	inUse   atomic.Int32
	most    atomic.Int32
	through atomic.Int32
}

func (c *crew) stress(t *testing.T) {
	calls := 1500
	if testing.Short() {
		calls = 500
	}
	c.b = bulkhead.New(c.slots, c.workers, c.fair)
	var work, others sync.WaitGroup
	var done atomic.Bool
	for n := range c.workers {
		work.Go(func() { c.work(uint64(n), calls) })
	}
	if c.resizing {
		others.Go(func() { c.resize(&done) })
	}
	work.Wait()
	done.Store(true)
	others.Wait()
	if most := c.most.Load(); int(most) > c.slots {
		t.Errorf("%d in use at once, limit %d", most, c.slots)
	}
	if !c.leaving && c.through.Load() != int32(c.workers*calls) {
		t.Errorf("%d of %d came through", c.through.Load(), c.workers*calls)
	}
	if s := c.b.Stats(); s.InUse != 0 || s.Queued != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// resize moves between one slot and all; it ends with all. In half of the runs it
// switches fairness, too.
func (c *crew) resize(done *atomic.Bool) {
	for i := 0; !done.Load(); i++ {
		c.b.Resize(1+i%c.slots, c.workers)
		if c.switching && i%3 == 0 {
			c.b.SetFair(i%2 == 0)
			c.b.SetFair(c.fair)
		}
		for range i % 50 {
			runtime.Gosched()
		}
	}
	c.b.Resize(c.slots, c.workers)
}

func (c *crew) work(n uint64, calls int) {
	bell := make(door, 1)
	tenant := string(rune('a' + n%3))
	for i := range uint64(calls) {
		x := chance.Bits(n, i, 0, chance.Backoff)
		slot, ok := c.b.TryAcquire(tenant, 0)
		if !ok {
			slot, ok = c.queue(bell, tenant, x)
		}
		if ok {
			c.use(x)
			c.b.Release(slot, 0)
		}
	}
}

func (c *crew) queue(bell door, tenant string, x uint64) (bulkhead.Slot, bool) {
	w, ok := c.b.Join(bell, bulkhead.Priority(x%3)-1, tenant)
	if !ok {
		panic("the queue has room for all workers")
	}
	if c.leaving && x>>8%2 == 0 {
		runtime.Gosched()
		return c.b.Leave(w)
	}
	for {
		switch slot, answer := c.b.Granted(w); answer {
		case bulkhead.Granted:
			return slot, true
		case bulkhead.Waiting:
			<-bell
		default:
			panic("pushed out of a queue that is never full")
		}
	}
}

// use holds a slot, and counts how many others do.
func (c *crew) use(x uint64) {
	now := c.inUse.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); {
		most = c.most.Load()
	}
	if x>>16%4 == 0 {
		runtime.Gosched()
	}
	c.through.Add(1)
	c.inUse.Add(-1)
}

// In a fair queue that is always full everybody pushes everybody out, while
// fairness goes on and off: nothing hangs, nothing is lost.
func TestPushingOutAndSwitchingUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New(1, 2, true)
		var work sync.WaitGroup
		var through, out atomic.Int32
		for n := range workers {
			work.Go(func() {
				bell := make(door, 1)
				for i := range 3000 {
					if n == 0 && i%16 == 0 {
						b.SetFair(i%32 == 0)
					}
					if call(b, bell, string(rune('a'+n%4))) {
						through.Add(1)
					} else {
						out.Add(1)
					}
				}
			})
		}
		work.Wait()
		if s := b.Stats(); s.InUse != 0 || s.Queued != 0 || through.Load() == 0 {
			t.Errorf("left behind: %+v; %d through, %d refused", s, through.Load(), out.Load())
		}
	})
}

func call(b *bulkhead.Bulkhead, bell door, tenant string) bool {
	w, ok := b.Join(bell, bulkhead.Normal, tenant)
	if !ok {
		runtime.Gosched()
		return false
	}
	for {
		switch slot, answer := b.Granted(w); answer {
		case bulkhead.Granted:
			runtime.Gosched()
			b.Release(slot, 0)
			return true
		case bulkhead.Waiting:
			<-bell
		default:
			return false
		}
	}
}

// As many calls as there are slots try at once. So one is free whenever one tries, and
// none is refused.
func TestNobodyIsRefusedWhileASlotIsFree(t *testing.T) {
	b := bulkhead.New(workers, 0, false)
	var work sync.WaitGroup
	for n := range uint64(workers) {
		work.Go(func() {
			for i := range uint64(5000) {
				s, ok := b.TryAcquire("", 0)
				if !ok {
					t.Error("refused")
					return
				}
				if chance.Bits(n, i, 0, chance.Backoff)%4 == 0 {
					runtime.Gosched()
				}
				b.Release(s, 0)
			}
		})
	}
	work.Wait()
	if s := b.Stats(); s.InUse != 0 {
		t.Errorf("left behind: %+v", s)
	}
}
