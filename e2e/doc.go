// Package e2e holds what needs the outside world: tests against real servers,
// crash rigs and benchmarks beside gabion's peers.
//
// It is a module of its own and never released, so that its dependencies cost
// users of gabion nothing.
package e2e
