//go:build !linux

package proxycmd

import "runtime/debug"

// letGo gives back what is free of the heap after the start.
func letGo() { debug.FreeOSMemory() }
