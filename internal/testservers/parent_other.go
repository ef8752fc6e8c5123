//go:build unix && !linux

package testservers

import "syscall"

// dieWithParent can't be had here: a test that is killed leaves its servers.
func dieWithParent(*syscall.SysProcAttr) {}
