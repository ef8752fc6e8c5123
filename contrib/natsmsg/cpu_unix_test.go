//go:build unix

package natsmsg

import (
	"syscall"
	"time"
)

// cpuTime is the time that the processors have given this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
