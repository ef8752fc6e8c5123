package testservers

import "syscall"

// dieWithParent ends the child when the test binary is killed or times out and
// no cleanup runs.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
