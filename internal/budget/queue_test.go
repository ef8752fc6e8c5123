package budget

import (
	"runtime"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// answers are successes a third of a second apart, all of which took so long.
func answers(e *Earned, r *EarnedRules, now *clock.Instant, n int, took time.Duration) {
	for range n {
		*now = now.Add(300 * time.Millisecond)
		if _, first := e.Earn(*now, 0, r); first {
			e.Took(took)
		}
	}
}

func TestAnswersWaitInAQueueWhenEightInARowAreLate(t *testing.T) {
	r := NewEarnedRules(1, time.Second, 1, 1)
	const usual, late = 20 * time.Millisecond, 100 * time.Millisecond
	for _, c := range []struct {
		fact   string
		happen func(e *Earned, now *clock.Instant)
		queued bool
	}{
		{"eight in a row are late", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 8, late)
		}, true},
		{"seven do not tell", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 7, late)
		}, false},
		{"one in the usual time shows that none waits", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 20, late)
			answers(e, &r, now, 1, usual)
		}, false},
		{"three times as long is not late", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 20, 3*usual)
		}, false},
		{"after a window without an answer it is not known", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 20, late)
			*now = now.Add(time.Second)
		}, false},
		{"a process that starts in a queue does not know what is usual", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 30, late)
		}, false},
		{"one late answer after such a window goes on with the row", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 20, late)
			*now = now.Add(time.Second)
			answers(e, &r, now, 1, late)
		}, true},
		{"one after six says nothing", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, usual)
			answers(e, &r, now, 20, late)
			*now = now.Add(6 * time.Second)
			answers(e, &r, now, 1, late)
		}, false},
		{"a service of less than a microsecond that became a slower one is usual some time", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 50, 0)
			answers(e, &r, now, 20_000, late)
		}, false},
		{"after a minute it is still a queue", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 2000, usual)
			answers(e, &r, now, 200, late)
		}, true},
		{"after ten minutes the longer time is usual", func(e *Earned, now *clock.Instant) {
			answers(e, &r, now, 2000, usual)
			answers(e, &r, now, 2000, late)
		}, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			e, now := MakeEarned(r, 1), clock.Instant(0)
			c.happen(&e, &now)
			if got := e.Queued(now, &r); got != c.queued {
				t.Errorf("queued %v; usually %d µs, %d late in a row", got, e.pace.usual, e.pace.late)
			}
		})
	}
}

// The reserve stays: it is of no success.
func TestNothingIsEarnedWhileAnswersWaitInAQueue(t *testing.T) {
	r := NewEarnedRules(1, time.Second, 1, 1)
	e, now := MakeEarned(r, 1), clock.Instant(0)
	answers(&e, &r, &now, 50, 20*time.Millisecond)
	if level := e.Level(now, &r); level < 2*million {
		t.Fatalf("%d before", level)
	}
	answers(&e, &r, &now, 8, time.Second)
	if level := e.Level(now, &r); level != million {
		t.Errorf("%d in a queue, and not the reserve", level)
	}
	if ok, _ := e.TryWithdraw(now, &r, 0); !ok {
		t.Fatal("the reserve is not granted")
	}
	e.End(true, true)
	answers(&e, &r, &now, 4, time.Second)
	if level := e.Level(now, &r); level != 0 {
		t.Errorf("a re-send that succeeded in a queue gave back %d", level)
	}
	if e.Borrow(now, &r); e.Level(now, &r) != 0 {
		t.Error("one was borrowed in a queue")
	}
	answers(&e, &r, &now, 1, 20*time.Millisecond)
	if level := e.Level(now, &r); level != million {
		t.Errorf("%d when the queue is gone: what was answered in it does not count", level)
	}
}

// Eight answers that come at the same moment are one look.
func TestOneAnswerAQuarterOfTheWindowIsLookedAt(t *testing.T) {
	r := NewEarnedRules(1, time.Second, 1, 1)
	e := MakeEarned(r, 1)
	e.mu.Lock() // so that all of them are on their way to the mark
	firsts, comes := make(chan bool), make(chan bool)
	for range 8 {
		go func() {
			comes <- true
			_, first := e.Earn(1, 0, &r)
			firsts <- first
		}()
	}
	for range 8 {
		<-comes
	}
	for range 10_000 {
		runtime.Gosched()
	}
	e.mu.Unlock()
	n := 0
	for range 8 {
		if <-firsts {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d were the first", n)
	}
}

// After a long time without an answer a re-send that succeeds gives back what it has cost: its own success is the first news.
func TestAReSendAfterAnIdleTimeGivesBack(t *testing.T) {
	r := NewEarnedRules(0, time.Second, 2, 2)
	e, now := MakeEarned(r, 1), clock.Instant(0)
	answers(&e, &r, &now, 50, 20*time.Millisecond)
	answers(&e, &r, &now, 8, time.Second)
	now = now.Add(time.Minute)
	if ok := e.TryWithdrawWhole(now, &r); !ok || e.Queued(now, &r) {
		t.Fatal("it is not granted")
	}
	e.Earn(now, 0, &r)
	e.End(true, true)
	if level := e.Level(now, &r); level != 5*million/2 {
		t.Errorf("%d is there", level)
	}
}
