package budget

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// usual are rules with round numbers: five successes earn a re-send, one is kept.
var usual = NewEarnedRules(0.2, time.Second, 1, 1)

// earn counts n successes, evenly over a time that ends at now.
func earn(e *Earned, now clock.Instant, n int, over time.Duration) {
	for i := range n {
		e.Earn(now.Add(-over*time.Duration(n-1-i)/time.Duration(max(n, 1))), 0, &usual)
	}
}

// won sends n again that succeed, at once.
func won(e *Earned, n int) {
	for range n {
		e.TryWithdraw(0, &usual, 0)
		e.End(true, true)
	}
}

// drain withdraws until nothing is granted, without luck, and returns how often
// something was.
func drain(e *Earned, now clock.Instant, r *EarnedRules) (n int) {
	for {
		if ok, _ := e.TryWithdraw(now, r, 0.999999); !ok {
			return n
		}
		n++
	}
}

func TestEarned(t *testing.T) {
	const s = clock.Instant(time.Second)
	for _, c := range []struct {
		fact string
		do   func(e *Earned) clock.Instant // returns when it is drained
		want int
	}{
		{"a new budget holds its start", func(*Earned) clock.Instant { return 0 }, 1},
		{"time earns nothing", func(e *Earned) clock.Instant { drain(e, 0, &usual); return 3600 * s }, 0},
		{"five successes earn one", func(e *Earned) clock.Instant { drain(e, 0, &usual); earn(e, s, 5, 0); return s }, 1},
		{"four do not", func(e *Earned) clock.Instant { drain(e, 0, &usual); earn(e, s, 4, 0); return s }, 0},
		{"a busy second is kept", func(e *Earned) clock.Instant { earn(e, s, 100, time.Second/2); return s }, 20},
		{"of a busy hour no more than its last second", func(e *Earned) clock.Instant {
			earn(e, 3600*s, 3600*100, 3600*time.Second)
			return 3600 * s
		}, 16}, // its last three quarters, at least
		{"two seconds later the reserve is left of it", func(e *Earned) clock.Instant { earn(e, s, 100, 0); return 3 * s }, 1},
		{"an idle year later too", func(e *Earned) clock.Instant { earn(e, s, 100, 0); return 365 * 86400 * s }, 1},
		{"one success an hour fills the reserve", func(e *Earned) clock.Instant {
			drain(e, 0, &usual)
			earn(e, 5*3600*s, 5, 5*3600*time.Second)
			return 5 * 3600 * s
		}, 1},
		{"what was made unasked is owed", func(e *Earned) clock.Instant {
			for range 3 {
				e.Charge(0, &usual)
			}
			earn(e, s, 10, 0) // pays the two that were not there
			return s
		}, 0},
		{"debts are bounded", func(e *Earned) clock.Instant {
			for range 1000 {
				e.Charge(0, &usual)
			}
			earn(e, s, 5*(maxDebt+2), 0)
			return s
		}, 2},
		{"a refund is there again", func(e *Earned) clock.Instant {
			e.TryWithdraw(0, &usual, 0)
			e.Refund()
			return 0
		}, 1},
		{"a re-send that succeeds gives back what it has cost", func(e *Earned) clock.Instant { won(e, 1); return 0 }, 1},
		{"and one more is kept from then on", func(e *Earned) clock.Instant {
			won(e, 1)
			earn(e, s, 10, 0)
			return 60 * s
		}, 1}, // and 95 % of another, which the draw loses
		{"no more is given back than is proven", func(e *Earned) clock.Instant {
			e.End(true, true)
			e.End(true, true)
			e.End(false, true)
			return 0
		}, 2},
		{"four are proven at most", func(e *Earned) clock.Instant { won(e, 20); earn(e, s, 40, 0); won(e, 20); return 60 * s }, 5},
		{"a re-send that fails takes one away", func(e *Earned) clock.Instant {
			won(e, 20)
			earn(e, s, 40, 0)
			won(e, 20)
			e.End(false, true)
			return 60 * s
		}, 4},
		{"two hundred successes take one away", func(e *Earned) clock.Instant {
			won(e, 20)
			earn(e, s, 200, 0)
			return 60 * s
		}, 4},
		{"one that took another's turn gives back nothing", func(e *Earned) clock.Instant {
			drain(e, 0, &usual)
			e.End(true, false)
			return s
		}, 0},
		{"one may be borrowed", func(e *Earned) clock.Instant {
			drain(e, 0, &usual)
			if !e.Borrow(0, &usual) || e.Borrow(0, &usual) {
				panic("not one was borrowed")
			}
			earn(e, s, 10, 0) // pays that one
			return s
		}, 1},
		{"time that goes backward is the newest seen", func(e *Earned) clock.Instant {
			earn(e, 10*s, 10, 0)
			earn(e, 2*s, 10, 0)
			return 10 * s
		}, 4},
	} {
		t.Run(c.fact, func(t *testing.T) {
			e := MakeEarned(usual, 1)
			now := c.do(&e)
			if got := drain(&e, now, &usual); got != c.want {
				t.Errorf("%d re-sends, want %d", got, c.want)
			}
		})
	}
}

