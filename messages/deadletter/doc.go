// Package deadletter keeps messages that their consumers gave up, until somebody has looked
// at them: with payload, headers, key, source, and what happened at each attempt. They
// are listed, shown, resolved, dropped, and redriven at a bounded rate by the consumers
// themselves, under the consumers' own policy and with the same key.
//
// A [Store] keeps them.
package deadletter
