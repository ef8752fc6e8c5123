package joined

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// counting counts those who wait for its end.
type counting struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int32
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool { c.waiting.Add(-1); return true }
}

// A goroutine that the work left behind asks first when the work has ended.
func TestWhoAsksAfterTheEndLeavesNothingBehind(t *testing.T) {
	other := &counting{Context: context.Background(), done: make(chan struct{})}
	c := &Context{Context: t.Context(), Other: other, At: time.Now().Add(time.Hour)}
	c.End()
	select {
	case <-c.Done():
	default:
		t.Error("it goes on after its end")
	}
	if n := other.waiting.Load(); n != 0 {
		t.Errorf("%d wait for the other's end, and are never taken away", n)
	}
}
