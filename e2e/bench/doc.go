// Package bench runs gabion beside its peers: the same task, with the same
// settings, for every library, each result checked and the executions counted.
//
// The tasks are in [Contests]. One at a time:
//
//	go test -run '^$' -bench 'Contest/stack/' .
//
// All of them, with docs/performance.md as the result: make bench, which is
// go run ./report.
//
// It is a module of its own and never released, so that the libraries that gabion
// is compared with cost its users nothing.
package bench
