// Package testrace tells a test whether the race detector watches it.
package testrace

import "testing"

// Serial skips a test under the race detector. It is for tests of one goroutine, in which the
// race detector has nothing to find, and for long simulations, whose short ones run with it. It
// would make them ten times as slow. Their packages are tested without it, too: see mixed in
// .ci/test.
func Serial(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("this test runs without the race detector")
	}
}
