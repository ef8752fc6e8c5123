package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// frontColumns are those by which candidates are on the front: the objective, the bounds, and
// what else a policy costs.
func (b *bench) frontColumns() (columns []int) {
	for k, c := range b.columns {
		first := slices.Index(b.columns, c) == k
		usual := slices.Contains([]string{"goodput", "amplification", "recovery"}, c.Key)
		if first && (k <= len(b.goal.Bounds) || usual) {
			columns = append(columns, k)
		}
	}
	return columns
}

const (
	frontRuns = 3 // candidates with fewer runs are not on the front
	maxFront  = 8
)

// front returns the candidates that no other beats. Today's values are those of its runs, and
// those of another are today's and the difference in the runs that both have.
func (b *bench) front(found *Found, columns []int) []FrontRow {
	var all []FrontRow
	for _, c := range found.All {
		if c != found.Home && c != found.Best && len(c.Rows) < frontRuns || len(c.Rows) == 0 {
			continue
		}
		r := FrontRow{Changes: b.changes(c.Point), Runs: len(c.Rows), Proposed: c == found.Best && c != found.Home}
		for _, k := range columns {
			r.Values = append(r.Values, scenario.Number(round6(b.typical(c, found.Home, k))))
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(x, y FrontRow) int { return cmp.Compare(len(x.Changes), len(y.Changes)) })
	var front []FrontRow
	for i := range all {
		again := slices.ContainsFunc(front, func(o FrontRow) bool { return slices.Equal(o.Values, all[i].Values) })
		if again && !all[i].kept() {
			continue
		}
		beaten := slices.ContainsFunc(all, func(o FrontRow) bool { return b.beats(&o, &all[i], columns) })
		if !beaten || all[i].kept() {
			front = append(front, all[i])
		}
	}
	more := b.columns[columns[0]].metric().more
	slices.SortStableFunc(front, func(x, y FrontRow) int {
		if more {
			x, y = y, x
		}
		return cmp.Compare(float64(x.Values[0]), float64(y.Values[0]))
	})
	return thin(front)
}

// thin keeps what is today's and what is proposed, and of the others some, evenly.
func thin(front []FrontRow) []FrontRow {
	others := 0
	for i := range front {
		if !front[i].kept() {
			others++
		}
	}
	room := maxFront - (len(front) - others)
	if others <= room || room < 2 {
		return front
	}
	at := -1
	return slices.DeleteFunc(front, func(r FrontRow) bool {
		if r.kept() {
			return false
		}
		at++ // of the others, those at which a multiple of the distance is reached
		return at*(room-1)%(others-1) >= room-1
	})
}

// kept reports whether a row is today's or what is proposed.
func (r *FrontRow) kept() bool { return r.Proposed || len(r.Changes) == 0 }

// typical is a candidate's mean, as far from today's as in the runs that both have.
func (b *bench) typical(c, home *Candidate, k int) float64 {
	n := min(len(c.Rows), len(home.Rows))
	base, diff := []float64{}, []float64{}
	for w := range b.worlds {
		at := w*len(b.columns) + k
		base = append(base, column(home.Rows, at)...)
		for i := range n {
			diff = append(diff, c.Rows[i][at]-home.Rows[i][at])
		}
	}
	if m := mean(diff); !math.IsNaN(m) {
		return max(mean(base)+m, 0) // nothing that is measured is less
	}
	return mean(base)
}

// beats reports whether a row is better than another in one column by what counts, and
// not worse by as much in any.
func (b *bench) beats(x, y *FrontRow, columns []int) bool {
	better := false
	for i, k := range columns {
		m := b.columns[k].metric()
		d := float64(x.Values[i] - y.Values[i])
		if !m.more {
			d = -d
		}
		if d < -m.worth {
			return false
		}
		better = better || d > m.worth
	}
	return better
}

// changes are what a point changes of the file.
func (b *bench) changes(p Point) []Change {
	start := &b.starts[p[0]]
	changes := append([]Change{}, start.Changes...)
	for d, v := range p[1:] {
		dim := &start.Dimensions[d]
		if v == dim.Home {
			continue
		}
		c := Change{dim.Path, dim.Values[dim.Home], dim.Values[v], dim.Source}
		if i := slices.IndexFunc(changes, func(o Change) bool { return o.Path == dim.Path }); i >= 0 {
			changes[i].To = c.To
			continue
		}
		changes = append(changes, c)
	}
	return changes
}
