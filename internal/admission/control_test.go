package admission

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

const ms = time.Millisecond

func at(d time.Duration) clock.Instant { return clock.Instant(0).Add(d) }

// A said is one call of a control's method.
type said struct {
	at     time.Duration
	what   string // late, served, full, free or taken
	waited time.Duration
}

func (s said) tell(c *control) {
	switch now := at(s.at); s.what {
	case "late":
		c.late(now)
	case "served":
		c.served(now, s.waited)
	case "full":
		c.noRoom(now)
	case "free":
		c.arrived(now, true)
	case "taken":
		c.arrived(now, false)
	}
}

// every is the same again and again.
func every(step, from, to time.Duration, s said) (all []said) {
	for s.at = from; s.at <= to; s.at += step {
		all = append(all, s)
	}
	return all
}

func TestWhatIsAnOverload(t *testing.T) {
	long := said{what: "served", waited: 30 * ms}
	over := every(10*ms, 0, 100*ms, long) // at 100 ms
	for _, c := range []struct {
		fact string
		told [][]said
		want state
	}{
		{"nothing is", nil, calm},
		{"no request is served in time for an interval", [][]said{over}, overload},
		{"a moment less than an interval is no overload", [][]said{every(10*ms, 0, 90*ms, long)}, standing},
		{"one who is served in time ends the count", [][]said{every(10*ms, 0, 90*ms, long), {{at: 95 * ms, what: "served", waited: 4 * ms}}, every(10*ms, 96*ms, 190*ms, long)}, standing},
		{"one who finds a free slot ends the count", [][]said{every(10*ms, 0, 90*ms, long), {{at: 95 * ms, what: "free"}}, every(10*ms, 96*ms, 190*ms, long)}, standing},
		{"a short queue that is full for an interval", [][]said{every(2*ms, 0, 110*ms, said{what: "full"}), {{at: 111 * ms, what: "served", waited: ms}}}, overload},
		{"a queue that was full once is no overload", [][]said{{{what: "full"}, {at: 30 * ms, what: "served", waited: ms}}, every(10*ms, 40*ms, 120*ms, long)}, standing},
		{"what waits may be served in time by chance", [][]said{over, {{at: 120 * ms, what: "served", waited: ms}}}, overload},
		{"it goes on while fewer than a tenth find a free slot", [][]said{over, every(5*ms, 105*ms, 195*ms, said{what: "taken"}), {{at: 196 * ms, what: "free"}}, {{at: 205 * ms, what: "taken"}}}, overload},
		{"it ends when a tenth does", [][]said{over, every(15*ms, 105*ms, 190*ms, said{what: "taken"}), {{at: 196 * ms, what: "free"}}, {{at: 205 * ms, what: "taken"}}}, calm},
		{"it goes on when all wait again soon after it has ended", [][]said{over, {{at: 301 * ms, what: "taken"}}, every(5*ms, 310*ms, 320*ms, long)}, overload},
		{"all have to wait for a moment at least", [][]said{over, {{at: 301 * ms, what: "taken"}}, every(5*ms, 310*ms, 315*ms, long)}, standing},
		{"it begins anew when they wait again later", [][]said{over, {{at: 301 * ms, what: "taken"}}, every(10*ms, 510*ms, 600*ms, long)}, standing},
		{"it ends when no request comes for an interval", [][]said{over, every(10*ms, 105*ms, 150*ms, said{what: "taken"}), {{at: 301 * ms, what: "taken"}}}, calm},
	} {
		t.Run(c.fact, func(t *testing.T) {
			x := control{target: 5 * ms, interval: 100 * ms}
			for _, part := range c.told {
				for _, s := range part {
					s.tell(&x)
				}
			}
			if x.state != c.want {
				t.Errorf("state %d, want %d", x.state, c.want)
			}
		})
	}
}

func TestWithoutAnIntervalThereIsNoOverload(t *testing.T) {
	var x control
	for now := time.Duration(0); now < time.Minute; now += time.Second {
		x.noRoom(at(now))
		x.served(at(now), time.Hour)
		x.arrived(at(now), false)
	}
	if x.state != calm {
		t.Errorf("state %d", x.state)
	}
}

// history is what a control was told, from which a model works out anew what is so.
type history []said

// inTime reports whether fact i is of one who was served in time.
func (h history) inTime(i int) bool {
	s := h[i]
	if s.what == "free" {
		return true
	}
	if s.what != "served" || s.waited >= 5*ms {
		return false
	}
	return !slices.ContainsFunc(h[:i], func(f said) bool { return f.what == "full" && s.at-f.at < 5*ms })
}

// late reports whether fact i is of one who had to wait for long.
func (h history) late(i int) bool {
	return h[i].what == "late" || h[i].what == "full" || h[i].what == "served" && !h.inTime(i)
}

// overload reports whether it is an overload at the end, and where it began.
func (h history) overload() bool {
	from := 0 // what came before counts no more
	for {
		at := h.begins(from)
		if at < 0 {
			return false
		}
		end := h.ends(at)
		if end < 0 {
			return true
		}
		from = end + 1
	}
}

// needs is for how long all must have had to wait at a fact: not for long where an overload
// ended just before fact from.
func (h history) needs(i, from int) time.Duration {
	if from > 0 && h[i].at-h[from-1].at < 200*ms {
		return 10 * ms
	}
	return 100 * ms
}

// begins returns the first fact at which an overload begins: a late request, an interval after
// another late one, with none served in time in between.
func (h history) begins(from int) int {
	for i := from; i < len(h); i++ {
		first := -1
		for k := i; k >= from && !h.inTime(k); k-- {
			if h.late(k) {
				first = k
			}
		}
		if h.late(i) && first >= 0 && first < i && h[i].at-h[first].at >= h.needs(i, from) {
			return i
		}
	}
	return -1
}

// ends returns the fact at which an overload ends that began with another.
func (h history) ends(began int) int {
	since, came, found := h[began].at, 0, 0
	for i := began + 1; i < len(h); i++ {
		if h[i].what != "free" && h[i].what != "taken" {
			continue
		}
		if lasted := h[i].at - since; lasted >= 100*ms {
			if lasted >= 200*ms || 10*found >= came {
				return i
			}
			since, came, found = h[i].at, 0, 0
		}
		came++
		if h[i].what == "free" {
			found++
		}
	}
	return -1
}

func FuzzControl(f *testing.F) {
	f.Add([]byte{1, 40, 1, 40, 1, 40, 4, 60, 3, 60, 4, 200})
	f.Add([]byte{2, 2, 2, 2, 2, 255, 1, 1, 3, 3, 0, 90, 0, 90})
	f.Fuzz(func(t *testing.T, script []byte) {
		x := control{target: 5 * ms, interval: 100 * ms}
		var h history
		var now time.Duration
		for i := 0; i+1 < min(len(script), 400); i += 2 {
			now += time.Duration(script[i+1]) * ms / 2
			s := said{at: now, what: []string{"late", "served", "full", "free", "taken", "served"}[script[i]%6]}
			if script[i]%6 == 1 {
				s.waited = 30 * ms
			}
			s.tell(&x)
			h = append(h, s)
			if got := x.state == overload; got != h.overload() {
				t.Fatalf("overload %v, want %v, after %+v", got, !got, h)
			}
		}
	})
}
