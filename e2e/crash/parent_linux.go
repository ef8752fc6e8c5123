package crash

import "syscall"

// dieWithParent ends the child when the test binary is killed or times out and
// no cleanup runs, also one that is stopped and can't see its input end.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// killAll ends a process and what it started, such as what a tracer traces.
func killAll(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
