package machine

import (
	"github.com/gabion-go/gabion/policy"
	"runtime"
	"testing"
)

// A fleet of a million simulated clients has a million States (SPEC L6, LAB S3).
func TestAStateIsSmall(t *testing.T) {
	bare := policy.Policy{Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}}
	guarded := policy.Policy{Bulkhead: policy.Bulkhead{Off: true}}
	for _, c := range []struct {
		fact string
		p    policy.Policy
		most int
	}{
		{"retry and budget take at most 210 bytes", bare, 210},
		{"a breaker makes it at most 640 bytes", guarded, 640},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := bytesPerState(t, c.p); got > c.most {
				t.Errorf("a State takes %d bytes", got)
			} else {
				t.Logf("a State takes %d bytes", got)
			}
		})
	}
}

// bytesPerState measures what stays allocated, size classes included.
func bytesPerState(t *testing.T, p policy.Policy) int {
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	states := make([]*State, 20_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range states {
		states[i] = NewState(0, r, Setup{Seed: uint64(i)})
	}
	runtime.GC() // 32-bit machines make some of it on the heap and copy it
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(states)
	return int(after.HeapAlloc-before.HeapAlloc) / len(states)
}

func TestEveryKindFitsIntoKinds(t *testing.T) {
	for _, k := range policy.Kinds() {
		if k >= 32 {
			t.Errorf("%s is bit %d of 32", k, k)
		}
	}
}
