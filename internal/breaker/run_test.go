package breaker

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Where most calls fail, twenty failures in a row are chance.
func TestARunThatIsUsualIsNoOutage(t *testing.T) {
	const s = clock.Instant(time.Second)
	rules := func() *Rules {
		return &Rules{Window: 10 * time.Second, Consecutive: 20, ConsecutiveFor: 5 * time.Second, Open: time.Minute, Probes: 1}
	}
	anyRun, ofCalls := rules(), rules()
	anyRun.ConsecutiveFor, ofCalls.WindowCalls = 0, 1000
	failures := func(n int) (rs []Result) {
		for range n {
			rs = append(rs, Bad)
		}
		return rs
	}
	runs := func(lengths ...int) (rs []Result) {
		for _, n := range lengths {
			rs = append(append(rs, failures(n)...), Good)
		}
		return rs
	}
	healthy := func(n int) (rs []Result) { return make([]Result, n) }
	for _, c := range []struct {
		fact   string
		r      *Rules
		before []Result
		want   int // failures in a row, one in half a second, that open it
	}{
		{"twenty in a row are an outage", rules(), nil, 20},
		{"after health, too", rules(), healthy(50), 20},
		{"short runs before change nothing", rules(), runs(6, 6, 5), 20},
		{"three times as many as the longest run before", rules(), runs(6, 9, 8), 27},
		{"but no more than four times the twenty", rules(), runs(19, 40), 80},
		{"once most calls succeed, runs are forgotten", rules(), append(append(runs(9, 19), healthy(25)...), Bad, Good), 20},
		{"a rule without a time counts to twenty", anyRun, runs(9, 19), 20},
		{"and so does a window of calls", ofCalls, runs(9, 19), 20},
	} {
		var log changes
		b, now := New(c.r, 1, 0, &log), clock.Instant(0)
		settle := func(v Result) {
			p, _, _ := b.Acquire(now, 0)
			b.Settle(now, 0, p, v, 0)
			now += s / 2
		}
		for _, v := range c.before {
			settle(v)
		}
		n, shown := 0, Snapshot{}
		for ; b.State() == Closed && n < 200; n++ {
			shown = b.Snapshot(now)
			settle(Bad)
		}
		if n != c.want || len(log) != 1 || log[0].InRow != n || shown.Run != n-1 || shown.RunOpens != n {
			t.Errorf("%s: it opened after %d, want %d: said before %+v, and then %+v", c.fact, n, c.want, shown, log)
		}
	}
}

func TestAResetForgetsRuns(t *testing.T) {
	b, now := New(&Rules{Window: time.Second, Consecutive: 3, ConsecutiveFor: 1, Open: time.Hour}, 1, 0, nil), clock.Instant(1)
	for range 3 {
		p, _, _ := b.Acquire(now, 0)
		now += 1000
		b.Settle(now, 0, p, Bad, 0)
	}
	b.By("").Reset(now)
	if got := b.longest.Load(); got != 0 {
		t.Errorf("the longest run is %d after a reset", got)
	}
}

// Where calls are rarer than the window is long, it holds no success that would say that the outage is over.
func TestRareCallsForgetAnOutage(t *testing.T) {
	r := &Rules{Window: 10 * time.Second, Consecutive: 20, ConsecutiveFor: 10 * time.Second, Open: time.Second, Probes: 1}
	b, now := New(r, 1, 0, nil), clock.Instant(0)
	settle := func(v Result) {
		p, _, _ := b.Acquire(now, 0)
		b.Settle(now, 0, p, v, 0)
		now = now.Add(20 * time.Second)
	}
	for outage := range 3 {
		n := 0
		for ; b.State() == Closed && n < 200; n++ {
			settle(Bad)
		}
		if n != 20 {
			t.Errorf("outage %d: it opened after %d, want 20", outage+1, n)
		}
		for range 1000 {
			settle(Good)
		}
	}
}

func TestRulesThatCountNoRunForgetRuns(t *testing.T) {
	r := &Rules{Window: time.Second, Consecutive: 3, ConsecutiveFor: 1, Open: time.Hour}
	b, now := New(r, 1, 0, nil), clock.Instant(1)
	for _, v := range []Result{Bad, Bad, Good} {
		p, _, _ := b.Acquire(now, 0)
		now += 1000
		b.Settle(now, 0, p, v, 0)
	}
	if got := b.longest.Load(); got != 2 {
		t.Fatalf("the longest run is %d, want 2", got)
	}
	b.SetRules(now, &Rules{Window: time.Second, Open: time.Hour})
	b.SetRules(now, r)
	if got := b.longest.Load(); got != 0 {
		t.Errorf("the longest run is %d after rules that counted none", got)
	}
}
