package tune

import (
	"cmp"
	"context"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

const (
	perDimension = 4  // values of each key that are tried alone at first
	drawn        = 2  // points that are drawn at first, for each dimension
	maxRounds    = 20 // of the search around the best
	finalists    = 3
	perCandidate = 6 // runs that a race takes for each of its field, about

	exploring = 0.75 // of runs and time; the rest is for the last few
)

// Search looks for the best point. It begins in the best of the grids, with points that differ
// from where it begins in one dimension, and with some that are drawn. Then it looks around the
// best, until nothing there is better. In the end it takes back each change that the runs do not show to be of
// use. The same problem gives the same answer, whatever the number of workers, unless Over
// or the context ends it.
func Search(ctx context.Context, p *Problem) *Found {
	own := *p
	s := &search{Problem: &own, ctx: ctx, tried: map[string]*Candidate{}, phase: "comparing with the defaults and the presets", share: exploring}
	s.home = s.candidate(slices.Clone(p.From))
	s.start, s.grid = s.home, p.Grid
	found := &Found{Home: s.home, Best: s.home, Start: s.home, Stopped: Settled}
	if s.home == nil {
		return found
	}
	best, ok := s.first()
	for round := 0; ok && round < maxRounds; round++ {
		s.phase = "around the best"
		before := best
		if best, ok = s.race(best, s.around(best)); best == before {
			break
		}
	}
	s.share = 1
	if s.stop != Interrupted {
		best, _ = s.final(best)
	}
	found.Best, found.Start, found.All, found.Runs, found.Idle = best, s.start, s.all, s.runs, s.idle
	found.Stopped = cmp.Or(s.stop, Settled)
	return found
}

// first races points that are far apart, then the best values of all dimensions together.
// Where there is little time they are fewer.
func (s *search) first() (*Candidate, bool) {
	if !s.extend([]*Candidate{s.home}, s.Rounds[0]) {
		return s.home, false
	}
	if !s.begin() {
		return s.start, false
	}
	s.phase = "looking around"
	sizes, from := s.grid.Sizes, s.grid.From
	values := perDimension
	if s.left() < perCandidate*(values+drawn)*len(sizes) {
		values = 2
	}
	alone := make([][]*Candidate, len(sizes))
	var field []*Candidate
	for d, size := range sizes {
		for _, v := range spread(size, from[d], values) {
			if c := s.candidate(from.with(d, v)); c != nil {
				alone[d] = append(alone[d], c)
				field = append(field, c)
			}
		}
	}
	if len(sizes) > 1 && values == perDimension {
		for i := range drawn * len(sizes) {
			field = append(field, s.candidate(s.draw(uint64(i))))
		}
	}
	best, ok := s.race(s.start, field)
	s.freeze(alone)
	if !ok {
		return best, false
	}
	s.phase = "together"
	return s.race(best, s.combined(alone))
}

// begin finds the best point to begin with.
func (s *search) begin() (ok bool) {
	grids := []Grid{s.grid}
	var field []*Candidate
	for _, o := range s.Others {
		if c := s.candidate(slices.Clone(o.From)); c != nil {
			field, grids = append(field, c), append(grids, o)
		}
	}
	if len(field) == 0 {
		return true
	}
	bound := s.MaxRuns
	s.MaxRuns = 0 // is of what is searched from there
	s.start, ok = s.race(s.home, field)
	if bound > 0 {
		s.MaxRuns = bound + s.runs
	}
	for _, o := range grids {
		if slices.Equal(o.From, s.start.Point) {
			s.grid = o
		}
	}
	return ok
}

// spread are some values of a dimension, far apart, without that of home. Two are one on
// each side of it, halfway to the end.
func spread(size, home, count int) (values []int) {
	if size == 1 { // all points of the grid have the same
		return nil
	}
	add := func(v int) {
		if v >= 0 && v < size && v != home && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	if count <= 2 {
		add(home - (home+1)/2)
		add(home + (size-home)/2)
		return values
	}
	if size <= count+1 {
		for v := range size {
			add(v)
		}
		return values
	}
	for i := range count {
		v := (i*(size-1) + (count-1)/2) / (count - 1)
		switch {
		case v != home:
		case v > 0:
			v--
		default:
			v++
		}
		add(v)
	}
	return values
}

// draw returns a point that is drawn.
func (s *search) draw(i uint64) Point {
	p := slices.Clone(s.grid.From)
	stream := draw.New(s.Seed, forPoints, i)
	for d, size := range s.grid.Sizes {
		if size > 1 {
			p[d] = stream.N(size)
		}
	}
	return p
}

// forPoints is the purpose of the draws of points; those of worlds are small numbers.
const forPoints draw.Purpose = 1 << 33

// freeze finds the dimensions of which no value changed anything.
func (s *search) freeze(alone [][]*Candidate) {
	for d := range alone {
		same := len(alone[d]) > 0
		for _, c := range alone[d] {
			n := min(len(c.Rows), len(s.start.Rows))
			for i := range n {
				same = same && alike(c.Rows[i], s.start.Rows[i])
			}
			same = same && n > 0
		}
		if same {
			s.idle = append(s.idle, d)
		}
	}
}

// alike reports whether two runs came to the same. The second may know more.
func alike(a, b Row) bool {
	return slices.EqualFunc(a, b[:len(a)], func(x, y float64) bool { return x == y || x != x && y != y })
}

// combined are points that have the best value of some dimensions at once: of the one in
// which a change helps most, of the best two, and so on.
func (s *search) combined(alone [][]*Candidate) (field []*Candidate) {
	type move struct {
		d, v int
		gain float64
	}
	var moves []move
	for d := range alone {
		best := move{d: d, gain: s.Worth}
		for _, c := range alone[d] {
			if g := s.against(c, s.start, len(c.Rows)).Value; g > best.gain {
				best.v, best.gain = c.Point[d], g
			}
		}
		if best.gain > s.Worth {
			moves = append(moves, best)
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int {
		switch {
		case a.gain > b.gain:
			return -1
		case a.gain < b.gain:
			return 1
		}
		return 0
	})
	p := slices.Clone(s.grid.From)
	for _, m := range moves {
		p = p.with(m.d, m.v)
		field = append(field, s.candidate(p))
	}
	return field
}

// around are the points next to a candidate: one value and two values away in each
// dimension, and with the value that the search began with.
func (s *search) around(c *Candidate) (field []*Candidate) {
	for d, size := range s.grid.Sizes {
		if size == 1 || slices.Contains(s.idle, d) {
			continue
		}
		for _, v := range []int{c.Point[d] - 1, c.Point[d] + 1, c.Point[d] - 2, c.Point[d] + 2, s.grid.From[d]} {
			if v < 0 || v >= size || v == c.Point[d] {
				continue
			}
			if q := s.candidate(c.Point.with(d, v)); q != nil && !q.Lost && !slices.Contains(field, q) {
				field = append(field, q)
			}
		}
	}
	return field
}

// final chooses among the best few by more replications, and takes changes back.
func (s *search) final(best *Candidate) (*Candidate, bool) {
	s.phase = "the last few"
	last := s.Rounds[len(s.Rounds)-1]
	field := slices.DeleteFunc(slices.Clone(s.all), func(c *Candidate) bool { return len(c.Rows) < last || c == best || c == s.start || c == s.home })
	slices.SortStableFunc(field, func(a, b *Candidate) int {
		x, y := mean(s.score(a, last)), mean(s.score(b, last))
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	field = field[:min(len(field), finalists-1)]
	for _, c := range []*Candidate{s.start, best, s.home} {
		if !slices.Contains(field, c) {
			field = append([]*Candidate{c}, field...)
		}
	}
	if !s.extend(field, s.Final) {
		return best, false
	}
	for _, c := range field {
		if s.against(c, best, s.Final).Value > 0 {
			best = c
		}
	}
	if len(s.Others) > 0 && best.Point[0] != s.start.Point[0] {
		return best, true // one of the others, as it is
	}
	return s.simplify(best)
}

// simplify takes back each change that the runs do not show to be of use, those that are
// of least use first. It compares with the candidate itself and not with the one before,
// so that many small losses do not add up.
func (s *search) simplify(best *Candidate) (*Candidate, bool) {
	s.phase = "taking back"
	type revert struct {
		dimension int
		loss      float64
	}
	var field []*Candidate
	for d := range s.grid.Sizes {
		if c := s.candidate(best.Point.with(d, s.grid.From[d])); c != nil && c != best {
			field = append(field, c)
		}
	}
	if !s.extend(field, s.Final) {
		return best, false
	}
	var reverts []revert
	for d := range s.grid.Sizes {
		if c := s.candidate(best.Point.with(d, s.grid.From[d])); c != nil && c != best && s.useless(best, c) {
			reverts = append(reverts, revert{d, -s.against(c, best, s.Final).Value})
		}
	}
	slices.SortStableFunc(reverts, func(a, b revert) int { return cmp.Compare(a.loss, b.loss) })
	kept := best
	for _, r := range reverts {
		c := s.candidate(kept.Point.with(r.dimension, s.grid.From[r.dimension]))
		if c == nil {
			continue
		}
		if !s.extend([]*Candidate{c}, s.Final) {
			return kept, false
		}
		if s.useless(best, c) {
			kept = c
		}
	}
	return kept, true
}

// useless reports whether the runs do not show that a candidate is worse than the best, so
// that what it takes back is of no use.
func (s *search) useless(best, c *Candidate) bool {
	d := s.against(c, best, s.Final)
	return d.High >= 0 || d.Value > -s.Worth
}
