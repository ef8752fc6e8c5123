package stores

import (
	"os"
	"syscall"
)

// syncData is what databases use here: it leaves the file's times out.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
