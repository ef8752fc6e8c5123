package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// maxLines bounds a timeline twice: the first decisions are kept, and the first from
// shortly before the trouble.
const (
	maxLines = 20_000
	shortly  = 10 * time.Second
)

// timeline keeps decisions.
type timeline struct {
	lines  []TimelineLine
	begins clock.Instant // the part around the trouble
	room   [2]int        // for lines before that, and from then on
}

// add keeps a line if there is room. The last one says that there is no more.
func (t *timeline) add(at clock.Instant, l TimelineLine) {
	part := 0
	if at >= t.begins {
		part = 1
	}
	if t.room[part]--; t.room[part] == 0 {
		l.Text = "and more than can be kept"
	}
	if t.room[part] >= 0 {
		t.lines = append(t.lines, l)
	}
}

// watch runs the first replication once more and writes down what was decided about
// the calls of one client.
func (f *File) watch(o *Options, side *runs) ([]TimelineLine, error) {
	fleet := slices.IndexFunc(f.fleets, func(c namedFleet) bool { return c.name == o.Watch })
	if fleet < 0 {
		names := make([]string, len(f.fleets))
		for i, c := range f.fleets {
			names[i] = c.name
		}
		return nil, fmt.Errorf("there are no clients %q: %s", o.Watch, oneOf(o.Watch, names))
	}
	if count := int(f.fleets[fleet].Count); o.WatchClient >= count || o.WatchClient < 0 {
		return nil, fmt.Errorf("%s are %d: there is no client %d", o.Watch, count, o.WatchClient)
	}
	seed := f.seedOf(o.Seed, 0)
	kept := timeline{lines: []TimelineLine{}, begins: clock.Instant(side.world.from - shortly), room: [2]int{maxLines, maxLines}}
	calls := map[uint64]uint64{} // numbered as they come
	told := 0
	watch := &sim.Watch{Fleet: fleet, Client: uint32(o.WatchClient), Tell: func(call uint64, edge int, e policy.Event) {
		n, seen := calls[call]
		if !seen {
			n = uint64(len(calls) + 1)
			calls[call] = n
		}
		at := side.world.edges[edge]
		kept.add(e.At, TimelineLine{
			At: round6(e.At.Sub(0).Seconds()), Call: n, Of: f.caller(at) + " → " + f.services[at.to].name, Text: e.String(),
		})
	}}
	watch.Knows = func(_ uint64, _ int, st policy.Stats) {
		if n := len(kept.lines); n > told {
			kept.lines[n-1].Knows = knows(st)
		}
		told = len(kept.lines)
	}
	sim.RunWatched(&side.world.World, seed, watch)
	return kept.lines, nil
}

// knows says what a decision was made from.
func knows(st policy.Stats) string {
	var parts []string
	if st.Main.Guarded {
		b := st.Main.Breaker
		parts = append(parts, fmt.Sprintf("breaker %s, %d of %d failed", b.State, b.Counts.Failures, b.Counts.Calls))
	}
	if !st.Budget.Off {
		parts = append(parts, fmt.Sprintf("budget %d left", st.Budget.Level))
	}
	if st.Main.Paced > 0 {
		parts = append(parts, "held back for "+policy.FormatDuration(st.Main.Paced.Round(time.Millisecond)))
	}
	return strings.Join(parts, "; ")
}
