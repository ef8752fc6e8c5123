//go:build !linux

package crash

import (
	"os"
	"syscall"
)

// dieWithParent can't be had here; the child watches its input.
func dieWithParent() *syscall.SysProcAttr { return nil }

// killAll ends a process.
func killAll(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
	}
}
