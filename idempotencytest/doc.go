// Package idempotencytest is the conformance suite for stores of idempotency records. The
// promises of package idempotency need stores that all decide alike.
//
//	func TestStore(t *testing.T) {
//		idempotencytest.Run(t, idempotencytest.Config{
//			Open: func(t testing.TB) idempotency.Store { return open(t, server) },
//			Again: func(t testing.TB, _ idempotency.Store, _ time.Duration) idempotency.Store {
//				return open(t, server) // on connections of its own
//			},
//		})
//	}
//
// [RunTx] is for stores that commit effects as well.
//
// Letters and numbers in the tests' names only distinguish the cases.
package idempotencytest
