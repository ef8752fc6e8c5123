package crash

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testclock"
)

// J: servers whose clocks are five seconds apart, and jump by an hour during the test, share a store
// that has a clock of its own. Leases are a second and answers are kept for half an hour, and none ends
// early: every key has exactly one effect.
//
// The servers are built with a time.Now that lies. Stores whose clock is their process's are not here:
// SQLite's leases follow the machine's wall clock, and those of memory and bolt its monotonic one,
// which can't be set.
func TestClocksThatLie(t *testing.T) {
	if os.Getenv("GABION_SOAK") == "" {
		t.Skip("building servers with another clock takes minutes: it is part of GABION_SOAK=1")
	}
	t.Parallel()
	exe := testclock.Build(t)
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
				s.env = testclock.Env(c.offset, c.jumps...)
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
				for _, j := range c.jumps {
					want = j.Off
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

// clocks are the servers': how many seconds they are off, and when they jump.
var clocks = []struct {
	offset int
	jumps  []testclock.Jump
}{
	{0, nil}, {5, nil}, {-5, nil}, {5, []testclock.Jump{{After: 4, Off: 3600}}}, {-5, []testclock.Jump{{After: 6, Off: -3600}}},
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
