package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/e2e/bench"
	"github.com/gabion-go/gabion/internal/report"
)

// What a run may look like whose figures are published.
const (
	mostSpread = 10  // percent, of what README shows and of what a verdict is about
	mostLoad   = 0.5 // processes that were running before the run, on average over a minute

	longestCalm = 5 * time.Minute
)

// calmDown waits until the load of having built the benchmarks is over, but not for ever: what goes on
// for longer is work of others.
func calmDown() {
	for end := time.Now().Add(longestCalm); time.Now().Before(end); time.Sleep(time.Second) {
		if load, known := loadOf(report.LoadAverage()); !known || load <= mostLoad/2 {
			return
		}
	}
}

// loadOf returns the average over the last minute.
func loadOf(averages string) (load float64, known bool) {
	last, _, _ := strings.Cut(averages, " ")
	load, err := strconv.ParseFloat(last, 64)
	return load, err == nil
}

// quiet returns why the figures of a run can't be published: the machine did something else, or
// a row that README shows differs too much between rounds.
func quiet(r *results, m machine) error {
	if load, known := loadOf(m.load); known && load > mostLoad {
		return fmt.Errorf("the machine was busy: its load was %v before the run, and at most %v is quiet", load, mostLoad)
	}
	return spread(r)
}

// spread returns which of gabion's rows in the table that README shows is not known well enough. Other rows
// are shown with their spread, and a target of a row that is not known well enough has no verdict.
func spread(r *results) error {
	for _, c := range bench.Contests() {
		for _, mode := range inReadme[c.Name] {
			switch percent, ok := r.deviation(c.Name, ours(c), mode); {
			case ok && math.IsInf(percent, 0):
				return fmt.Errorf("gabion's row of %s, %s, was measured in too few rounds: six are needed", c.Name, mode)
			case ok && percent > mostSpread:
				return fmt.Errorf("gabion's row of %s, %s, is known to ±%.0f %% only, and ±%d %% is wanted: the machine is noisy", c.Name, mode, percent, mostSpread)
			}
		}
	}
	return nil
}
