package quota

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// What becomes larger fills in time, since another process may have used it just now.
func TestAShareOfAQuota(t *testing.T) {
	const s = clock.Instant(time.Second)
	g := New(0, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10, Among: 1}})
	left := func(now clock.Instant) float64 { return g.Stats(now)[0].Left }
	set := func(now clock.Instant, part float64, on bool) {
		g.Share(now, func(*policy.Quota) (float64, bool) { return part, on })
	}
	for _, step := range []struct {
		fact string
		do   func()
		now  clock.Instant
		want float64
	}{
		{"a part is all that is left", func() { set(0, 0.1, true) }, 0, 10},
		{"it does not become more", func() {}, 50 * s, 10},
		{"a larger one fills", func() { set(50*s, 0.5, true) }, 50 * s, 10},
		{"at its own speed", func() {}, 70 * s, 20},
		{"and without a share so does the whole", func() { set(70*s, 0, false) }, 75 * s, 25},
		{"with none nothing is left", func() { set(75*s, 0, true) }, 175 * s, 0},
	} {
		if step.do(); left(step.now) != step.want {
			t.Errorf("%s: %v are left, want %v", step.fact, left(step.now), step.want)
		}
	}
	if r := g.Reserve(nil, "", 0); r.Now(175 * s) {
		t.Error("an attempt uses a quota of which this process has nothing")
	}
}
