package fleet

import (
	"cmp"
	"math"
	"slices"
)

// fill pours total over glasses until it is used up or all are full. Glass i has bases[i] in it, if bases are not nil,
// and is full at wants[i]. All that are filled stand at one level, and those below get up to it first:
// that is max–min fair. It returns what each is given, and the level.
//
// Whole numbers that are left when the level is reached go to those that hold most already, so that they do not move
// about, and among equals to the first.
func fill(total float64, wants, bases []float64, holders []*claim, whole bool) (given []float64, level float64) {
	base := func(i int) float64 {
		if bases == nil {
			return 0
		}
		return bases[i]
	}
	level = surface(total, wants, base)
	if whole {
		level = math.Floor(level)
	}
	given = make([]float64, len(wants))
	var open []int
	for i, want := range wants {
		given[i] = max(0, min(want, level)-base(i))
		total -= given[i]
		if want > level && base(i) <= level {
			open = append(open, i)
		}
	}
	if !whole {
		return given, level
	}
	slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(holders[b].force, holders[a].force) })
	for _, i := range open {
		if total < 1 {
			break
		}
		given[i]++
		total--
	}
	return given, level
}

// surface returns at which level the glasses stand when total is poured: at most the largest want.
func surface(total float64, wants []float64, base func(int) float64) (level float64) {
	type edge struct {
		at     float64
		glass  int
		opened int // 1 where a glass begins to be filled, -1 where it is full
	}
	var edges []edge
	for i, want := range wants {
		if want > base(i) {
			edges = append(edges, edge{base(i), i, 1}, edge{want, i, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.glass, b.glass), cmp.Compare(b.opened, a.opened))
	})
	open := 0
	for _, e := range edges {
		if more := (e.at - level) * float64(open); more > total {
			return level + total/float64(open)
		} else {
			total -= more
		}
		level = e.at
		open += e.opened
	}
	return level
}
