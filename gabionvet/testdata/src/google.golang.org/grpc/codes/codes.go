// Package codes stands in for the real one.
package codes

type Code uint32

const Unavailable Code = 14
