//go:build unix

package bench

import "syscall"

// cpu returns the CPU time that the process has used, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
