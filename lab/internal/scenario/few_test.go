package scenario

import "testing"

// A service that is gone for good: what one and two runs break, whatever an assertion is
// about, does not hold, and the exit code says so.
func TestOneRunThatBreaksAnAssertionIsEnough(t *testing.T) {
	const gone = `version: 1
title: x
duration: 100s
during: 20s..40s
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}]}
services:
  db: {time: 1ms}
faults:
  - {kind: down, service: db, at: 20s, for: 80s}
policies:
  db: ` + callOnly + `
assert:
  - `
	for _, c := range []struct {
		claim string
		want  Holds // of one run; two say so too where it is no
	}{
		{"recovery <= 30s", No},
		{"recovery <= 30s p80", No},
		{"stuck <= 50%", No},
		{"goodput >= 1% after", No},
		{"goodput >= 1% p10 during", No},
		{"failed <= 10% during", No},
		{"amplification <= 0.5", No},
		{"received(db) == 0 before", No},
		{"goodput >= 1%", Unsure}, // it holds, and one run proves nothing
		{"failed_time <= 1h during", Unsure},
		{"p99 <= 1s after", Unsure}, // nothing is answered, so nothing is known
	} {
		for _, n := range []int{1, 2} {
			v := study(t, gone+c.claim+"\n", Options{Replications: n, Alone: true}).Sides[0].Asserts[0]
			if v.Holds != c.want && (n == 1 || c.want == No) {
				t.Errorf("%d runs say of %s: %s (%v)", n, c.claim, v.Holds, v.Measured)
			}
		}
	}
}
