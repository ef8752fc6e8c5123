// Package idempotency makes a repeated request harmless: every request with the same key
// gets the first answer, and the work is done once.
//
// A [Handler] wraps an http.Handler. It claims the request's key in a [Store]
// before the work begins, keeps the claim alive while it runs, and stores the
// response before the client sees it. What may happen when a process dies in
// between is declared for each route, as a [Guarantee]:
//
//	GuaranteeTx         effects and record commit in one SQL transaction: exactly once
//	GuaranteeHold       a run that was lost is never repeated: at most once
//	GuaranteeReexecute  a run that was lost is repeated: at least once
//
// These documents call them Tx, Hold and Reexecute. "Unknown" is what can't be known without
// looking outside: the state of a record, the decision about a claim, the outcome of a run.
//
// A [Runner] is the same for work that does not come by HTTP: package
// idempotency/inbox is one for messages.
//
// A record is a small state machine ([Record.Begin] and [Record.Apply]) in which time is an
// argument. A store only reads a record, asks the machine and writes the result under a
// compare-and-set, so all stores decide alike. Package idempotencytest is the test suite
// for that.
//
// Three things never happen. No key has two live claims. No run changes a record that
// another run has taken over. No work that is done runs again before its record expires.
package idempotency
