package scenario

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Read reads of a scenario's text what can be read: its policies, who calls whom by them,
// and all mistakes. Files that the text takes something from are looked for in the folder;
// if that is empty, naming one is a mistake. The policies are never nil.
func Read(folder, name string, data []byte) (*config.File, lint.Graph, Findings) {
	var other *files
	if folder != "" {
		other = &files{folder: folder}
	}
	r, found := begin(name, data, other)
	if r == nil {
		none, _ := config.Read(name, []byte("version: 1\n"))
		return none, lint.Graph{}, found
	}
	text := "version: 1\n"
	if at, written := r.places["policies"]; written {
		if section, problem := only(r.text, "policies", at.Line); problem == "" {
			text = section
		}
	}
	policies, _ := config.Read(name, []byte(text), config.Lookup(func(string) (string, bool) { return "", false }))
	return policies, r.graph(policies), found
}

// graph makes a graph of the scenario. Services that make no calls are only called: nothing is
// known of a program there.
func (r *reader) graph(policies *config.File) (g lint.Graph) {
	rates := r.rates()
	for i := range r.file.fleets {
		f := &r.file.fleets[i]
		program := facts.Program{Deadline: time.Duration(f.Deadline)}
		if f.queued {
			program.Deadline = 0 // no caller waits for the work of a message
		}
		g.Services = append(g.Services, lint.Service{Name: f.name, Place: r.placed(f.at, nil, ""), Program: program})
		processes := max(int(f.Count), 1)
		for _, e := range f.calls {
			g.Edges = append(g.Edges, r.edge(policies, f.name, e, float64(f.Rate)/float64(processes), processes, 0)...)
		}
	}
	for i := range r.file.services {
		s := &r.file.services[i]
		if len(s.calls) == 0 {
			continue
		}
		g.Services = append(g.Services, lint.Service{Name: s.name, Place: r.placed(s.at, nil, ""), Program: facts.Program{StopsRetries: s.StopsRetries}})
		replicas := max(int(s.Replicas), 1)
		for _, e := range s.calls {
			g.Edges = append(g.Edges, r.edge(policies, s.name, e, rates[i]/float64(replicas), replicas, time.Duration(s.Deadline))...)
		}
	}
	return g
}

// edge is one call; none if the service is not known.
func (r *reader) edge(policies *config.File, from string, e namedEdge, rate float64, processes int, deadline time.Duration) []lint.Edge {
	if e.to < 0 || e.to >= len(r.file.services) {
		return nil
	}
	p := policies.Policies[e.Policy].Resolved()
	if call := p.Timeout.Call; deadline > 0 && (call <= 0 || deadline < call) {
		p.Timeout.Call = deadline
	}
	if slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, string(e.Method)) {
		p.Safe = true
	}
	if e.Keyed {
		p.Key = policy.KeyRequired
	}
	share := float64(max(e.Fan, 1))
	if e.Chance > 0 {
		share *= float64(e.Chance)
	}
	if e.cached() {
		share = 0 // what a cache lets through is not known
	}
	return []lint.Edge{{
		From: from, To: r.file.services[e.to].name, Dependency: e.Policy, Policy: p,
		Facts:    facts.Facts{Rate: policy.PerSecond(rate * share), Processes: processes, Capacity: r.file.services[e.to].capacity()},
		Deadline: e.Propagate, Travel: "propagate: true", Deaf: e.IgnoresHints,
		Place:  r.placed(e.at, policies, e.Policy),
		Unread: func(path string) bool { return policyfile.Of(policies).Unread(e.Policy, path) },
	}}
}

// placed puts findings about keys that a policy has there, and others where a call or a
// fleet begins.
func (r *reader) placed(at yamlstrict.Place, policies *config.File, name string) lint.Place {
	return func(path, reason, proposal string) config.Finding {
		if policies != nil && path != "" && path != "trust" && policyfile.Of(policies).Written(name, path) {
			return config.Finding(policyfile.Of(policies).Finding(name, path, reason, proposal))
		}
		return config.Finding(r.doc.Finding(at.Line, at.Col, reason, proposal))
	}
}

// capacity is what a service can answer, from how long its work takes; zero if no request ever
// waits.
func (s *namedService) capacity() policy.PerSecond {
	mean := s.Time.Mean().Seconds()
	if s.Workers == 0 || mean <= 0 {
		return 0
	}
	return policy.PerSecond(float64(max(s.Replicas, 1)) * float64(s.Workers) / mean)
}

// rates is how many calls the services get at the usual rate of the fleets. Zero means that
// it is not known, as of fleets that call when they are answered.
func (r *reader) rates() []float64 {
	rates := make([]float64, len(r.file.services))
	add := func(calls []namedEdge, rate float64) {
		for _, e := range calls {
			if e.to < 0 || e.to >= len(rates) || e.cached() {
				continue
			}
			share := float64(max(e.Fan, 1))
			if e.Chance > 0 {
				share *= float64(e.Chance)
			}
			rates[e.to] += rate * share
		}
	}
	for i := range r.file.fleets {
		add(r.file.fleets[i].calls, float64(r.file.fleets[i].Rate))
	}
	for _, i := range r.file.order { // callers first
		add(r.file.services[i].calls, rates[i])
	}
	return rates
}
