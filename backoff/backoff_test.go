package backoff

import (
	"encoding"
	"math"
	"testing"
	"time"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// shapes builds one backoff of each kind.
func shapes(base, cap time.Duration) []Backoff {
	all := make([]Backoff, numKinds)
	for k := range all {
		all[k] = Backoff{Kind(k), base, cap}
	}
	return all
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		fact string
		b    Backoff
		n    int
		prev time.Duration
		u    float64
		want time.Duration
	}{
		{"C54 exponential starts at the base", Exp(s, 0), 0, 0, 0, 1 * s},
		{"C54 exponential doubles", Exp(s, 0), 1, s, 0, 2 * s},
		{"C54 exponential doubles again", Exp(s, 0), 2, 2 * s, 0, 4 * s},
		{"C54 linear starts at the base", lin(s, 0), 0, 0, 0, 1 * s},
		{"C54 linear adds the base", lin(s, 0), 1, s, 0, 2 * s},
		{"C54 linear adds it again", lin(s, 0), 2, 2 * s, 0, 3 * s},
		{"C54 constant stays", Const(s), 0, 0, 0, s},
		{"C54 constant still stays", Const(s), 2, s, 0.9, s},

		{"constant zero never waits", Const(0), 3, 0, 0.9, 0},
		{"C55 constant is capped", Backoff{Constant, 10 * s, s}, 0, 0, 0.5, s},
		{"C55 linear is capped", lin(10*s, s), 0, 0, 0.5, s},
		{"C55 exponential is capped", Exp(10*s, s), 0, 0, 0.5, s},
		{"C55 full draws below the cap", Full(10*s, s), 0, 0, 0.5, 500 * ms},
		{"C55 equal draws the upper half of the cap", Equal(10*s, s), 0, 0, 0.5, 750 * ms},
		{"C55 decorrelated is capped after the draw", decorrelated(10*s, s), 0, 0, 0.5, s},

		{"C57 full starts at nothing", Full(100*ms, 0), 3, 0, 0, 0},
		{"C57 full ends just below 800 ms", Full(100*ms, 0), 3, 0, math.Nextafter(1, 0), 800*ms - 1},
		{"C57 equal starts at half", Equal(100*ms, 0), 3, 0, 0, 400 * ms},
		{"C57 equal ends just below 800 ms", Equal(100*ms, 0), 3, 0, math.Nextafter(1, 0), 800*ms - 1},

		{"decorrelated begins between the base and three of it", decorrelated(100*ms, s), 0, 0, 0.5, 200 * ms},
		{"decorrelated never draws below the base", decorrelated(100*ms, s), 1, 250 * ms, 0, 100 * ms},
		{"decorrelated triples what was waited", decorrelated(100*ms, s), 1, 250 * ms, 0.5, 425 * ms},
		{"decorrelated ignores how many retries there were", decorrelated(100*ms, s), 99, 250 * ms, 0.5, 425 * ms},

		{"the zero backoff does not wait", Backoff{}, 5, s, 0.9, 0},
		{"a negative base is nothing", Exp(-s, s), 3, 0, 0.9, 0},
		{"a negative retry number is the first", Exp(s, 0), -7, 0, 0, s},
		{"an unknown shape is full jitter", Backoff{200, s, s}, 0, 0, 0.5, 500 * ms},
		{"without a cap waits saturate", Exp(s, 0), math.MaxInt32, 0, 0, math.MaxInt64},
		{"linear saturates too", lin(1000*time.Hour, -1), math.MaxInt, 0, 0, math.MaxInt64},
		{"a draw below 0 is 0", Full(s, s), 0, 0, -3, 0},
		{"a draw of 1 is the largest", Full(s, s), 0, 0, 1, s - 1},
		{"a draw that is no number is the largest", Full(s, s), 0, 0, math.NaN(), s - 1},
		{"an infinite draw is the largest", Full(s, s), 0, 0, math.Inf(1), s - 1},
		{"a draw of minus infinity is 0", Full(s, s), 0, 0, math.Inf(-1), 0},
		{"the longest wait has a half", Equal(math.MaxInt64, 0), 0, 0, 0, math.MaxInt64 / 2},
		{"an odd wait loses no nanosecond to its halves", Equal(3, 0), 0, 0, 1, 2},
	} {
		if got := c.b.Delay(c.n, c.prev, c.u); got != c.want {
			t.Errorf("%s: got %v, want %v", c.fact, got, c.want)
		}
	}
}

// C56: however many retries and however long the base, the wait is one.
func TestManyRetriesStayInBounds(t *testing.T) {
	for _, base := range []time.Duration{1, ms, s, 60 * time.Minute} {
		for _, cap := range []time.Duration{0, 1, s, 24 * time.Hour, math.MaxInt64} {
			for _, b := range shapes(base, cap) {
				prev := time.Duration(0)
				for n := range 2048 {
					d := b.Delay(n, prev, 0.999)
					if d < 0 || d > b.limit() {
						t.Fatalf("%v, retry %d: %v is not in [0, %v]", b, n, d, b.limit())
					}
					prev = d
				}
			}
		}
	}
}

