package classify

import (
	"net"
	"os"
	"syscall"
	"testing"
)

func TestAWriteIntoATeardownOfDarwin(t *testing.T) {
	err := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPROTOTYPE)}
	if got := Error(err); got != sentNet {
		t.Errorf("Error(%v) = %+v, want %+v", err, got, sentNet)
	}
}
