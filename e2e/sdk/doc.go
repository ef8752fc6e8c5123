// Package sdk shows that no SDK is worse off with gabion under it than alone: the same
// calls meet the same faults both ways, and what reached the wire, what was done and
// what the caller got are compared. One call at a time meets them over real sockets; loads meet
// them in virtual time, and the tables of docs/sdks.md are their output.
//
// It is a module of its own and never released.
package sdk