// Part of a re-send is granted with its probability, and all of the part is taken.
func TestPartOfAReSendIsAChance(t *testing.T) {
	for _, c := range []struct {
		u    float64
		want bool
	}{{0, true}, {0.39, true}, {0.41, false}, {0.99, false}} {
		e := MakeEarned(NewEarnedRules(0.2, time.Second, 1, 0.4), 1)
		if got, _ := e.TryWithdraw(0, &usual, c.u); got != c.want {
			t.Errorf("of 0.4 with a draw of %v: %v", c.u, got)
		}
		if left := e.Level(0, &usual); left != 0 {
			t.Errorf("after a draw of %v there are %d millionths", c.u, left)
		}
	}
	granted := 0
	for i := range 10_000 {
		e := MakeEarned(NewEarnedRules(0.2, time.Second, 1, 0.4), 1)
		if ok, _ := e.TryWithdraw(0, &usual, (float64(i)+0.5)/10_000); ok {
			granted++
		}
	}
	if granted != 4000 {
		t.Errorf("a fleet of 10,000 with 0.4 each sends %d again, want 4,000", granted)
	}
}

// A dependency of which most answers are failures: each of them tries to withdraw, and
// all of these tries together send no more than was earned.
func TestManyTriesForPartsSendWhatWasEarned(t *testing.T) {
	for _, failing := range []int{10, 50, 80, 95} { // of a hundred
		for _, ratio := range []float64{0.1, 0.3, 1} {
			r := rand.New(rand.NewPCG(uint64(failing), 2))
			rules := NewEarnedRules(ratio, time.Second, 1.5, 1)
			e, successes, sent := MakeEarned(rules, 1), 0, 0
			for i := range 100_000 {
				now := clock.Instant(i) * clock.Instant(5*time.Millisecond)
				if r.IntN(100) >= failing {
					e.Earn(now, 0, &rules)
					successes++
				} else if ok, _ := e.TryWithdraw(now, &rules, r.Float64()); ok {
					sent++
				}
			}
			earned := ratio * float64(successes)
			chance := 5 * math.Sqrt(earned) // sums of draws differ from their mean by so much once in a million
			if over := float64(sent) - earned - 1; over > chance {
				t.Errorf("%d %% fail, ratio %v: %d re-sends for %d successes, which earned %.0f", failing, ratio, sent, successes, earned)
			}
			if needed := 100_000 - float64(successes); float64(sent) < min(0.99*earned, needed/2)-chance {
				t.Errorf("%d %% fail, ratio %v: only %d re-sends of %.0f that were earned", failing, ratio, sent, earned)
			}
		}
	}
}

// Callers that run at once are granted what was earned.
func TestEarnedByManyAtOnce(t *testing.T) {
	const callers, each = 8, 5000
	rules := NewEarnedRules(0.2, time.Hour, 1000, 3)
	e := MakeEarned(rules, callers)
	granted, helped := make([]int, callers), make([]int, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for k := range each {
				now := clock.Instant(k * 1000)
				e.Earn(now, uint32(i)*0x9e3779b9, &rules)
				ok, _ := e.TryWithdraw(now, &rules, r.Float64())
				switch {
				case ok && k%3 == 0:
					e.Refund()
				case ok && k%6 == 1:
					e.End(true, true)
					helped[i]++
				case ok:
					granted[i]++
					e.End(false, true)
				}
				if k%5 == 0 && e.Owe() {
					e.Settle()
				}
			}
		})
	}
	wg.Wait()
	sum, earned := 0, callers*each/5+3
	for i, n := range granted {
		sum, earned = sum+n, earned+helped[i]/2 // what helped has given back more than it cost
	}
	// Draws for parts differ from what they cost by chance: by five times the root of as
	// many once in a million.
	if math.Abs(float64(sum-earned)) > 5*math.Sqrt(float64(earned)) {
		t.Errorf("%d granted of %d earned", sum, earned)
	}
}

