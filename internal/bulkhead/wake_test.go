package bulkhead_test

// bell counts how often it was rung. Only for tests in one goroutine.
type bell struct{ rung int }

func (b *bell) Wake() { b.rung++ }

// door is the Waker of a goroutine that sleeps: room for one, never blocks.
type door chan struct{}

func (d door) Wake() {
	select {
	case d <- struct{}{}:
	default:
	}
}
