// Package gabionvet finds mistakes in Go code that turn a small failure of a dependency
// into an outage: loops that retry without jitter or end, clients without a timeout,
// bodies that are not closed before the next try, not drained or sent a second time when they are empty,
// idempotency keys that are new on every attempt, two layers that retry. What noctx, bodyclose, errorlint
// and govet find, it leaves to them: docs/vet.md says how to switch them on.
//
// Each rule is an [golang.org/x/tools/go/analysis.Analyzer] with a stable id, G101 and up,
// that its messages begin with and a page of docs/lint explains. The command
// cmd/gabionvet runs all of them, by itself or for go vet -vettool, and package golangci
// makes them a plugin of golangci-lint.
//
// A finding that is no mistake is ignored by a comment on its line or on the line above:
//
//	//gabion:ignore G101 one process, once a day: no other process retries at the same time
//
// The reason is mandatory, and an ignore that no longer matches anything is a finding (G191).
//
// The rules look at one package at a time. They say nothing of generated files and of
// tests, and nothing where they cannot see enough to be sure.
package gabionvet
