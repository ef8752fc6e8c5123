package gabion

import (
	"context"
	"errors"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

// An attempt can end while another goroutine is just arming its context: after the end, a third one
// that looks in between sees that it has ended.
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

// A result of a part may never be closed, as the body of an answer that is repeated. An
// instance that counted it would never be forgotten, and a note of it never deleted.
func TestAPartThatIsNeverClosedLeavesNothing(t *testing.T) {
	d := New("bank", policy.Policy{})
	d.tracked = true
	for range 3 {
		_ = d.Run(t.Context(), func(ctx context.Context) error {
			_, _, err := Open(ctx, d, func(context.Context) (int, error) { return 1, nil })
			return err
		})
	}
	if n := d.out.Load(); n != 0 {
		t.Errorf("%d calls are out", n)
	}
	d.notes.Range(func(any, any) bool { t.Error("a note is left"); return false })
	left := make(chan context.Context, 1)
	_ = d.Run(t.Context(), func(ctx context.Context) error { left <- ctx; return nil })
	at := attemptOf(<-left)
	at.note(&policy.Outcome{Class: policy.ClassNetwork}, false) // by a part that comes late
	d.notes.Range(func(any, any) bool { t.Error("a note of an attempt that has ended is left"); return false })
}
