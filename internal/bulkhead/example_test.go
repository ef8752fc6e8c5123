package bulkhead_test

import (
	"fmt"

	"github.com/gabion-go/gabion/internal/bulkhead"
)

// A driver tries, joins when there is nothing free, and sleeps until it is
// woken. Here all happens in one goroutine, so that the order can be seen.
func Example() {
	b := bulkhead.New(1, 1, false)

	first, _ := b.TryAcquire("", 0)
	if _, ok := b.TryAcquire("", 0); !ok {
		fmt.Println("no slot is free")
	}

	bell := make(door, 1)
	stay, _ := b.Join(bell, bulkhead.Normal, "")
	if _, ok := b.Join(bell, bulkhead.Normal, ""); !ok {
		fmt.Println("the queue is full")
	}

	b.Release(first, 0)
	<-bell
	second, answer := b.Granted(stay)
	fmt.Println("granted:", answer == bulkhead.Granted)
	b.Release(second, 0)
	s := b.Stats()
	fmt.Println(s.InUse, s.Queued, s.Limit, s.QueueLimit)

	// Output:
	// no slot is free
	// the queue is full
	// granted: true
	// 0 0 1 1
}

// A caller that gives up may have been given a slot in the same moment.
func ExampleBulkhead_Leave() {
	b := bulkhead.New(1, 1, false)
	held, _ := b.TryAcquire("", 0)
	stay, _ := b.Join(nil, bulkhead.Normal, "")
	b.Release(held, 0) // hands the slot to stay

	if slot, granted := b.Leave(stay); granted {
		fmt.Println("passed on")
		b.Release(slot, 0)
	}
	fmt.Println(b.Stats().InUse)

	// Output:
	// passed on
	// 0
}

// In a fair bulkhead a tenant that floods the queue delays mostly itself.
func Example_fair() {
	b := bulkhead.New(1, 2, true)
	held, _ := b.TryAcquire("loud", 0)
	b.Join(nil, bulkhead.Normal, "loud")
	loud, _ := b.Join(nil, bulkhead.Normal, "loud")
	_, ok := b.Join(nil, bulkhead.Normal, "quiet")
	_, answer := b.Granted(loud)
	fmt.Println(ok, answer == bulkhead.PushedOut)
	b.Release(held, 0)

	// Output:
	// true true
}

// Growing lets waiters start at once.
func ExampleBulkhead_Resize() {
	b := bulkhead.New(1, 1, false)
	b.TryAcquire("", 0)
	stay, _ := b.Join(nil, bulkhead.High, "")
	b.Resize(2, 1)
	_, answer := b.Granted(stay)
	fmt.Println(answer == bulkhead.Granted)

	// Output:
	// true
}
