// Package machine decides.
//
// A [State] is what one dependency's calls share. A [Call] is the machine that
// answers, for one call, with one of three verbs: send, wait, return. Nothing here
// reads a clock, draws a random number, starts a goroutine or knows a context: time
// and chance are arguments, so that the program and the simulator run this very
// code.
package machine
