package tune

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// hill is a problem with a known best point and noise. Noise that candidates share is what
// common random numbers are for; the rest differs from point to point.
func hill(top Point, height, noise float64, seed uint64) *Problem {
	sizes := []int{6, 9, 9, 9, 9}
	home := Point{2, 4, 4, 4, 4}
	value := func(p Point) float64 {
		far := 0.0
		for d := range p {
			x := float64(p[d]-top[d]) / float64(sizes[d])
			far += x * x
		}
		return -height * far
	}
	return &Problem{
		Grid: Grid{From: home, Sizes: sizes}, Seed: seed, Worth: 0.05, Rounds: []int{3, 6, 12}, Final: 24,
		Run: func(p Point, replication int) Row {
			shared := draw.New(seed, 1, uint64(replication))
			part := uint64(replication)
			for _, v := range p {
				part = part*31 + uint64(v) + 1
			}
			own := draw.New(seed, 2, part)
			return Row{value(p) + 5*shared.Normal() + noise*own.Normal()}
		},
		Score: func(rows, _ []Row) []float64 {
			scores := make([]float64, len(rows))
			for i := range rows {
				scores[i] = rows[i][0]
			}
			return scores
		},
	}
}

func TestASearchFindsTheTopOfAHill(t *testing.T) {
	top := Point{5, 1, 7, 4, 2}
	for seed := range uint64(8) {
		p := hill(top, 20, 0.3, seed)
		found := Search(t.Context(), p)
		far := 0
		for d := range top {
			far = max(far, abs(found.Best.Point[d]-top[d]))
		}
		if far > 1 || found.Stopped != Settled {
			t.Errorf("seed %d: found %v after %d runs, %s; the top is %v", seed, found.Best.Point, found.Runs, found.Stopped, top)
		}
		if found.Runs > 1500 {
			t.Errorf("seed %d: %d runs", seed, found.Runs)
		}
	}
}

// The search goes on in the grid whose beginning is best, whatever is far better elsewhere.
func TestASearchGoesOnFromTheBestOfItsStarts(t *testing.T) {
	top := Point{5, 1, 7, 4, 2}
	for seed := range uint64(4) {
		p := hill(top, 20, 0.3, seed)
		run := p.Run
		p.Run = func(q Point, replication int) Row { return run(q[1:], replication) }
		sizes := append([]int{1}, p.Sizes...)
		p.Grid = Grid{From: append(Point{0}, p.From...), Sizes: sizes}
		p.Others = []Grid{{From: Point{1, 0, 8, 0, 8, 8}, Sizes: sizes}, {From: Point{2, 4, 2, 6, 4, 3}, Sizes: sizes}, {From: Point{3, 0, 0, 0, 0, 0}, Sizes: sizes}}
		p.MaxRuns = 500
		found := Search(t.Context(), p)
		if !slices.Equal(found.Start.Point, p.Others[1].From) || found.Best.Point[0] != 2 {
			t.Errorf("seed %d: from %v to %v", seed, found.Start.Point, found.Best.Point)
		}
		for _, c := range found.All {
			other := c.Point[0] != 2
			if is := func(g Grid) bool { return slices.Equal(c.Point, g.From) }; other && !is(p.Grid) && !slices.ContainsFunc(p.Others, is) {
				t.Errorf("seed %d: %v is in no grid", seed, c.Point)
			}
		}
		for _, o := range p.Others {
			if !slices.ContainsFunc(found.All, func(c *Candidate) bool { return slices.Equal(c.Point, o.From) && len(c.Rows) > 0 }) {
				t.Errorf("seed %d: %v was not tried", seed, o.From)
			}
		}
		p.MaxRuns, p.Others = 2, p.Others[1:2] // the bound is of what is searched besides
		if found := Search(t.Context(), p); !slices.Equal(found.Best.Point, p.Others[0].From) {
			t.Errorf("seed %d, without a search: %v", seed, found.Best.Point)
		}
	}
}

func abs(x int) int { return max(x, -x) }

func TestWhatIsOfNoUseIsTakenBack(t *testing.T) {
	top := Point{2, 4, 7, 4, 4} // as today but for one
	for seed := range uint64(8) {
		found := Search(t.Context(), hill(top, 40, 0.2, seed))
		for d, v := range found.Best.Point {
			if changed := v != []int{2, 4, 4, 4, 4}[d]; changed != (d == 2) {
				t.Errorf("seed %d: %v is proposed; only the third value matters", seed, found.Best.Point)
				break
			}
		}
	}
}

