package policy_test

import (
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestFailuresAreReadByReason(t *testing.T) {
	var f policy.Failures
	for i, r := range policy.Reasons() {
		f[r] = int64(i)
	}
	for i, r := range policy.Reasons() {
		if got := f.Of(r); got != int64(i) {
			t.Errorf("%s: %d, want %d", r, got, i)
		}
	}
	if n := f.Of(policy.Reason(len(f))); n != 0 {
		t.Errorf("a reason that there is not: %d", n)
	}
}
