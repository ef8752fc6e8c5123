// Package inbox shows package idempotency/inbox at work between a real broker and a
// real database whose clients are killed.
//
// It is a module of its own and never released, so that its dependencies cost
// users of gabion nothing.
package inbox
