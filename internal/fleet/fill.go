package fleet

import (
	"cmp"
	"math"
	"slices"
)

// fill divides total among wants max–min fairly: it pours until all that want more stand at one level. It returns
// what each is given, and that level, or the largest want if total is enough for all. Whole numbers that
// are left when the level is reached go to those that hold most already, so that they do not move about, and
// among equals to the first.
func fill(total float64, wants []float64, holders []*claim, whole bool) (given []float64, level float64) {
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(wants[a], wants[b]) })
	given = make([]float64, len(wants))
	for k, i := range order {
		level = total / float64(len(order)-k)
		if wants[i] > level {
			pour(total, level, order[k:], wants, given, holders, whole)
			return given, level
		}
		given[i] = wants[i]
		total -= wants[i]
		level = wants[i]
	}
	return given, level
}

// pour gives the same to all in order, each of which wants more than level.
func pour(total, level float64, order []int, wants, given []float64, holders []*claim, whole bool) {
	if !whole {
		for _, i := range order {
			given[i] = level
		}
		return
	}
	level = math.Floor(level)
	left := int(total - level*float64(len(order)))
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(holders[b].force, holders[a].force), cmp.Compare(a, b))
	})
	for k, i := range order {
		given[i] = level
		if k < left {
			given[i]++ // it wants at least that: wants are whole, and larger than level
		}
	}
}
