//go:build unix

package mortal

import (
	"os"
	"syscall"
	"time"
)

// stop stops this process until it gets SIGCONT.
func stop() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-time.After(50 * time.Millisecond) // the signal stops other threads a moment later
}
