// Package machine decides.
//
// A [State] is what the calls of one dependency share. A [Call] is the machine: it
// answers for one call with one of three verbs, send, wait and return. Nothing here reads
// a clock, starts a goroutine or knows a context. The time is an argument, and random
// numbers follow from a seed, so that a program and the simulator run this very code.
package machine
