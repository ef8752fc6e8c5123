package proxy

import "syscall"

// dieWithParent ends the child when the test binary is killed and no cleanup runs.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
