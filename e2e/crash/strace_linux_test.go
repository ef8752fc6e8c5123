package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

// F, on the real system calls: the nth fsync or fdatasync of a SQLite server fails
// with EIO. The kernel's cache outlives the server, so this tells what the server
// makes of the error, and TestFailedSyncs what the disk does. (The store in bolt has
// such a test in its own package.)
func TestFailedSystemCalls(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		testservers.Missing(t, "strace, which makes calls fail, is not installed")
	}
	if out, err := exec.Command(strace, "-qq", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		testservers.Missing(t, "strace may not trace here: %v %s", err, out)
	}
	l := &load{rig: newRig(t, storeNamed("sqlite"), "", 300*time.Millisecond)}
	lives, failed := soak(10, 600), 0
	for n := range lives {
		seen := filepath.Join(t.TempDir(), fmt.Sprint(n))
		p, err := launch(l.settings, strace, "-f", "-qq", "-o", seen, "-e", "trace=fsync,fdatasync", "-e", "signal=none",
			"-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d", 1+3*n%60))
		if err == nil {
			l.run(p, func() { time.Sleep(100*time.Millisecond + l.draw(100*time.Millisecond)) })
		}
		text, _ := os.ReadFile(seen) // missing is like empty: nothing failed
		switch hit := bytes.Contains(text, []byte("(INJECTED)")); {
		case hit:
			failed++
		case err != nil: // it may refuse to start, but not for nothing
			t.Fatal(err)
		}
	}
	l.finish(t, lives, 1)
	if failed == 0 {
		t.Error("no system call failed: the rig has no teeth")
	}
	t.Logf("a call failed in %d of %d lives", failed, lives)
}
