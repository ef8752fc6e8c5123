// Package atomic stands in for sync/atomic where each access is to be a step of
// [interleave.Step]. It has what the code under test uses of it, and is for one
// goroutine at a time.
package atomic

import "github.com/gabion-go/gabion/internal/interleave"

// Int32 stands in for that of sync/atomic.
type Int32 = word[int32]

// Int64 stands in for that of sync/atomic.
type Int64 = word[int64]

// Uint32 stands in for that of sync/atomic.
type Uint32 = word[uint32]

// Uint64 stands in for that of sync/atomic.
type Uint64 = word[uint64]

type word[T int32 | int64 | uint32 | uint64] struct{ v T }

func (w *word[T]) Load() T {
	interleave.Step()
	return w.v
}

func (w *word[T]) Store(v T) {
	interleave.Step()
	w.v = v
}

func (w *word[T]) Add(d T) T {
	interleave.Step()
	w.v += d
	return w.v
}

func (w *word[T]) Swap(v T) (old T) {
	interleave.Step()
	old, w.v = w.v, v
	return old
}

func (w *word[T]) CompareAndSwap(old, v T) bool {
	interleave.Step()
	if w.v != old {
		return false
	}
	w.v = v
	return true
}

func (w *word[T]) And(mask T) (old T) {
	interleave.Step()
	old = w.v
	w.v &= mask
	return old
}

func (w *word[T]) Or(mask T) (old T) {
	interleave.Step()
	old = w.v
	w.v |= mask
	return old
}

// Pointer stands in for that of sync/atomic.
type Pointer[T any] struct{ p *T }

// Load returns the pointer.
func (p *Pointer[T]) Load() *T {
	interleave.Step()
	return p.p
}

// Store replaces the pointer.
func (p *Pointer[T]) Store(v *T) {
	interleave.Step()
	p.p = v
}

// CompareAndSwap replaces the pointer if it is old.
func (p *Pointer[T]) CompareAndSwap(old, v *T) bool {
	interleave.Step()
	if p.p != old {
		return false
	}
	p.p = v
	return true
}
