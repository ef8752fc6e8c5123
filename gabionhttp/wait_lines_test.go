package gabionhttp

import (
	"net/http"
	"testing"
	"time"
)

// A proxy adds its own Retry-After to the server's. A caller that comes back before the later
// one is turned away.
func TestTheLongestRetryAfterCounts(t *testing.T) {
	noon := atNoon()
	date := func(d time.Duration) string { return noon.Add(d).UTC().Format(http.TimeFormat) }
	for _, tt := range []struct {
		lines []string
		want  time.Duration
		ok    bool
	}{
		{[]string{"1", "30"}, 30 * time.Second, true},
		{[]string{"30", "1"}, 30 * time.Second, true},
		{[]string{"", "7"}, 7 * time.Second, true},
		{[]string{"soon", "7"}, 7 * time.Second, true},
		{[]string{"7", "soon"}, 7 * time.Second, true},
		{[]string{"1", date(time.Minute)}, time.Minute, true},
		{[]string{date(-time.Minute), "0"}, 0, true},
		{[]string{date(-time.Minute), "soon"}, 0, false},
		{nil, 0, false},
	} {
		h := http.Header{"Retry-After": tt.lines}
		if got, ok := RetryAfter(h, noon); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %v, %v", tt.lines, got, ok)
		}
		if got, _ := waitFor(h, atNoon); got != tt.want {
			t.Errorf("%q: waits %v", tt.lines, got)
		}
	}
}
