package joined

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

type key string

func TestItHasTheValuesOfBothAndTheFirstDeadline(t *testing.T) {
	one, other := context.WithValue(t.Context(), key("a"), 1), context.WithValue(t.Context(), key("a"), 2)
	other = context.WithValue(other, key("b"), 3)
	at := time.Now().Add(time.Hour)
	other, cancel := context.WithDeadline(other, at.Add(time.Hour))
	defer cancel()
	c := &Context{Context: one, Other: other, At: at}
	defer c.End()
	for range 2 {
		if c.Value(key("a")) != 1 || c.Value(key("b")) != 3 || c.Value(key("c")) != nil {
			t.Error("values are not those of both")
		}
		if d, ok := c.Deadline(); !ok || !d.Equal(at) {
			t.Errorf("deadline %v", d)
		}
		c.Done() // nothing of that changes once it is armed
	}
}

var errWhy = errors.New("why")

func TestItEndsWithTheFirstThatEnds(t *testing.T) {
	for _, asked := range []bool{false, true} { // before the end comes
		for _, c := range []struct {
			name  string
			end   func(one, other context.CancelCauseFunc, c *Context)
			err   error
			cause error
		}{
			{"the first", func(one, _ context.CancelCauseFunc, _ *Context) { one(errWhy) }, context.Canceled, errWhy},
			{"the other", func(_, other context.CancelCauseFunc, _ *Context) { other(errWhy) }, context.Canceled, errWhy},
			{"its time", func(context.CancelCauseFunc, context.CancelCauseFunc, *Context) { time.Sleep(time.Hour) }, context.DeadlineExceeded, errWhy},
			{"End", func(_, _ context.CancelCauseFunc, c *Context) { c.End() }, context.Canceled, context.Canceled},
		} {
			synctest.Test(t, func(t *testing.T) {
				one, endOne := context.WithCancelCause(t.Context())
				other, endOther := context.WithCancelCause(t.Context())
				defer endOne(nil)
				defer endOther(nil)
				x := &Context{Context: one, Other: other, At: time.Now().Add(time.Minute), Cause: errWhy}
				defer x.End()
				if asked {
					select {
					case <-x.Done():
						t.Fatal("it has ended")
					default:
					}
				}
				if err := x.Err(); err != nil {
					t.Fatal(err)
				}
				c.end(endOne, endOther, x)
				synctest.Wait()
				if err, cause := x.Err(), context.Cause(x); err != c.err || cause != c.cause {
					t.Errorf("%s, asked %v: %v because of %v", c.name, asked, err, cause)
				}
				<-x.Done()
			})
		}
	}
}

func TestTheEndOfTheOthersTimeIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, cancel := context.WithTimeoutCause(t.Context(), time.Second, errWhy)
		defer cancel()
		x := &Context{Context: t.Context(), Other: other}
		defer x.End()
		<-x.Done()
		if x.Err() != context.DeadlineExceeded || context.Cause(x) != errWhy {
			t.Error(x.Err(), context.Cause(x))
		}
	})
}

func TestChildrenEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, cancel := context.WithCancelCause(t.Context())
		x := &Context{Context: t.Context(), Other: other}
		before := runtime.NumGoroutine()
		child, end := context.WithCancel(x)
		defer end()
		if n := runtime.NumGoroutine(); n != before {
			t.Errorf("a child takes %d goroutines", n-before)
		}
		cancel(errWhy)
		synctest.Wait()
		if child.Err() == nil || context.Cause(child) != errWhy {
			t.Error(child.Err(), context.Cause(child))
		}
		x.End()
	})
}

func TestWhoNeverAsksPaysNothing(t *testing.T) {
	one, other := context.Background(), context.Background()
	x := &Context{Context: one, Other: other, At: time.Now().Add(time.Hour)}
	if n := testing.AllocsPerRun(100, func() {
		if x.Err() != nil || x.Value(key("a")) != nil {
			t.Error("it has ended")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	x.End()
}
