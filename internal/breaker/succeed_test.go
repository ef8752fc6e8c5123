package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Succeed is Settle with Good, under all rules and while they change: two breakers get the same calls, and
// the successes of one are told by the one, and those of the other by the other.
func TestSucceedIsSettle(t *testing.T) {
	base := Rules{Window: time.Second, MinCalls: 4, FailureRate: 0.5, Open: 50 * time.Millisecond, Probes: 2, ProbeTimeout: time.Second}
	byCount, slow, ageing, run := base, base, base, base
	byCount.Window, byCount.WindowCalls = 0, 10
	slow.SlowCall, slow.SlowRate = 20*time.Millisecond, 0.5
	ageing.SlowCall, ageing.SlowRate, ageing.InFlight = 20*time.Millisecond, 0.5, true
	run.Consecutive, run.CountRun = 3, true
	all := []*Rules{&base, &byCount, &slow, &ageing, &run}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 27))
		first := all[random.IntN(len(all))]
		left, right := New(first, 1, seed, nil), New(first, 1, seed, nil)
		type call struct{ left, right Permit }
		var out []call
		now := clock.Instant(0)
		for move := range 300 {
			now = now.Add(time.Duration(random.IntN(10)) * time.Millisecond)
			switch n := random.IntN(20); {
			case n == 0:
				r := all[random.IntN(len(all))]
				left.SetRules(now, r)
				right.SetRules(now, r)
			case n < 10 || len(out) == 0:
				var c call
				var may, mayToo bool
				if c.left, may = left.Pass(now); !may {
					c.left, _, may = left.Acquire(now, 0)
				}
				if c.right, mayToo = right.Pass(now); !mayToo {
					c.right, _, mayToo = right.Acquire(now, 0)
				}
				if may != mayToo {
					t.Fatalf("seed %d, move %d: one admits, the other does not", seed, move)
				}
				if may {
					out = append(out, c)
				}
			default:
				i := random.IntN(len(out))
				c := out[i]
				out = append(out[:i], out[i+1:]...)
				if n < 14 {
					left.Settle(now, 0, c.left, Bad, 0)
					right.Settle(now, 0, c.right, Bad, 0)
				} else {
					left.Succeed(now, 0, &c.left)
					right.Settle(now, 0, c.right, Good, 0)
				}
			}
			if left.State() != right.State() {
				t.Fatalf("seed %d, move %d: Succeed: %v, Settle: %v", seed, move, left.State(), right.State())
			}
			if random.IntN(10) == 0 {
				if a, b := left.Snapshot(now), right.Snapshot(now); a != b {
					t.Fatalf("seed %d, move %d: Succeed: %+v, Settle: %+v", seed, move, a, b)
				}
			}
		}
	}
}

// A success that passed before calls were watched is judged with those that are watched now.
func TestASuccessIsJudgedWithTheCallsThatAreWatched(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	plain := Rules{Window: time.Second, MinCalls: 1, SlowCall: 20 * time.Millisecond, SlowRate: 0.5, Open: time.Second}
	watching := plain
	watching.InFlight = true
	b := New(&watching, 1, 1, nil)
	for range 2 {
		if _, _, ok := b.Acquire(0, 0); !ok {
			t.Fatal("a closed breaker refuses")
		}
	}
	b.SetRules(24*ms, &plain)
	p, ok := b.Pass(25 * ms)
	if !ok {
		t.Fatal("a closed breaker does not let through")
	}
	b.SetRules(26*ms, &watching)
	if b.Succeed(30*ms, 0, &p); b.State() != Open {
		t.Errorf("%v, while two of three calls are slow", b.State())
	}
}
