package deadletter

import (
	"testing"
	"time"
)

// A resolution is about the runs before it. Once a consumer has taken the letter and is lost with
// it, the outcome of its run is unknown.
func TestAResolutionIsUsedOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	taken := func() Stored {
		r := Stored{Letter: Letter{ID: "a", Group: "g", Reason: Unknown, State: Waiting}}
		r, _, err := r.Resolve(ResolvedAsFailed, "ann", "", now)
		if err != nil {
			t.Fatal(err)
		}
		if r = r.Take("drive", 0, now.Add(time.Minute), now); r.Resolved != ResolvedAsFailed {
			t.Fatal("who takes it does not learn that it is resolved")
		}
		return r
	}
	later := now.Add(time.Hour)
	t.Run("a lease that is over", func(t *testing.T) {
		if r, again := taken().Lost(later); again || r.State != Waiting || !r.Held() {
			t.Errorf("it waits and may be redriven: %v, %+v", again, r)
		}
	})
	t.Run("a verdict that its work did not run", func(t *testing.T) {
		r := taken()
		r, _, err := r.Settle(r.Token, Verdict{State: Waiting}, now)
		if err != nil || r.Resolved != ResolvedAsFailed {
			t.Errorf("%v: %+v", err, r)
		}
		if r = r.Take("drive", 0, now.Add(time.Minute), now); r.Resolved != ResolvedAsFailed {
			t.Error("forgotten, though nothing ran")
		}
	})
}
