// Package testrace tells a test whether the race detector watches it.
package testrace

import "testing"

// Serial skips a test under the race detector. It is for tests of one goroutine: the race
// detector has nothing to find in them, and makes them ten times as slow. Their packages are
// tested without it, too: see SERIAL and MIXED in the Makefile.
func Serial(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine: this test runs without the race detector")
	}
}
