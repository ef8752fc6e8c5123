// Package sync stands in for the standard library's where each access is to be a
// step of [interleave.Step]. It has what the code under test uses of it, and is
// for one goroutine at a time.
package sync

import "github.com/gabion-go/gabion/internal/interleave"

// Mutex stands in for that of the standard library. The zero Mutex is free.
type Mutex struct{ held bool }

// Lock waits until the mutex is free.
func (m *Mutex) Lock() {
	interleave.Wait(func() bool { return !m.held })
	m.held = true
}

// TryLock takes the mutex if it is free.
func (m *Mutex) TryLock() bool {
	interleave.Step()
	if m.held {
		return false
	}
	m.held = true
	return true
}

// Unlock frees the mutex.
func (m *Mutex) Unlock() {
	interleave.Step()
	if !m.held {
		panic("interleave: unlock of a mutex that is free")
	}
	m.held = false
}
