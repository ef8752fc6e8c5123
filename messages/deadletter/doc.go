// Package deadletter keeps messages that their consumers gave up, until an operator has looked at
// them: with payload, headers, key, source, and what happened at each attempt. Operators list,
// show, resolve, drop and redrive them. The consumers themselves redrive letters at a bounded rate,
// under their own policy and with the same key.
//
// A [Store] keeps them.
package deadletter