func TestADimensionThatChangesNothingIsNamed(t *testing.T) {
	p := hill(Point{5, 1, 7, 4, 2}, 20, 0, 1)
	run := p.Run
	p.Run = func(q Point, replication int) Row { return run(q.with(3, 0), replication) }
	if found := Search(t.Context(), p); !slices.Equal(found.Idle, []int{3}) || found.Best.Point[3] != p.From[3] {
		t.Errorf("idle %v, best %v", found.Idle, found.Best.Point)
	}
}

func TestASearchIsTheSameOnAnyNumberOfWorkers(t *testing.T) {
	var first *Found
	for _, workers := range []int{1, 2, 7} {
		p := hill(Point{5, 1, 7, 4, 2}, 10, 1, 3)
		p.Workers, p.MaxRuns = workers, 700
		found := Search(t.Context(), p)
		if first == nil {
			first = found
			continue
		}
		if !slices.Equal(found.Best.Point, first.Best.Point) || found.Runs != first.Runs || found.Stopped != first.Stopped || len(found.All) != len(first.All) {
			t.Errorf("%d workers: %v, %d runs, %s; one worker: %v, %d runs, %s", workers, found.Best.Point, found.Runs, found.Stopped, first.Best.Point, first.Runs, first.Stopped)
		}
	}
}

func TestASearchKeepsToItsBounds(t *testing.T) {
	for _, c := range []struct {
		fact string
		runs int
		over func(share float64) bool
		stop string
	}{
		{"runs", 200, nil, OutOfRuns},
		{"hardly any runs", 1, nil, OutOfRuns},
		{"time that is over at once", 0, func(float64) bool { return true }, OutOfTime},
		{"time that is over for exploring", 0, func(share float64) bool { return share < 1 }, OutOfTime},
	} {
		p := hill(Point{5, 1, 7, 4, 2}, 10, 1, 3)
		p.MaxRuns, p.Over = c.runs, c.over
		found := Search(t.Context(), p)
		if found.Stopped != c.stop || found.Best == nil || found.Home == nil || c.runs > 100 && found.Runs > c.runs {
			t.Errorf("%s: %s after %d runs", c.fact, found.Stopped, found.Runs)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	p := hill(Point{5, 1, 7, 4, 2}, 10, 0.1, 3)
	p.Workers, p.Progress = 1, func(_ string, _, runs int) {
		if runs == 400 {
			stop()
		}
	}
	found := Search(ctx, p)
	if found.Stopped != Interrupted || found.Runs != 400 || slices.Equal(found.Best.Point, p.From) {
		t.Errorf("interrupted: %s after %d runs with %v", found.Stopped, found.Runs, found.Best.Point)
	}
}

func TestWithLittleTimeFewerPointsAreTried(t *testing.T) {
	for _, c := range []struct {
		fact  string
		left  func(runs int) int
		least int
	}{
		{"much time", func(int) int { return 10_000 }, 29},
		{"little time", func(runs int) int { return 100 - runs }, 9},
	} {
		p := hill(Point{5, 1, 7, 4, 2}, 40, 0.1, 3)
		p.Left = c.left
		first := 0
		p.Progress = func(phase string, candidates, _ int) {
			if phase == "looking around" {
				first = candidates
			}
		}
		if found := Search(t.Context(), p); first < c.least || first > c.least+4 || slices.Equal(found.Best.Point, p.From) {
			t.Errorf("%s: %d candidates at first, and then %v", c.fact, first, found.Best.Point)
		}
	}
	for size := 2; size < 12; size++ {
		for home := range size {
			for _, count := range []int{2, 4} {
				values := spread(size, home, count)
				if len(values) == 0 || len(values) > count || slices.Contains(values, home) || slices.Max(values) >= size || slices.Min(values) < 0 {
					t.Errorf("%d values, home %d: %v", size, home, values)
				}
			}
		}
	}
}

func TestPointsThatCannotBeAreLeftOut(t *testing.T) {
	p := hill(Point{5, 1, 7, 4, 2}, 20, 0.1, 1)
	p.Possible = func(q Point) bool { return q[0] <= 3 }
	if found := Search(t.Context(), p); found.Best.Point[0] != 3 {
		t.Errorf("found %v", found.Best.Point)
	}
	p.Possible = func(Point) bool { return false }
	if found := Search(t.Context(), p); found.Best != nil || found.Runs != 0 {
		t.Errorf("found %v", found)
	}
}

func TestAnUnknownScoreWinsNothing(t *testing.T) {
	p := hill(Point{5, 1, 7, 4, 2}, 20, 0.1, 1)
	run := p.Run
	p.Run = func(q Point, replication int) Row {
		if slices.Equal(q, p.From) {
			return run(q, replication)
		}
		return Row{math.NaN()}
	}
	if found := Search(t.Context(), p); !slices.Equal(found.Best.Point, p.From) {
		t.Errorf("found %v", found.Best.Point)
	}
}
