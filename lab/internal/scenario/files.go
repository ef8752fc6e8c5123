package scenario

import (
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/recorded"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// files are the other files that a scenario takes something from. Nil is a text that may
// take nothing from any.
type files struct {
	folder string
	found  Findings // in these files
	dists  map[string]draw.Dist
	calls  map[string]recorded.Calls
}

// noFolder is what is wrong with a text that names a file and is in no folder.
const noFolder = "takes something from a file, and the scenario itself is not in one, from where its name would count"

// samples reads latencies, each file once.
func (f *files) samples(spec string) (draw.Dist, string) {
	if f == nil {
		return draw.Dist{}, noFolder
	}
	if d, ok := f.dists[spec]; ok {
		return d, ""
	}
	sorted, found, problem := recorded.Latencies(f.folder, spec)
	if problem != "" {
		return draw.Dist{}, problem
	}
	f.found = append(f.found, found...)
	d := draw.Samples(sorted)
	if f.dists == nil {
		f.dists = map[string]draw.Dist{}
	}
	f.dists[spec] = d
	return d, ""
}

// proposal is what to do about a text with a problem: write it in one of its forms, or
// name a file that is there.
func proposal(problem, forms string) string {
	if strings.Contains(problem, recorded.Unreadable) {
		return "a file's name counts from the folder of the scenario file"
	}
	return forms
}

// replay reads recorded calls.
func (f *files) replay(text string) (any, string, string) {
	spec, from := strings.CutPrefix(text, "from ")
	switch {
	case !from:
		return nil, "does not begin with from", recorded.CallForms
	case f == nil:
		return nil, noFolder, "write it into a file, and load that"
	}
	calls, known := f.calls[spec]
	if !known {
		read, found, problem := recorded.Read(f.folder, spec)
		if problem != "" {
			return nil, problem, proposal(problem, recorded.CallForms)
		}
		f.found = append(f.found, found...)
		if f.calls == nil {
			f.calls = map[string]recorded.Calls{}
		}
		f.calls[spec], calls = read, read
	}
	return replay{calls, text}, "", ""
}

// met is what recorded calls met, or nil.
func (r *replay) met() (met []sim.Met) {
	for i, took := range r.Took {
		m := sim.Met{Took: took, Status: 200}
		if r.Status != nil {
			m.Status = r.Status[i]
		}
		met = append(met, m)
	}
	return met
}

// replayed is how long recorded calls of a service took on average; 0 where none was
// recorded.
func (f *File) replayed(service int) time.Duration {
	sum, n := 0.0, 0
	for i := range f.fleets {
		c := &f.fleets[i]
		if len(c.calls) == 0 || c.calls[0].to != service {
			continue
		}
		for _, took := range c.Replay.Took {
			sum += float64(took)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return time.Duration(sum / float64(n))
}
