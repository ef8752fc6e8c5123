// Package uuid stands in for the real one.
package uuid

type UUID [16]byte

func (UUID) String() string { return "" }

func New() UUID         { return UUID{} }
func NewString() string { return "" }
