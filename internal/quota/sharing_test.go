package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func sortTimes(t []time.Duration) { slices.Sort(t) }

func tokens(amount float64, span time.Duration) policy.Quota {
	return policy.Quota{Unit: "tokens", Amount: amount, Span: span, Estimate: 900, Among: 1}
}

func TestProcessesThatShareAQuotaUseItWhole(t *testing.T) {
	for _, span := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute} {
		for _, window := range []bool{false, true} {
			for _, n := range []int{1, 10, 50} {
				for _, wrong := range []float64{1, 3, 1.0 / 3} {
					q := tokens(1_000_000, span)
					q.Window = window
					w := world{rand: rand.New(rand.NewPCG(1, 2)), processes: n, callers: 200 / n, quota: q, wrong: wrong, provider: provider{lies: -1}}
					if span > 10*time.Second {
						w.callers = max(40/n, 2)
					}
					r := w.play(2, 10)
					fmt.Printf("span %v window %t n %d wrong %.2f: share %.3f refused %.4f served %d p99 %v\n", span, window, n, wrong, r.share, r.refused, r.served, r.p99)
				}
			}
		}
	}
}
