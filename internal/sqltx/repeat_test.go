package sqltx

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestRepeat(t *testing.T) {
	conflict, no := stateErr("40001"), errors.New("no")
	for _, c := range []struct {
		name  string
		errs  []error // of the tries
		limit time.Duration
		tries int
		err   error
		most  time.Duration // of the waits
	}{
		{"a success is not repeated", []error{nil}, time.Hour, 1, nil, 0},
		{"a conflict is repeated after a wait", []error{conflict, nil}, time.Hour, 2, nil, 10 * time.Millisecond},
		{"three times at most", []error{conflict, conflict, conflict}, time.Hour, 3, conflict, 30 * time.Millisecond},
		{"another error is not repeated", []error{no}, time.Hour, 1, no, 0},
		{"nor one after a conflict", []error{conflict, no}, time.Hour, 2, no, 10 * time.Millisecond},
		{"no wait that the caller does not outlast begins", []error{conflict}, time.Nanosecond, 1, conflict, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 { // waits are drawn
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), c.limit)
					defer cancel()
					n, begun := 0, time.Now()
					err := Repeat(ctx, Contended, func(last bool) error {
						n++
						if last != (n == Tries) {
							t.Errorf("try %d: last %v", n, last)
						}
						return c.errs[n-1]
					})
					if took := time.Since(begun); n != c.tries || err != c.err || took > c.most {
						t.Errorf("%d tries, %v, in %v", n, err, took)
					}
				})
			}
		})
	}
}

func TestRepeatsAreSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum time.Duration
		for range 1000 {
			begun := time.Now()
			Repeat(t.Context(), Contended, func(bool) error { return stateErr("40P01") })
			sum += time.Since(begun)
		}
		if mean := sum / 1000; mean < 10*time.Millisecond || mean > 20*time.Millisecond { // of 5 and 10 ms
			t.Errorf("%v", mean)
		}
	})
}

func TestWhoIsGoneWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		err := Repeat(ctx, Contended, func(bool) error { n++; return stateErr("40001") })
		if n != 1 || Conflict(err) == false {
			t.Errorf("%d tries, %v", n, err)
		}
	})
}

func TestStatementsAreRepeatedUntilThereIsNoConflict(t *testing.T) {
	for _, c := range []struct {
		err   error
		tries int
	}{
		{stateErr("40001"), 32},
		{stateErr("55P03"), 1},
		{errors.New("no"), 1},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			n := 0
			if err := UntilNoConflict(func() error { n++; return c.err }); err != c.err || n != c.tries {
				t.Errorf("%d tries, %v", n, err)
			}
		})
	}
}
