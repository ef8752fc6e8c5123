package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// J: servers whose clocks are five seconds apart, and jump by an hour meanwhile,
// share a store that has a clock of its own. Leases are a second and answers are
// kept for half an hour, and none ends early: every key has exactly one effect.
//
// A Go program asks the kernel for the time without a system call, so that nothing
// from outside can lie to it; these servers are built with a time.Now that does.
// Stores whose clock is their process's are not here: SQLite's leases follow the
// machine's wall clock, and those of memory and bolt its monotonic one, which
// nobody sets.
func TestClocksThatLie(t *testing.T) {
	if os.Getenv("GABION_SOAK") == "" {
		t.Skip("building servers with another clock takes minutes: it is part of GABION_SOAK=1")
	}
	t.Parallel()
	exe := buildSkewed(t)
	for _, kind := range stores {
		if !kind.shared || kind.name == "sqlite" {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kind, "", time.Second)
			r.calm = true
			r.settings.Keep, r.settings.exe = 30*time.Minute, exe
			var servers []*process
			for _, c := range clocks {
				s := r.settings
				s.env = fmt.Sprintf("%s=%d,%d,%d", clockEnv, c.offset, c.jumpAfter, c.jumpTo)
				p, err := launch(s)
				if err != nil {
					t.Fatal(err)
				}
				defer p.kill()
				servers = append(servers, p)
			}
			r.duplicates(servers, 200, 12, 1500*time.Millisecond)
			for i, c := range clocks {
				want := c.offset
				if c.jumpAfter > 0 {
					want = c.jumpTo
				}
				if got := offsetOf(t, servers[i]); got < want-2 || got > want+2 {
					t.Errorf("server %d: its clock is %d s off, want %d", i, got, want)
				}
			}
			r.verify(t)
			t.Logf("%d keys, %d requests", len(r.histories), r.requests())
		})
	}
}

// clocks are the servers', in seconds: how far they are off, and after when they jump
// to how far off.
var clocks = []struct{ offset, jumpAfter, jumpTo int }{
	{0, 0, 0}, {5, 0, 0}, {-5, 0, 0}, {5, 4, 3600}, {-5, 6, -3600},
}

// offsetOf returns how far the server's clock is off, by what net/http writes.
func offsetOf(t *testing.T, p *process) int {
	t.Helper()
	res, err := http.Get(p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	says, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return int(time.Until(says).Seconds())
}

// clockEnv sets the clock of a server that buildSkewed made, in seconds: how far it
// is off, when it jumps, and to how far off then.
const clockEnv = "GABION_CRASH_CLOCK"

const skewedNow = `package time

import (
	"sync"
	"syscall"
)

var rigClock = sync.OnceValue(func() (clock [3]int64) {
	text, _ := syscall.Getenv("` + clockEnv + `")
	n, sign := 0, int64(1)
	for i := 0; i < len(text) && n < len(clock); i++ {
		switch b := text[i]; b {
		case '-':
			sign = -1
		case ',':
			n, sign = n+1, 1
		default:
			clock[n] = clock[n]*10 + sign*int64(b-'0')
		}
	}
	return clock
})

func rigOffset(mono int64) int64 {
	clock := rigClock()
	if clock[1] != 0 && mono-startNano > clock[1]*1e9 {
		return clock[2]
	}
	return clock[0]
}
`

// buildSkewed builds this package with a standard library whose wall clock can be
// off. The monotonic clock is left alone, as it is when a machine's clock is set.
func buildSkewed(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		if os.Getenv("GABION_REQUIRE_SERVERS") == "1" {
			t.Fatalf("there is no go command to build the program with: %v", err)
		}
		t.Skipf("there is no go command to build the program with: %v", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Skipf("there is no source of the standard library: %v", err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatal("time.Now is written otherwise in this version of Go: see buildSkewed")
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
		now: strings.Replace(string(text), reads, reads+"\tsec += rigOffset(mono)\n", 1), offset: skewedNow, overlay: string(places),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "server")
	if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return exe
}
