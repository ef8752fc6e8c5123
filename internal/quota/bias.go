package quota

import "math"

// bias learns how far estimates are from what attempts use: a factor for the next ones, and how much
// the corrected estimates still miss.
type bias struct {
	used, thought float64 // sums that forget
	miss          float64 // mean of how far an estimate that was corrected is off
	n             int
}

const (
	forget   = 0.98 // what an answer keeps of the sums: some fifty count
	mostBias = 100.0
)

// factor is what an estimate is multiplied with.
func (b *bias) factor() float64 {
	if b.n == 0 || b.thought <= 0 {
		return 1
	}
	return min(max(b.used/b.thought, 1/mostBias), mostBias)
}

// learn takes what an attempt used that was thought to use estimate, and was reserved want.
func (b *bias) learn(estimate, want, used float64) {
	if estimate <= 0 {
		return
	}
	b.used, b.thought = b.used*forget+used, b.thought*forget+estimate
	b.n++
	share := max(1-forget, 1/float64(b.n))
	b.miss += share * (math.Abs(used-want) - b.miss)
}