func TestEarnedRulesAreRounded(t *testing.T) {
	for _, c := range []struct{ got, want EarnedRules }{
		{NewEarnedRules(0.2, time.Second, 1.5, 1), EarnedRules{200_000, time.Second, 1_500_000, 1_000_000}},
		{NewEarnedRules(-1, -1, -1, -1), EarnedRules{}},
		{NewEarnedRules(math.NaN(), 0, math.NaN(), math.NaN()), EarnedRules{}},
	} {
		if c.got != c.want {
			t.Errorf("got %+v, want %+v", c.got, c.want)
		}
	}
	for _, successes := range []uint64{1 << 31, 1 << 32, 1 << 63} { // at 2^32 the product is one bit too long
		if got := worth(successes, 1<<32); got != math.MaxInt64/4 {
			t.Errorf("%d successes of 2^32 each are worth %d", successes, got)
		}
	}
}

func TestSentIsWhatWasGrantedOrChargedLessRefunds(t *testing.T) {
	rules := NewEarnedRules(0, time.Second, 3, 3)
	e := MakeEarned(rules, 1)
	for _, c := range []struct {
		fact string
		do   func()
		want int64
	}{
		{"nothing yet", func() {}, 0},
		{"granted", func() { e.TryWithdraw(0, &rules, 0.5) }, 1},
		{"charged", func() { e.Charge(0, &rules) }, 2},
		{"refunded", func() { e.Refund() }, 1},
		{"granted twice", func() { drain(&e, 0, &rules) }, 3},
		{"refused", func() { e.TryWithdraw(0, &rules, 0.5) }, 3},
		{"owed", func() { e.Charge(0, &rules) }, 4},
	} {
		c.do()
		if got := e.Sent(); got != c.want {
			t.Errorf("%s: %d, want %d", c.fact, got, c.want)
		}
	}
}

func TestEndedLooksBackFiftyReSends(t *testing.T) {
	e := MakeEarned(usual, 1)
	for i, c := range []struct {
		fact              string
		failed, succeeded int
		helped, of        int
	}{
		{"none yet", 0, 0, 0, 0},
		{"nine failed and 41 succeeded", 9, 41, 41, 50},
		{"those that succeed push out those that failed", 0, 9, 50, 50},
		{"and the other way round", 60, 0, 0, 50},
		{"one succeeded", 0, 1, 1, 50},
	} {
		for range c.failed {
			e.End(false, true)
		}
		for k := range c.succeeded {
			e.End(true, k%2 == 0)
		}
		if helped, of := e.Ended(); helped != c.helped || of != c.of {
			t.Errorf("%d, %s: %d of %d, want %d of %d", i, c.fact, helped, of, c.helped, c.of)
		}
	}
}

func TestABoundedNumberOfCallsWaitsThatHasNotPaid(t *testing.T) {
	e := MakeEarned(usual, 1)
	n := 0
	for e.Owe() {
		n++
	}
	if n != mostOwing {
		t.Errorf("%d wait, want %d", n, mostOwing)
	}
	if e.Settle(); !e.Owe() {
		t.Error("one has paid, and no other may wait")
	}
}

func TestAReserveOfNoneStaysNone(t *testing.T) {
	rules := NewEarnedRules(0.2, time.Second, 0, 0)
	e := MakeEarned(rules, 1)
	e.End(true, true)
	if got := e.Level(0, &rules); got != 0 {
		t.Errorf("%d millionths", got)
	}
}

func TestWithoutAWindowNothingIsRecent(t *testing.T) {
	rules := NewEarnedRules(0.2, 0, 1, 1)
	e := MakeEarned(rules, 1)
	e.Earn(1, 0, &rules)
	if n, rate := e.Recent(1, &rules); n != 0 || rate != 0 {
		t.Errorf("%d successes, %v a second", n, rate)
	}
}

func ExampleEarned() {
	rules := NewEarnedRules(0.2, time.Second, 1.5, 1)
	b := MakeEarned(rules, 1)
	var got []bool
	for range 2 { // the first re-send is there, the second must be earned
		ok, _ := b.TryWithdraw(0, &rules, 0.5)
		got = append(got, ok)
	}
	for range 5 {
		b.Earn(1, 0, &rules)
	}
	ok, _ := b.TryWithdraw(2, &rules, 0.5)
	fmt.Println(append(got, ok))
	// Output: [true false true]
}
