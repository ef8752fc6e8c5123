package tournament

import (
	"math"

	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// column is what a tournament measures.
type column int

// The columns, in the order in which they are shown.
const (
	answered column = iota // in time, of all calls
	trouble                // the same, of those that began in the time of trouble
	failing                // seconds spent in calls that failed, for each call
	load                   // attempts during the trouble for each that was needed
	recovery               // seconds; never is the rest of the run
	peak                   // the busiest second afterwards, to those before
	columns
)

// more says whether more is better.
func (c column) more() bool { return c == answered || c == trouble }

// worth is the least difference that counts.
func (c column) worth() float64 {
	return [columns]float64{0.0005, 0.0005, 0.0005, 0.005, 0.05, 0.005}[c]
}

// cell is what one entrant came to in one world.
type cell struct {
	values [columns][]float64 // by replication; NaN is unknown
	dead   float64            // attempts for each call after ten seconds of a dependency that answers nothing; NaN elsewhere
	stuck  int                // runs that stayed down
	known  int                // runs of which that is known
}

// mean returns the mean of what is known of a column.
func (c *cell) mean(of column) float64 { return known(c.values[of]) }

// known returns the mean of what is known, NaN of nothing.
func known(xs []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range xs {
		if !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(n)
}

// measure takes from a study what tournaments look at.
func measure(s *scenario.Study, w *World) cell {
	side := &s.Sides[0]
	during := side.Metrics // a world that is all trouble has no other phase
	for i := range side.Phases {
		if side.Phases[i].Name == "during" {
			during = side.Phases[i].Metrics
		}
	}
	var c cell
	c.values = [columns][]float64{
		answered: values(side.Metrics, "goodput"),
		trouble:  values(during, "goodput"),
		failing:  values(side.Metrics, "failed_time"),
		load:     values(during, "amplification"),
		recovery: values(side.Metrics, "recovery"),
		peak:     values(side.Metrics, "peak"),
	}
	for i, x := range c.values[recovery] {
		if math.IsInf(x, 1) {
			c.values[recovery][i] = s.Duration - s.During[1]
		}
	}
	for _, x := range values(side.Metrics, "stuck") {
		if !math.IsNaN(x) {
			c.known++
			c.stuck += int(x)
		}
	}
	c.dead = math.NaN()
	if w.Dead {
		c.dead = deadLoad(s)
	}
	return c
}

// values returns a metric of all runs, empty if no run has it.
func values(metrics []scenario.Metric, key string) (xs []float64) {
	for i := range metrics {
		if metrics[i].Key == key && metrics[i].Of == "" {
			for _, v := range metrics[i].Values {
				xs = append(xs, float64(v))
			}
		}
	}
	return xs
}

// deadAfter is after how many seconds a dead dependency should be known to be dead.
const deadAfter = 10

// deadLoad is how many attempts there were for each call once that was known.
func deadLoad(s *scenario.Study) float64 {
	attempts, offered := 0.0, 0.0
	for i := range s.Sides[0].Series.Attempts.Mid {
		if at := float64(i) * s.Bin; at >= s.During[0]+deadAfter && at+s.Bin <= s.During[1] {
			attempts += s.Sides[0].Series.Attempts.Mid[i]
			offered += s.Sides[0].Series.Offered.Mid[i]
		}
	}
	return attempts / offered
}

// compare says whether b is better than a in one world.
func compare(a, b *cell, of column) (stat.Interval, stat.Verdict) {
	var x, y []float64
	for i := range min(len(a.values[of]), len(b.values[of])) {
		if p, q := a.values[of][i], b.values[of][i]; !math.IsNaN(p) && !math.IsNaN(q) {
			x, y = append(x, p), append(y, q)
		}
	}
	return stat.Paired(x, y, of.more(), of.worth())
}
