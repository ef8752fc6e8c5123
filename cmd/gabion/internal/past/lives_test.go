package past

import (
	"fmt"
	"testing"
)

func TestProcessesThatAreSeenSeldomCount(t *testing.T) {
	for _, c := range []struct {
		fact  string
		times []int64 // when each of four processes was seen, in a minute
		want  int
	}{
		{"all the time", []int64{0, 10, 20, 30, 40, 50, 60}, 4},
		{"once", []int64{30}, 4},
		{"twice, in the middle", []int64{20, 40}, 4},
		{"three times", []int64{15, 30, 45}, 4},
		{"in the first half alone", []int64{0, 5, 10, 15, 20, 25, 30}, 2},
	} {
		l := lives{}
		for i := range 4 {
			for _, at := range c.times {
				l.saw(fmt.Sprint(i), at, at)
			}
		}
		if got := l.atOnce(0, 60); got != c.want {
			t.Errorf("%s: %d processes, want %d", c.fact, got, c.want)
		}
	}
}
