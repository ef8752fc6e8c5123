package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/parallel"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// Point is a place in the space: for each dimension, which of its values.
type Point []int

// Grid is where a search may go from a point: how many values each dimension has. Of a
// dimension with one value all points of the grid have that of From.
type Grid struct {
	From  Point
	Sizes []int
}

func (p Point) key() string { return fmt.Sprint([]int(p)) }

// with returns the point with one value changed.
func (p Point) with(dimension, value int) Point {
	q := slices.Clone(p)
	q[dimension] = value
	return q
}

// Row is what one replication of a point came to: its columns, scenario by scenario.
type Row []float64

// Problem is what is searched. What it calls depends on its arguments alone.
type Problem struct {
	Grid          // From is what the file says today
	Others []Grid // the search goes on in the one whose From is best
	Seed   uint64 // of the points that are drawn

	// Possible reports whether a point is a policy that can be.
	Possible func(Point) bool

	// Run runs a replication of a point. It is called from several goroutines.
	Run func(p Point, replication int) Row

	// Score says how good each replication was, given those of Home. More is better.
	Score func(rows, home []Row) []float64

	Worth    float64                  // the least difference of scores that counts
	Rounds   []int                    // how many replications a candidate has after each round of a race
	Final    int                      // and how many those have of which the best is chosen
	MaxRuns  int                      // a bound on replications in all; 0 means none
	Workers  int                      // 0 means GOMAXPROCS
	Over     func(share float64) bool // more than this share of the time is used; nil means never
	Progress func(phase string, candidates, runs int)

	// Left returns how many runs there is time for, after a number of runs; nil means any number.
	Left func(runs int) int
}

// Candidate is a point and what is known of it.
type Candidate struct {
	Point Point
	Rows  []Row // by replication
	Lost  bool  // it was shown to be worse than another
}

// Found is what a search came to.
type Found struct {
	Home, Best *Candidate // Best is Home where nothing better was seen
	Start      *Candidate // where the search went on: the best of Home and the others
	All        []*Candidate
	Runs       int
	Stopped    string // settled, runs, time or interrupted
	Idle       []int  // dimensions that changed nothing in any run
}

// Why a search ended.
const (
	Settled     = "settled"     // nothing around the best is better
	OutOfRuns   = "runs"        // Problem.MaxRuns
	OutOfTime   = "time"        // Problem.Over
	Interrupted = "interrupted" // the context
)

// search is a search under way.
type search struct {
	*Problem
	ctx   context.Context
	tried map[string]*Candidate
	all   []*Candidate // in the order in which they were made
	home  *Candidate
	start *Candidate // the grid is around it
	grid  Grid
	runs  int
	phase string
	share float64 // of runs and time that may be used
	stop  string  // why it had to end
	idle  []int
}

// candidate returns what is known of a point, nil if it cannot be.
func (s *search) candidate(p Point) *Candidate {
	if c, ok := s.tried[p.key()]; ok {
		return c
	}
	var c *Candidate
	if s.Possible == nil || s.Possible(p) {
		c = &Candidate{Point: p}
		s.all = append(s.all, c)
	}
	s.tried[p.key()] = c
	return c
}

// extend runs candidates until each has a number of replications. It returns false when the search
// has to end first; what was run until then is kept.
func (s *search) extend(field []*Candidate, replications int) bool {
	type job struct {
		of          *Candidate
		replication int
	}
	var jobs []job
	for i := range replications { // those of one seed beside each other
		for _, c := range field {
			if i >= len(c.Rows) {
				jobs = append(jobs, job{c, i})
			}
		}
	}
	if s.MaxRuns > 0 && float64(s.runs+len(jobs)) > s.share*float64(s.MaxRuns) && s.runs > 0 {
		s.stop = OutOfRuns
		return false
	}
	rows := make([]Row, len(jobs))
	parallel.Run(len(jobs), s.Workers, s.ended, func(i int) { rows[i] = s.Run(jobs[i].of.Point, jobs[i].replication) }, func(_, done int) {
		if s.Progress != nil {
			s.Progress(s.phase, len(s.all), s.runs+done)
		}
	})
	for i, j := range jobs {
		if rows[i] != nil && len(j.of.Rows) == j.replication {
			j.of.Rows = append(j.of.Rows, rows[i])
		}
		if rows[i] != nil {
			s.runs++
		}
	}
	if s.ended() {
		s.stop = OutOfTime
		if s.ctx.Err() != nil {
			s.stop = Interrupted
		}
		return false
	}
	return true
}

