package lint

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// Graph is who calls whom, and by which policies. It may have cycles, and calls of services
// that it does not describe.
type Graph struct {
	Services []Service
	Edges    []Edge
}

// Service is a program of which something is known.
type Service struct {
	Name    string
	Program facts.Program
	Place   Place // of facts about it

	// Unread reports whether a fact could not be read. It may be nil.
	Unread func(path string) bool
}

// Edge is how one service calls another.
type Edge struct {
	From, To   string        // names of services; To may be one that no file describes
	Dependency string        // what From's file calls To
	Policy     policy.Policy // resolved: what the program does
	Facts      facts.Facts
	Deadline   bool   // the caller's deadline travels to To
	Deaf       bool   // From does not see marks that stop retries
	Travel     string // what to write so that it does, such as trust: internal
	Place      Place

	// Unread reports whether a key could not be read. It may be nil.
	Unread func(path string) bool
}

// Place makes a finding about a key, at the place where it stands.
type Place func(path, reason, proposal string) config.Finding

// graphOf makes the graph of files: each is a service by the name under facts.service, else by
// the file's, and calls what its dependencies name under facts.service, or by their own names.
func (r *run) graphOf(files []*config.File) (g Graph) {
	names := namesOf(files)
	for i, f := range files {
		name := names[i]
		of := func(dependency string) Place {
			return func(path, reason, proposal string) config.Finding {
				return config.Finding(policyfile.Of(f).Finding(dependency, path, reason, proposal))
			}
		}
		g.Services = append(g.Services, Service{name, facts.Of(f).Program, of(""), func(path string) bool { return policyfile.Of(f).Unread("", path) }})
		for _, dep := range f.Names() {
			s := newSubject(r, f, dep)
			to := cmp.Or(s.facts.Service, dep)
			g.Edges = append(g.Edges, Edge{
				From: name, To: to, Dependency: dep, Policy: s.p, Facts: s.facts, Deadline: s.p.Trust == policy.Internal, Travel: "trust: internal",
				Place: of(dep), Unread: func(path string) bool { return policyfile.Of(f).Unread(dep, path) },
			})
		}
	}
	return g
}

// namesOf returns the names of the files' services: as they are said, else as the files are
// called, with the folder where that would be the name of two.
func namesOf(files []*config.File) []string {
	names, taken := make([]string, len(files)), map[string]int{}
	for i, f := range files {
		if names[i] = facts.Of(f).Program.Service; names[i] == "" {
			names[i] = strings.TrimSuffix(filepath.Base(f.Name), filepath.Ext(f.Name))
		}
		taken[names[i]]++
	}
	for i, f := range files {
		if facts.Of(f).Program.Service == "" && taken[names[i]] > 1 {
			names[i] = f.Name
		}
	}
	return names
}

// graphs looks at the graph that files make together, and at those that come with files.
func (r *run) graphs(files []*config.File, own map[*config.File]Graph) {
	var together []*config.File
	for _, f := range files {
		if g, ok := own[f]; ok {
			r.graph(g)
		} else {
			together = append(together, f)
		}
	}
	r.graph(r.graphOf(together))
}

// graph runs the rules over a graph.
func (r *run) graph(g Graph) {
	x := newLook(r, g)
	for _, rule := range r.rules {
		if rule.graph != nil {
			x.rule = rule
			rule.graph(x)
		}
	}
}

// look is a graph under one rule.
type look struct {
	run  *run
	rule Rule
	Graph

	nodes []string       // all names, in the order of the graph
	index map[string]int // of nodes
	about map[string]int // the first service of that name
	out   [][]int        // edges by node
	into  [][]int
	comp  []int  // of nodes that reach each other; those that are called have lower ones
	round []bool // edges within a cycle
}

func newLook(r *run, g Graph) *look {
	x := &look{run: r, Graph: g, index: map[string]int{}, about: map[string]int{}}
	node := func(name string) int {
		i, known := x.index[name]
		if !known {
			i = len(x.nodes)
			x.index[name] = i
			x.nodes = append(x.nodes, name)
			x.out, x.into = append(x.out, nil), append(x.into, nil)
		}
		return i
	}
	for i, s := range g.Services {
		if node(s.Name); x.service(s.Name) == nil {
			x.about[s.Name] = i
		}
	}
	for i := range g.Edges {
		e := &g.Edges[i]
		from, to := node(e.From), node(e.To)
		x.out[from] = append(x.out[from], i)
		x.into[to] = append(x.into[to], i)
	}
	x.components()
	return x
}

// service returns what is known of a service, or nil.
func (x *look) service(name string) *Service {
	if i, known := x.about[name]; known {
		return &x.Services[i]
	}
	return nil
}

// program returns the facts of a service; those of one that is not described are empty.
func (x *look) program(name string) facts.Program {
	if s := x.service(name); s != nil {
		return s.Program
	}
	return facts.Program{}
}

// reads reports whether keys of an edge could be read. If not, the rule is unknown there.
func (x *look) reads(e *Edge, paths ...string) bool {
	read := true
	for _, path := range paths {
		if e.Unread != nil && e.Unread(path) {
			x.unknown(e, path, "it could not be read")
			read = false
		}
	}
	return read
}

func (x *look) unknown(e *Edge, missing, why string) {
	file := e.Place("", "", "").File
	x.run.report.Unknown = append(x.run.report.Unknown, Unknown{x.rule, file, e.Dependency, missing, why})
}

// find reports a finding at a key of an edge.
func (x *look) find(how Severity, e *Edge, path, reason, proposal string) {
	f := Finding{Rule: x.rule, Severity: how, Dependency: e.Dependency, Path: path, Finding: e.Place(path, reason, proposal)}
	x.run.report.Findings = append(x.run.report.Findings, f)
}

// findAt reports a finding at a fact of a service.
func (x *look) findAt(how Severity, s *Service, path, reason, proposal string) {
	f := Finding{Rule: x.rule, Severity: how, Path: path, Finding: s.Place(path, reason, proposal)}
	x.run.report.Findings = append(x.run.report.Findings, f)
}

// arrow names an edge.
func (e *Edge) arrow() string { return e.From + " → " + e.To }

// components finds the nodes that reach each other, by Tarjan's algorithm without
// recursion: a chain may be long.
func (x *look) components() {
	type frame struct{ node, edge int }
	n := len(x.nodes)
	x.comp, x.round = make([]int, n), make([]bool, len(x.Edges))
	order, low, on := make([]int, n), make([]int, n), make([]bool, n)
	var stack []int
	var frames []frame
	count, comps := 0, 0
	enter := func(v int) {
		count++
		order[v], low[v], on[v] = count, count, true
		stack = append(stack, v)
		frames = append(frames, frame{v, 0})
	}
	for root := range n {
		if order[root] == 0 {
			enter(root)
		}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			v := f.node
			if f.edge < len(x.out[v]) {
				to := x.index[x.Edges[x.out[v][f.edge]].To]
				f.edge++
				if order[to] == 0 {
					enter(to)
				} else if on[to] {
					low[v] = min(low[v], order[to])
				}
				continue
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				above := frames[len(frames)-1].node
				low[above] = min(low[above], low[v])
			}
			if low[v] == order[v] {
				for at := -1; at != v; stack = stack[:len(stack)-1] {
					at = stack[len(stack)-1]
					x.comp[at], on[at] = comps, false
				}
				comps++
			}
		}
	}
	for i := range x.Edges {
		e := &x.Edges[i]
		x.round[i] = x.comp[x.index[e.From]] == x.comp[x.index[e.To]]
	}
}
