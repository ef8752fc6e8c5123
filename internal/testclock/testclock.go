// Package testclock builds test programs whose wall clock can be wrong.
//
// A Go program asks the kernel for the time without a system call, so that nothing from
// outside can lie to it. These programs are built with a time.Now that does. The monotonic
// clock is left alone, as it is when a machine's clock is set.
package testclock

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// env sets the clock of a program that Build made: how far it is off, and pairs of after how
// long and to how far off it jumps, all in seconds.
const env = "GABION_TEST_CLOCK"

// A Jump is when the clock of a program is set, in seconds after its start, and how far it is
// off from then on.
type Jump struct{ After, Off int }

// Env returns what has to be in the environment of a program that Build made: its clock is off by
// off seconds, and jumps. Jumps are in the order of their time.
func Env(off int, jumps ...Jump) string {
	text := fmt.Sprintf("%s=%d", env, off)
	for _, j := range jumps {
		text += fmt.Sprintf(",%d,%d", j.After, j.Off)
	}
	return text
}

const rigged = `package time

import (
	"sync"
	"syscall"
)

var rigClock = sync.OnceValue(func() []int64 {
	text, _ := syscall.Getenv("` + env + `")
	clock, sign := []int64{0}, int64(1)
	for i := 0; i < len(text); i++ {
		switch b := text[i]; b {
		case '-':
			sign = -1
		case ',':
			clock, sign = append(clock, 0), 1
		default:
			clock[len(clock)-1] = clock[len(clock)-1]*10 + sign*int64(b-'0')
		}
	}
	return clock
})

func rigOffset(mono int64) int64 {
	clock := rigClock()
	off := clock[0]
	for i := 1; i+1 < len(clock) && mono-startNano > clock[i]*1e9; i += 2 {
		off = clock[i+1]
	}
	return off
}
`

// Build builds the tests of the package in the working directory with a standard library whose
// wall clock can be off, and returns the program. It takes minutes. The test is skipped where there is
// no go command.
func Build(t testing.TB) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		lacks(t, "there is no go command to build the program with: %v", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		lacks(t, "there is no source of the standard library: %v", err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatal("time.Now is written otherwise in this version of Go: see testclock.Build")
	}
	dir := t.TempDir()
	now, offset, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "rig.go"), filepath.Join(dir, "overlay.json")
	places, err := json.Marshal(map[string]any{"Replace": map[string]string{
		source: now, filepath.Join(filepath.Dir(source), "rig.go"): offset,
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		now: strings.Replace(string(text), reads, reads+"\tsec += rigOffset(mono)\n", 1), offset: rigged, overlay: string(places),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", exe, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return exe
}

// lacks ends a test that lacks something, as a failure where nothing may be missing.
func lacks(t testing.TB, text string, err error) {
	t.Helper()
	if os.Getenv("GABION_REQUIRE_SERVERS") == "1" {
		t.Fatalf(text, err)
	}
	t.Skipf(text, err)
}