// left is how many runs may be made for now.
func (s *search) left() int {
	n := math.MaxInt
	if s.MaxRuns > 0 {
		n = int(s.share*float64(s.MaxRuns)) - s.runs
	}
	if s.Left != nil {
		n = min(n, int(s.share*float64(s.Left(s.runs))))
	}
	return n
}

// ended reports whether nothing more may be run.
func (s *search) ended() bool {
	return s.ctx.Err() != nil || s.Over != nil && s.Over(s.share)
}

// score returns the scores of a candidate's first replications.
func (s *search) score(c *Candidate, replications int) []float64 {
	n := min(replications, len(c.Rows), len(s.home.Rows))
	return s.Score(c.Rows[:n], s.home.Rows[:n])
}

// against compares a candidate with another, in pairs of replications: the difference is
// above zero if it is better.
func (s *search) against(c, other *Candidate, replications int) stat.Interval {
	n := min(replications, len(c.Rows), len(other.Rows), len(s.home.Rows))
	a, b := s.score(other, n), s.score(c, n)
	var x, y []float64
	for i := range n {
		if !math.IsNaN(a[i]) && !math.IsNaN(b[i]) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	d, _ := stat.Paired(x, y, true, 0)
	return d
}

// race runs a field of candidates, more and more often, and drops those that are shown to
// be worse than the best, and after each round the worse half. It returns the one that is
// left; champion stays unless another is better by what counts. The second value is false
// when the search has to end.
func (s *search) race(champion *Candidate, field []*Candidate) (*Candidate, bool) {
	field = slices.DeleteFunc(slices.Clone(field), func(c *Candidate) bool { return c == nil || c == champion || c == s.home })
	for round, n := range s.Rounds {
		if len(field) == 0 {
			break
		}
		if !s.extend(append(s.anchors(champion), field...), n) {
			if round == 0 {
				return champion, false
			}
			return s.better(champion, field), false
		}
		field = s.drop(champion, field, n, round == len(s.Rounds)-1)
	}
	return s.better(champion, field), true
}

// better returns the first of the field if it is better than the champion by what counts.
func (s *search) better(champion *Candidate, field []*Candidate) *Candidate {
	if len(field) > 0 && s.against(field[0], champion, len(field[0].Rows)).Value > s.Worth {
		return field[0]
	}
	return champion
}

// anchors are those that take part in every race.
func (s *search) anchors(champion *Candidate) []*Candidate {
	if champion == s.home {
		return []*Candidate{s.home}
	}
	return []*Candidate{s.home, champion}
}

// drop returns who stays in a race after n replications, the best first: half of them, without
// those that are shown to be worse than the best or the champion.
func (s *search) drop(champion *Candidate, field []*Candidate, n int, last bool) []*Candidate {
	totals := map[*Candidate]float64{}
	for _, c := range field {
		totals[c] = mean(s.score(c, n))
	}
	slices.SortStableFunc(field, func(a, b *Candidate) int {
		switch x, y := totals[a], totals[b]; {
		case x > y || !math.IsNaN(x) && math.IsNaN(y):
			return -1
		case x < y || math.IsNaN(x) && !math.IsNaN(y):
			return 1
		}
		return 0
	})
	keep := (len(field) + 1) / 2
	if last {
		keep = 1
	}
	best := field[0]
	if mean(s.score(champion, n)) > totals[best] {
		best = champion
	}
	var kept []*Candidate
	for i, c := range field {
		worse := c != best && s.against(c, best, n).High < 0 || math.IsNaN(totals[c])
		c.Lost = c.Lost || worse
		if i < keep && !worse {
			kept = append(kept, c)
		}
	}
	return kept
}
