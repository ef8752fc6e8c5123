package anchor

import (
	"fmt"
	"math"
)

// published are rows of the original's output, each the mean of 100 runs truncated,
// and the deviation of one run, from 400 runs of independent versions of the model.
var published = []struct {
	clients        int
	strategy       string
	time, calls    float64
	timeSD, callSD float64
}{
	{10, "none", 378, 50, 34, 4},
	{10, "exponential", 3539, 51, 1289, 3.9},
	{10, "equal", 705, 42, 190, 2.5},
	{10, "full", 454, 39, 112, 2.1},
	{10, "decorrelated", 448, 37, 81, 2.2},
	{20, "none", 616, 154, 54, 13},
	{20, "exponential", 14266, 149, 2808, 14},
	{20, "equal", 1633, 108, 471, 4},
	{20, "full", 969, 99, 248, 3.6},
	{20, "decorrelated", 800, 100, 168, 4.9},
	{50, "none", 1139, 691, 42, 18},
	{50, "exponential", 36441, 623, 3286, 30},
	{50, "equal", 4115, 345, 598, 5.8},
	{50, "full", 2913, 332, 562, 4.9},
	{50, "decorrelated", 2368, 375, 502, 13},
	{100, "none", 2028, 2425, 48, 32},
	{100, "exponential", 62859, 1845, 3782, 58},
	{100, "equal", 6686, 812, 648, 7},
	{100, "full", 4902, 795, 517, 7},
	{100, "decorrelated", 4568, 1000, 651, 30},
	{150, "none", 2880, 5137, 43, 49},
	{150, "exponential", 85628, 3539, 4192, 93},
	{150, "equal", 8267, 1323, 668, 10},
	{150, "full", 6407, 1319, 530, 10},
	{150, "decorrelated", 6587, 1768, 800, 50},
	{190, "none", 3549, 8008, 48, 63},
	{190, "exponential", 101888, 5193, 4165, 116},
	{190, "equal", 9382, 1761, 621, 12},
	{190, "full", 7477, 1771, 538, 12},
	{190, "decorrelated", 7972, 2434, 869, 64},
}

// awsChecks allow four deviations of the difference between two means of 100 runs,
// and one for the truncation.
func awsChecks() (all []check) {
	off := func(deviation float64) float64 { return float64(4*deviation*math.Sqrt(2.0/100)) + 1 }
	for _, p := range published {
		all = append(all, check{"aws-occ", fmt.Sprintf("clients=%d strategy=%s runs=100", p.clients, p.strategy), []want{
			near("calls", p.calls, off(p.callSD)), near("time_ms", p.time, off(p.timeSD)),
		}})
	}
	return all
}