// C57, and the means of the other shapes: draws spread evenly over the range.
func TestMeans(t *testing.T) {
	const draws = 100_000
	for _, c := range []struct {
		b      Backoff
		prev   time.Duration
		lo, hi time.Duration
	}{
		{Full(100*ms, 0), 0, 0, 800 * ms},
		{Equal(100*ms, 0), 0, 400 * ms, 800 * ms},
		{decorrelated(100*ms, 0), 500 * ms, 100 * ms, 1500 * ms},
		{Exp(100*ms, 0), 0, 800 * ms, 800 * ms},
		{lin(100*ms, 0), 0, 400 * ms, 400 * ms},
		{Const(100 * ms), 0, 100 * ms, 100 * ms},
	} {
		var sum time.Duration
		for i := range draws {
			d := c.b.Delay(3, c.prev, float64(i)/draws)
			if d < c.lo || (d >= c.hi && c.lo != c.hi) {
				t.Fatalf("%v: %v is not in [%v, %v)", c.b.Kind, d, c.lo, c.hi)
			}
			sum += d
		}
		mean, want := float64(sum/draws), float64(c.lo+c.hi)/2
		if math.Abs(mean-want) > want/100 {
			t.Errorf("%v: mean %v, want %v ± 1 %%", c.b.Kind, time.Duration(mean), time.Duration(want))
		}
	}
}

// C58: each wait lies in [base, min(cap, 3 × previous)].
func TestDecorrelatedStaysWithinThreeTimesThePrevious(t *testing.T) {
	b := decorrelated(100*ms, 20*s)
	prev := b.Base
	for n := range 10_000 {
		d := b.Delay(n, prev, float64(n*7919%10_000)/10_000)
		if d < b.Base || d > min(b.Cap, 3*prev) {
			t.Fatalf("retry %d after %v: %v", n, prev, d)
		}
		prev = d
	}
}

func TestJittered(t *testing.T) {
	want := []bool{true, true, true, false, false, false}
	for i, b := range shapes(s, s) {
		if b.Jittered() != want[i] {
			t.Errorf("%v: jittered %v", b.Kind, b.Jittered())
		}
	}
}

func TestKindText(t *testing.T) {
	var _ encoding.TextUnmarshaler = new(Kind)
	for k := range numKinds {
		text, err := k.MarshalText()
		if err != nil || string(text) != k.String() {
			t.Errorf("%d: %q, %v", k, text, err)
		}
		back := numKinds
		if err := back.UnmarshalText(text); err != nil || back != k {
			t.Errorf("%s came back as %v, %v", text, back, err)
		}
	}
	for _, bad := range []string{"", "Full", "expo", "full "} {
		k := Linear
		if err := k.UnmarshalText([]byte(bad)); err == nil || k != Linear {
			t.Errorf("%q was read as %v", bad, k)
		}
	}
	if _, err := numKinds.MarshalText(); err == nil || numKinds.String() != "kind(unknown)" {
		t.Error("a number that is no shape was written")
	}
}

// FuzzDelay checks the bounds with absurd arguments.
func FuzzDelay(f *testing.F) {
	f.Add(uint8(0), int64(s), int64(s), int64(0), int64(0), 0.5)
	f.Add(uint8(1), int64(60*time.Minute), int64(0), int64(1<<31), int64(-1), math.NaN())
	f.Add(uint8(2), int64(math.MaxInt64), int64(-1), int64(math.MinInt64), int64(math.MaxInt64), math.Inf(1))
	f.Add(uint8(4), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), 1.0)
	f.Fuzz(func(t *testing.T, kind uint8, base, cap, n, prev int64, u float64) {
		b := Backoff{Kind(kind), time.Duration(base), time.Duration(cap)}
		d := b.Delay(int(n), time.Duration(prev), u)
		if d < 0 || d > b.limit() {
			t.Fatalf("%+v.Delay(%d, %d, %v) = %d", b, n, prev, u, d)
		}
		if low := b.Delay(int(n), time.Duration(prev), 0); d < low {
			t.Fatalf("%+v.Delay(%d, %d, %v) = %d, below %d of the smallest draw", b, n, prev, u, d, low)
		}
		if !b.Jittered() && d != b.Delay(int(n), 0, 0) {
			t.Fatalf("%+v depends on chance", b)
		}
		if b.Kind == DecorrelatedJitter && d < min(b.limit(), max(b.Base, 0)) {
			t.Fatalf("%+v.Delay = %d, below the base", b, d)
		}
	})
}

func decorrelated(base, most time.Duration) Backoff { return Backoff{DecorrelatedJitter, base, most} }

func lin(base, most time.Duration) Backoff { return Backoff{Linear, base, most} }
