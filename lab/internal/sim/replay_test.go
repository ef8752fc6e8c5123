package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A recording of which the second call failed, and the third took long.
func recording() (at []time.Duration, met []Met) {
	return []time.Duration{0, 100 * ms, 200 * ms, 300 * ms}, []Met{{10 * ms, 200}, {20 * ms, 503}, {500 * ms, 200}, {5 * ms, 404}}
}

// tell plays a recording and returns when each call ended, and how.
func tell(t *testing.T, w *World) (ended []string) {
	t.Helper()
	r := RunWatched(w, 1, &Watch{Tell: func(_ uint64, _ int, e policy.Event) {
		if e.Kind == policy.KindReturned {
			ended = append(ended, time.Duration(e.At).String()+" "+e.Reason.String())
		}
	}})
	for _, b := range r.Broken {
		t.Error(b)
	}
	return ended
}

func TestRecordedCallsMeetWhatTheyMet(t *testing.T) {
	at, met := recording()
	world := func(n int, edit ...func(*policy.Policy)) *World {
		w := steady(tries(t, n, edit...), 0, time.Minute, Service{})
		w.Fleets[0] = Fleet{Clients: 1, Loop: Trace, At: at, Met: met, Plan: w.Fleets[0].Plan}
		return w
	}
	for _, c := range []struct {
		fact string
		w    *World
		want []string
	}{
		{"one try", world(1), []string{"10ms ok", "120ms attempts_exhausted", "305ms ok", "700ms ok"}},
		{"one that is sent again meets what the next call met", world(2), []string{"10ms ok", "305ms ok", "621ms ok", "700ms ok"}},
		{"timeouts are the policy's", world(1, attemptTimeout(100*ms)), []string{"10ms ok", "120ms attempts_exhausted", "300ms attempts_exhausted", "305ms ok"}},
	} {
		if got := tell(t, c.w); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.fact, got, c.want)
		}
	}
	// Faults and queues are there as well.
	w := world(1)
	w.Services[0].Workers, w.Services[0].Queue = 1, 10
	w.Faults = []Fault{{Kind: Slow, For: time.Minute, Factor: 2}}
	if got, want := tell(t, w), []string{"20ms ok", "140ms attempts_exhausted", "1.2s ok", "1.21s ok"}; !slices.Equal(got, want) {
		t.Errorf("twice as slow, with one worker: %q, want %q", got, want)
	}
}

// What a status means to a caller is what it means when a service answers it.
func TestRecordedStatuses(t *testing.T) {
	for status, want := range map[int]answer{
		-1: refused, 0: broken, 200: answered, 304: answered, 404: answered, 429: throttled, 500: failed, 501: 501, 502: badBelow, 503: busy, 504: expired, 529: overloaded, 599: 599,
	} {
		if got := (&Met{Status: status}).answer(); got != want {
			t.Errorf("%d is %d, want %d", status, got, want)
		}
	}
}
