package scenario

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// Recording says of whom every decision in the first replication is written down, and
// where to.
type Recording struct {
	// Open returns where the recording of a side goes, by its number in Study.Sides and its
	// name. Nil means that the side is not recorded.
	Open func(side int, name string) (io.Writer, error)

	Of     string // a fleet, or a service that calls others; empty means the first fleet
	Client int    // which of its clients, with all that share what it knows; or which replica
	Max    int    // the most events of a side; 0 means maxRecorded
}

// Recorded is what a recording came to.
type Recorded struct {
	Side   string // its name
	Of     string
	Client int
	Events int // that were written
	Left   int // that there was no room for
}

// maxRecorded bounds a recording by default, to some twenty megabytes.
const maxRecorded = 100_000

// virtualZero is the instant zero of every run. It means nothing, and makes recordings
// the same whenever they are made.
var virtualZero = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// recorder writes what is decided about one client.
type recorder struct {
	file  *File
	world *world
	names []string // of the dependency that an edge leads to; "" where the client has none
	now   policy.Instant
	calls map[uint64]uint64 // numbered as they come
	out   *record.Writer
	made  Recorded
	max   int
}

// record runs the first replication of each side that is recorded once more.
func (f *File) record(o *Options, sides []*runs) (all []Recorded, err error) {
	for i, side := range sides {
		to, err := o.Record.Open(i, side.name)
		if err != nil {
			return nil, err
		}
		if to == nil {
			continue
		}
		made, err := f.recordSide(o, side, to)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	return all, nil
}

// recordSide writes down one client of a side.
func (f *File) recordSide(o *Options, side *runs, to io.Writer) (Recorded, error) {
	r := o.Record
	watch, of, err := f.watched(r)
	if err != nil {
		return Recorded{}, err
	}
	w := &recorder{file: f, world: side.world, calls: map[uint64]uint64{}, max: r.Max, made: Recorded{Side: side.name, Of: of, Client: r.Client}}
	if w.max <= 0 {
		w.max = maxRecorded
	}
	w.names = w.dependencies(watch.Fleet)
	w.out = record.NewWriter(to, func(out *recording.Options) {
		out.Zero = virtualZero
		out.Header.Virtual, out.Header.Program = true, recording.Program{Name: "gabion lab"}
		out.Header.Note = fmt.Sprintf("%s, seed %d, side %s, %s %d", f.Name, o.Seed, side.name, of, r.Client)
	}, record.WithPolicies(w.policy), record.WithSettings(w.settings))
	watch.Tell = w.tell
	sim.RunWatched(&side.world.World, f.seedOf(o.Seed, 0), watch)
	if w.made.Left > 0 {
		w.out.Observe(context.Background(), policy.Event{Kind: policy.KindEventsLost, At: w.now, Count: int64(w.made.Left)})
	}
	return w.made, w.out.Err()
}

// watched finds whom a recording is of.
func (f *File) watched(r *Recording) (watch *sim.Watch, of string, err error) {
	var names []string
	for i := range f.fleets {
		c := &f.fleets[i]
		if names = append(names, c.name); r.Of == c.name || r.Of == "" {
			return f.watchedOf(r, i, c.name, int(c.Count))
		}
	}
	for i := range f.services {
		s := &f.services[i]
		if len(s.calls) == 0 {
			continue
		}
		if names = append(names, s.name); r.Of == s.name {
			return f.watchedOf(r, -1-i, s.name, max(int(s.Replicas), 1))
		}
	}
	return nil, "", fmt.Errorf("no caller is named %q: %s", r.Of, oneOf(r.Of, names))
}

func (f *File) watchedOf(r *Recording, caller int, name string, count int) (*sim.Watch, string, error) {
	if r.Client < 0 || r.Client >= count {
		return nil, "", fmt.Errorf("%s are %d, from 0: there is no %d to record", name, count, r.Client)
	}
	return &sim.Watch{Fleet: caller, Client: uint32(r.Client), Whole: true}, name, nil
}

// dependencies names what a caller calls. Two ways to one service have states of their
// own, and so two names.
func (w *recorder) dependencies(caller int) []string {
	names := make([]string, len(w.world.edges))
	seen := map[string]int{}
	for i, e := range w.world.edges {
		if e.fleet != caller && (e.fleet >= 0 || -1-e.service != caller) {
			continue
		}
		names[i] = w.file.services[e.to].name
		if seen[names[i]]++; seen[names[i]] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", names[i], seen[names[i]])
		}
	}
	return names
}

// tell writes one event.
func (w *recorder) tell(call uint64, edge int, e policy.Event) {
	if w.made.Events >= w.max {
		w.made.Left++
		return
	}
	w.now, w.made.Events = max(w.now, e.At), w.made.Events+1
	e.Dependency = w.names[edge]
	if e.Seq == 0 {
		n, seen := w.calls[call]
		if !seen {
			n = uint64(len(w.calls) + 1)
			w.calls[call] = n
		}
		e.Call = n
	}
	w.out.Observe(context.Background(), e)
}

// goes is the name of the policy by which a dependency is called now: a fault may
// replace that of a fleet.
func (w *recorder) goes(dependency string) string {
	edge := w.world.edges[slices.Index(w.names, dependency)]
	name, since := edge.policy, time.Duration(-1)
	for i := range w.file.faults {
		x := &w.file.faults[i]
		if at := time.Duration(x.At); x.kind == sim.Reload && x.fleet == edge.fleet && policy.Instant(at) <= w.now && at > since {
			name, since = x.Policy, at
		}
	}
	return name
}

func (w *recorder) policy(dependency string) (policy.Policy, bool) {
	r := w.world.rules[w.goes(dependency)]
	if r == nil {
		return policy.Policy{}, false
	}
	return r.Policy, true
}

func (w *recorder) settings(dependency string) []policy.Setting {
	name := w.goes(dependency)
	for i := range w.world.policies {
		if p := &w.world.policies[i]; p.Name == name {
			return p.Settings
		}
	}
	return nil
}
