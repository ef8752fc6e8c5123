package boltstore

import (
	"os"
	"syscall"
)

// datasync is what bbolt syncs with.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
