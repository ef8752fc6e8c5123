// Package sdk shows that no SDK is worse off with gabion under it than alone: the same
// calls meet the same faults both ways, and what reached the wire, what was done and
// what the caller got are compared.
//
// It is a module of its own and never released.
package sdk
