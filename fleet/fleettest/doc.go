// Package fleettest is the conformance suite for stores of package fleet, and a store in memory.
//
//	func TestStore(t *testing.T) {
//		fleettest.Run(t, func(t testing.TB) fleet.Store { return open(t, server) })
//	}
package fleettest
