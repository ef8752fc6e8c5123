package gabion

import (
	"context"
	"errors"
	"testing"
)

// An attempt can end while somebody on another goroutine is just arming its context:
// whoever looks in between, after the end, sees that it has ended.
func TestAContextArmedWhileItEndedHasEnded(t *testing.T) {
	a := &attemptContext{Context: t.Context()}
	a.inner.Context, a.inner.cancel = context.WithCancel(t.Context())
	a.marks.Store(arming | ended | ticking) // and cancel comes next
	if err := a.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	select {
	case <-a.Done():
	default:
		t.Error("who waits for its end waits on")
	}
}
