//go:build linux

package boltstore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gabion-go/gabion/internal/testservers"
)

const childLimit = "BOLTSTORE_TEST_LIMIT"

// limitSize bounds the files of a child, if its parent says so: like a full disk.
func limitSize() {
	n, err := strconv.ParseUint(os.Getenv(childLimit), 10, 64)
	if err != nil {
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		panic(err)
	}
}

func straceOrSkip(t *testing.T) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		testservers.Missing(t, "strace, which watches calls and makes them fail, is not installed")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		testservers.Missing(t, "strace may not trace here: %s", out)
	}
	return strace
}

// F, 49: the n-th call of a kind fails, in whatever it was needed for. What was
// acknowledged before is in the file, and nothing is acknowledged after.
func TestPoisonedByTheFirstFault(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a hundred processes run under strace")
	}
	strace := straceOrSkip(t)
	for _, c := range []struct {
		call, errno string
		most        int // of n
	}{
		{"fdatasync", "EIO", soak(60, 600)},
		{"pwrite64", "ENOSPC", soak(20, 200)},
		{"pwrite64", "EIO", soak(10, 100)},
		{"fsync", "EIO", 6},
		{"ftruncate", "ENOSPC", 6},
	} {
		t.Run(c.call+" "+c.errno, func(t *testing.T) {
			t.Parallel()
			for n := 1; n <= c.most; n++ {
				clients := 1 + n%2*7 // one alone is checked in the order of its calls
				fault(t, strace, c.call, c.errno, n, clients)
				if t.Failed() {
					t.Fatalf("call %d of %d clients", n, clients)
				}
			}
		})
	}
}

func fault(t *testing.T, strace, call, errno string, n, clients int) {
	file := newFile(t)
	calls := file + ".calls"
	w := run(t, file, "f", clients, 100_000, strace, "-f", "--seccomp-bpf", "-o", calls,
		"-e", "trace="+call+",write", "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, errno, n))
	if w.poisoned == 0 {
		t.Errorf("the store was not poisoned")
	}
	if clients == 1 {
		inOrder(t, calls)
	}
	w.check(t, file)
	sound(t, file)
	if n > 20 && len(w.granted) == 0 {
		t.Error("nothing was acknowledged before the fault")
	}
}

// inOrder reads the calls of a child with one client: none of its lines is an
// acknowledgement once a fault was injected.
func inOrder(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	faulty := false
	for line := range strings.Lines(string(text)) {
		faulty = faulty || strings.Contains(line, "(INJECTED)")
		if faulty && (strings.Contains(line, `write(1, "R `) || strings.Contains(line, `write(1, "D `)) {
			t.Errorf("acknowledged after the fault: %s", line)
		}
	}
	if !faulty {
		t.Error("no fault was injected")
	}
}

// A full disk is a fault like others: whether a page that could not be written was
// the only thing that is missing is nothing to bet on.
func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "records")
	for n, limit := range []int{1 << 20, 20 << 20} {
		w := run(t, file, strconv.Itoa(n), 8, 100_000, "env", childLimit+"="+strconv.Itoa(limit))
		if w.poisoned == 0 || len(w.done) == 0 {
			t.Errorf("limit %d: %d faults, %d done", limit, w.poisoned, len(w.done))
		}
		w.check(t, file) // here the disk has room again
	}
	sound(t, file)
}
