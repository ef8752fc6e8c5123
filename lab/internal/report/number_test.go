package report

import (
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

func number(t *testing.T, s string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		x          float64
		unit, want string
	}{
		{0, scenario.Count, "0"}, {1234567, scenario.Count, "1,234,567"}, {-1234, scenario.Count, "−1,234"}, {-123, scenario.Count, "−123"},
		{99.96, scenario.Count, "100"}, {9.996, scenario.Count, "10"}, {0.5, scenario.Count, "0.5"}, {math.NaN(), scenario.Count, none},
		{1.004, scenario.Ratio, "1.00"}, {12.34, scenario.Ratio, "12.3"}, {inf, scenario.Ratio, "never"},
		{0, scenario.Seconds, "0 s"}, {21e-6, scenario.Seconds, "21 µs"}, {0.0213, scenario.Seconds, "21.3 ms"}, {0.9999, scenario.Seconds, "1 s"},
		{90, scenario.Seconds, "90 s"}, {600, scenario.Seconds, "10 min"}, {86400, scenario.Seconds, "24 h"}, {inf, scenario.Seconds, "never"},
		{0, scenario.Share, "0 %"}, {1, scenario.Share, "100 %"}, {0.99999, scenario.Share, "> 99.99 %"}, {0.9999, scenario.Share, "99.99 %"}, {0.00001, scenario.Share, "< 0.01 %"},
		{0.9951, scenario.Share, "99.51 %"}, {0.324, scenario.Share, "32.4 %"}, {0.3, scenario.Share, "30 %"}, {0.0123, scenario.Share, "1.23 %"}, {math.NaN(), scenario.Share, none},
	} {
		if got := measure(c.x, c.unit); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.x, c.unit, got, c.want)
		}
	}
}

func TestDifferencesHaveASign(t *testing.T) {
	for _, c := range []struct {
		x          float64
		unit, want string
	}{
		{0.602, scenario.Share, "+60.2 pt"}, {-0.002, scenario.Share, "−0.2 pt"}, {2, scenario.Ratio, "+2.00"}, {-0.05, scenario.Seconds, "−50 ms"}, {0, scenario.Count, "0"},
		{math.Inf(1), scenario.Seconds, "never"}, {math.NaN(), scenario.Share, none},
	} {
		if got := change(c.x, c.unit); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.x, c.unit, got, c.want)
		}
	}
}

func TestIntervalsSayTheirUnitOnce(t *testing.T) {
	for _, c := range []struct {
		e          scenario.Estimate
		unit, want string
	}{
		{about(0.5, 0.1), scenario.Share, "40 to 60 %"}, {about(1, 0.5), scenario.Seconds, "500 ms to 1.5 s"}, {about(2, 0.25), scenario.Ratio, "1.75 to 2.25"},
		{exactly(3), scenario.Count, ""}, {lone(3), scenario.Count, ""}, {about(0.01, 0.02), scenario.Share, "0 to 3 %"}, {about(0.99, 0.02), scenario.Share, "97 to 100 %"},
	} {
		if got := interval(c.e, c.unit); got != c.want {
			t.Errorf("%v is %q, want %q", c.e, got, c.want)
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		s    scale
		want []float64
	}{
		{linear(1047, ""), []float64{0, 500, 1000, 1500}}, {linear(7, ""), []float64{0, 2, 4, 6, 8}}, {linear(0, ""), []float64{0, 0.25, 0.5, 0.75, 1}},
		{linear(100, ""), []float64{0, 25, 50, 75, 100}}, {linear(math.NaN(), ""), []float64{0, 0.25, 0.5, 0.75, 1}},
		{logarithmic(0.004, 5, ""), []float64{0.001, 0.01, 0.1, 1, 10}}, {logarithmic(0.2, 0.3, ""), []float64{0.1, 1}}, {logarithmic(0, 0, ""), []float64{0.001, 0.01, 0.1, 1}},
	} {
		got := c.s.ticks()
		for i := range got {
			got[i] = math.Round(got[i]*1e9) / 1e9
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v has ticks at %v, want %v", c.s, got, c.want)
		}
	}
}

func TestScalesKeepOrderAndEnds(t *testing.T) {
	for _, s := range []scale{linear(1000, ""), logarithmic(0.001, 10, "")} {
		last := -1.0
		for _, y := range s.ticks() {
			at := s.share(y)
			if at <= last {
				t.Errorf("%v is at %v, not above %v", y, at, last)
			}
			last = at
		}
		if math.Abs(last-1) > 1e-9 || s.share(s.high*10) != 1 || s.share(-1) != 0 {
			t.Errorf("%+v ends at %v", s, last)
		}
	}
	if got := logarithmic(0.001, 10, "").share(0.1); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("the middle decade is at %v", got)
	}
}

func TestTimesAreLabelledAsPeopleCount(t *testing.T) {
	for _, c := range []struct{ end, step time.Duration }{
		{time.Minute, 10 * time.Second}, {10 * time.Minute, 2 * time.Minute}, {24 * time.Hour, 6 * time.Hour}, {5 * time.Second, time.Second}, {30 * 24 * time.Hour, 6 * 24 * time.Hour},
	} {
		if got := timeStep(c.end); got != c.step {
			t.Errorf("%v is divided by %v, want %v", c.end, got, c.step)
		}
	}
	for _, c := range []struct {
		at, step, end time.Duration
		want          string
	}{
		{0, time.Second, time.Minute, "0"}, {90 * time.Second, 30 * time.Second, 2 * time.Minute, "90 s"}, {90 * time.Second, 30 * time.Second, 3 * time.Minute, "1:30"},
		{4 * time.Minute, 2 * time.Minute, 10 * time.Minute, "4 min"}, {3 * time.Hour, time.Hour, 6 * time.Hour, "3 h"}, {150 * time.Minute, 30 * time.Minute, 3 * time.Hour, "2:30"},
	} {
		if got := timeLabel(c.at, c.step, c.end); got != c.want {
			t.Errorf("%v of %v is %q, want %q", c.at, c.end, got, c.want)
		}
	}
}
