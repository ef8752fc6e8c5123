package main

import "slices"

// level takes the machine's speed out of each round. On a machine that is shared, a whole round can take a quarter
// longer, gabion's rows and its peers' alike. How much longer is the median, over all rows that were measured in
// every round, of what the row took in that round against its own median. The times of all rows in the round are
// divided by that. Ratios within a round stay as they are.
func (r *results) level() {
	var every [][]float64 // the times of rows that were measured in every round
	for _, units := range r.values {
		times := units["ns/op"]
		if len(every) > 0 && len(times) > len(every[0]) {
			every = nil
		}
		if len(times) > 0 && (len(every) == 0 || len(times) == len(every[0])) {
			every = append(every, times)
		}
	}
	if len(every) == 0 {
		return
	}
	middles := make([]float64, len(every))
	for i, times := range every {
		middles[i] = middle(times)
	}
	r.slow = make([]float64, len(every[0]))
	for round := range r.slow {
		shares := make([]float64, len(every))
		for i, times := range every {
			shares[i] = times[round] / middles[i]
		}
		r.slow[round] = middle(shares)
	}
	for _, units := range r.values {
		for round := range units["ns/op"] {
			units["ns/op"][round] /= r.slow[round]
		}
	}
}

// middle is the median.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
