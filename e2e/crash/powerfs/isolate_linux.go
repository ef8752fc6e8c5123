package powerfs

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const (
	isolatedEnv = "GABION_CRASH_ISOLATED"
	noMount     = "FUSE file systems can't be mounted here: "
)

// Isolated reports whether this process may mount disks: its mounts are its own, end
// with it, and are in no other process's way. Otherwise it runs the test again in
// such a process and reports how that ended; the caller returns. Where nothing can be
// mounted it skips the test.
func Isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) != "" {
		probe(t)
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=50m")
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.SysProcAttr = ownMounts()
	runtime.LockOSThread() // the child ends with the thread that started it
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("a process can't have mounts of its own here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), noMount):
		_, why, _ := strings.Cut(string(out), noMount)
		why, _, _ = strings.Cut(why, "\n")
		t.Skip(noMount + why)
	default:
		t.Logf("%s", out)
	}
	return false
}

// ownMounts are the attributes of a process with mounts of its own. A user other than root becomes root
// in there.
func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags = syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// probe skips the test where nothing can be mounted.
func probe(t *testing.T) {
	t.Helper()
	d, err := Mount(t.TempDir(), nil)
	if err != nil {
		t.Skip(noMount + err.Error())
	}
	if err := d.Unmount(); err != nil {
		t.Fatal(err)
	}
}
