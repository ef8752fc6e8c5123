package lint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/policy"
)

// found returns what the rules say of files, as "G070 warning" and the text.
func found(t *testing.T, text string, rules ...string) (said []string, r Report) {
	t.Helper()
	fs, broken := files(t, text)
	if len(broken) > 0 {
		t.Fatal(broken)
	}
	r = Run(fs, Options{Rules: rules})
	for _, f := range r.Findings {
		said = append(said, fmt.Sprintf("%s %s %s:%d %s", f.Rule.ID, f.Severity, f.File, f.Line, f.Reason))
	}
	return said, r
}

// graphCase is files, and what one rule says of them: the beginning of each text, or nothing.
type graphCase struct {
	fact, rule, text string
	want             []string
	unknown          string // what is missing
}

func (c graphCase) check(t *testing.T) {
	said, r := found(t, c.text, c.rule)
	if len(said) != len(c.want) {
		t.Fatalf("said %q, want %q", said, c.want)
	}
	for i, want := range c.want {
		if !strings.Contains(said[i], want) {
			t.Errorf("said %q, want %q", said[i], want)
		}
	}
	var missing []string
	for _, u := range r.Unknown {
		missing = append(missing, u.Missing)
	}
	if c.unknown == "" && len(missing) > 0 || c.unknown != "" && !slices.Contains(missing, c.unknown) {
		t.Errorf("unknown %q, want %q", missing, c.unknown)
	}
}

// chain is files of services that each call the next.
func chain(dep func(i int) string, program func(i int) string, names ...string) string {
	var b strings.Builder
	for i, name := range names[:len(names)-1] {
		fmt.Fprintf(&b, "# file: %s.yaml\nversion: 1\nfacts: {service: %s%s}\ndependencies:\n  %s: {%s}\n", name, name, program(i), names[i+1], dep(i))
	}
	return b.String()
}

func same(text string) func(int) string { return func(int) string { return text } }

func TestAttemptsAreMultiplied(t *testing.T) {
	five := []string{"edge", "shop", "orders", "stock", "rows", "db"}
	const ours = "trust: internal, safe: true"
	for _, c := range []graphCase{
		{"3⁵, with budgets", "G070", chain(same(ours), same(""), five...),
			[]string{"G070 note edge.yaml:4 edge → shop → orders → stock → rows → db: 3 × 3 × 3 × 3 × 3 = 243 attempts at db for one call of edge; budgets bound it to 3.71 while an outage lasts"}, ""},
		{"no budgets", "G070", chain(same(ours+", retry: {budget: off}"), same(""), five...),
			[]string{"G070 warning edge.yaml:4 edge → shop → orders → stock → rows → db: 3 × 3 × 3 × 3 × 3 = 243 attempts at db for one call of edge: nothing bounds"}, ""},
		{"no budgets, but marks", "G070", chain(same(ours+", retry: {budget: off}"), same(", stops_retries: true"), five...),
			[]string{"G070 note edge.yaml:4 edge → shop → orders → stock → rows → db: 3 × 3 × 3 × 3 × 3 = 243 attempts at db for one call of edge; marks that stop retries leave 3"}, ""},
		{"budgets and marks: a budget may end a call after one attempt, which has no mark", "G070", chain(same(ours), same(", stops_retries: true"), "a", "b", "c"),
			[]string{"3 × 3 = 9 attempts at c for one call of a; marks that stop retries leave 3; budgets bound it to 1.69 while an outage lasts"}, ""},
		{"an SDK heeds no mark", "G070", chain(same(ours+", facts: {inner: 2}"), same(", stops_retries: true"), "a", "b", "c"),
			[]string{"G070 warning a.yaml:4 a → b → c: 3 × 2 × 3 × 2 = 36 attempts at c for one call of a; marks that stop retries leave 12; budgets bound it to 6.76 while an outage lasts: nothing bounds facts.inner of a → b, facts.inner of b → c"}, ""},
		{"a mesh heeds no budget", "G070", chain(same(ours+", facts: {mesh: {attempts: 3}}"), same(""), "a", "b", "c"),
			[]string{"nothing bounds facts.mesh.attempts of a → b, facts.mesh.attempts of b → c"}, ""},
		{"hedges are attempts, too", "G070", chain(same(ours+", hedge: {max: 1}"), same(""), "a", "b", "c"), []string{"4 × 4 = 16 attempts"}, ""},
		{"a budget of another shape", "G070", chain(same(ours+", retry: {budget: {shape: window}}"), same(""), "a", "b", "c"), []string{"budgets bound it to 1.21"}, ""},
		{"a budget that never earns", "G070", chain(same(ours+", retry: {budget: {ratio: off}}"), same(""), "a", "b", "c"), []string{"budgets bound it to 1 "}, ""},
		{"one layer without a bound multiplies with nothing", "G070", chain(func(i int) string { return []string{ours, "safe: true, retry: {budget: off}"}[i] }, same(""), "a", "b", "c"),
			[]string{"G070 note"}, ""},
		{"one layer", "G070", chain(func(i int) string {
			return []string{ours + ", retry: {attempts: 1}", "safe: true, retry: {budget: off}"}[i]
		}, same(""), "a", "b", "c"), nil, ""},
		{"one file", "G070", chain(same("facts: {inner: 3}"), same(""), "a", "b"), nil, ""},
		{"the file is missing", "G070", chain(same("facts: {service: other}"), same(""), "a", "b"), nil, "the file of other"},
		{"in a circle", "G070", chain(same(ours), same(""), "a", "b", "a"), nil, "a path that ends"},
		{"the lower one has retries", "G075", chain(same(ours), same(""), "a", "b", "c"), []string{"G075 note a.yaml:4 a → b is tried 3 times, and b → c below it 3 times"}, ""},
		{"the lower one says that it was in vain", "G075", chain(same(ours), same(", stops_retries: true"), "a", "b", "c"), nil, ""},
		{"the upper one has no retries", "G075", chain(func(i int) string { return []string{"retry: {attempts: 1}", ""}[i] }, same(""), "a", "b", "c"), nil, ""},
	} {
		t.Run(c.fact, c.check)
	}
}

func TestTimesAlongAPath(t *testing.T) {
	pair := func(upper, lower, facts string) string {
		return chain(func(i int) string { return []string{upper, lower}[i] }, func(i int) string { return []string{"", facts}[i] }, "a", "b", "c")
	}
	for _, c := range []graphCase{
		{"fresh, and longer by a millisecond", "G071", pair("trust: internal, timeout: {call: 5s, attempt: 2s}", "timeout: {call: 2001ms, attempt: 1s}", ", fresh: true"),
			[]string{"G071 warning b.yaml:4 b → c may take 2.001s, but a gives b only 2s: up to 1ms of wasted work"}, ""},
		{"fresh, and as long", "G071", pair("trust: internal, timeout: {call: 5s, attempt: 2s}", "timeout: {call: 2s, attempt: 1s}", ", fresh: true"), nil, ""},
		{"does not travel", "G071", pair("timeout: {call: 5s, attempt: 2s}", "timeout: {call: 3s}", ""), []string{"since the deadline does not travel from a"}, ""},
		{"travels", "G071", pair("trust: internal, timeout: {call: 5s, attempt: 2s}", "timeout: {call: 30s}", ""), nil, ""},
		{"for ever", "G071", pair("timeout: {call: 5s, attempt: 2s}", "timeout: {call: off, attempt: 1s}", ""), []string{"b → c may take for ever, but a gives b only 2s"}, ""},
		{"the caller waits for ever", "G071", pair("timeout: {call: off, attempt: off}", "timeout: {call: 30s}", ""), nil, ""},
		{"only the call is bounded", "G071", pair("timeout: {call: 5s, attempt: off}", "timeout: {call: 6s}", ""), []string{"a gives b only 5s: up to 1s"}, ""},
		{"travels, and never comes to it", "G072", pair("trust: internal, timeout: {call: 5s, attempt: 2s}", "timeout: {call: 1901ms, attempt: 1s}", ""),
			[]string{"G072 note b.yaml:4 b → c may take 1.901s, but a → b leaves b at most 1.9s"}, ""},
		{"travels, and fits", "G072", pair("trust: internal, timeout: {call: 5s, attempt: 2s}", "timeout: {call: 1900ms, attempt: 1s}", ""), nil, ""},
		{"two hops below", "G072", chain(func(i int) string {
			return []string{"trust: internal, timeout: {call: 2s, attempt: 1s}", "trust: internal, timeout: {call: 900ms, attempt: 800ms}", "timeout: {call: 701ms, attempt: 300ms}"}[i]
		}, same(""), "a", "b", "c", "d"), []string{"c → d may take 701ms, but b → c leaves c at most 700ms"}, ""},
		{"own calls in a row", "G076", "version: 1\nfacts: {service: a, deadline: 5s}\ndependencies: {b: {timeout: {call: 3s}}, c: {timeout: {call: 2001ms}}}\n",
			[]string{"G076 note gabion.yaml:2 a: 3s + 2.001s = 5.001s > deadline 5s"}, ""},
		{"own calls in a row fit", "G076", "version: 1\nfacts: {service: a, deadline: 5s}\ndependencies: {b: {timeout: {call: 3s}}, c: {timeout: {call: 2s}}}\n", nil, ""},
		{"one call is longer", "G076", "version: 1\nfacts: {service: a, deadline: 5s}\ndependencies: {b: {timeout: {call: 6s}}, c: {timeout: {call: 2s}}}\n",
			[]string{"G076 warning gabion.yaml:3 a → b may take 6s"}, ""},
		{"one call is as long", "G076", "version: 1\nfacts: {service: a, deadline: 5s}\ndependencies: {b: {timeout: {call: 5s}}}\n", nil, ""},
		{"no deadline is said", "G076", "version: 1\nfacts: {service: a}\ndependencies: {b: {timeout: {call: 6s}}}\n", nil, ""},
	} {
		t.Run(c.fact, c.check)
	}
}

func TestKeysBreakersAndTrustAlongAPath(t *testing.T) {
	three := func(a, b, c, drops string) string {
		return chain(func(i int) string { return []string{a, b, c}[i] }, func(i int) string { return []string{"", "", drops}[i] }, "shop", "gate", "mid", "vault")
	}
	const drops = ", drops_keys: true"
	for _, c := range []graphCase{
		{"lost two hops below the retry", "G073", three("key: required", "retry: {attempts: 1}", "retry: {attempts: 1}", drops),
			[]string{"G073 warning mid.yaml:4 mid → vault is not safe to repeat, shop → gate is tried 3 times, and mid drops the key"}, ""},
		{"nothing above repeats", "G073", three("retry: {attempts: 1}", "retry: {attempts: 1}", "key: made", drops), nil, ""},
		{"the last call is safe", "G073", three("", "", "safe: true", drops), nil, ""},
		{"no key is dropped", "G073", three("", "", "", ""), nil, ""},
		{"two breakers", "G074", chain(same("facts: {mesh: {breaker: true}}"), same(""), "a", "b"), []string{"G074 warning"}, ""},
		{"one breaker", "G074", chain(same("breaker: off, facts: {mesh: {breaker: true}}"), same(""), "a", "b"), nil, ""},
		{"own and external", "G077", chain(same(""), same(""), "a", "b", "c"), []string{"G077 warning a.yaml:4 a → b is a service of yours"}, ""},
		{"own and internal", "G077", chain(same("trust: internal"), same(""), "a", "b", "c"), nil, ""},
		{"by another name", "G077", "# file: a.yaml\nversion: 1\nfacts: {service: a}\ndependencies: {x: {facts: {service: b}}}\n# file: b.yaml\nversion: 1\nfacts: {service: b}\n",
			[]string{"a → b is a service of yours"}, ""},
		{"by the file's name", "G077", "# file: a.yaml\nversion: 1\ndependencies: {b: {}}\n# file: b.yaml\nversion: 1\n", []string{"a → b is a service of yours"}, ""},
		{"a circle of one", "G080", chain(same("retry: {attempts: 1}"), same(""), "a", "a"), []string{"G080 warning a.yaml:4 a → a: a call may go round"}, ""},
		{"a circle of three", "G080", chain(same("retry: {attempts: 2}"), same(""), "a", "b", "c", "a"), []string{"a → b → c → a: a call may go round, and each round makes it 8 attempts"}, ""},
		{"no circle", "G080", chain(same(""), same(""), "a", "b", "c"), nil, ""},
		{"one name, two files", "G081", "# file: x.yaml\nversion: 1\nfacts: {service: a}\n# file: y.yaml\nversion: 1\nfacts: {service: a}\n",
			[]string{"G081 warning y.yaml:2 a is the service of x.yaml:2, too"}, ""},
		{"two files of one name that say no service", "G081", "# file: x/gabion.yaml\nversion: 1\n# file: y/gabion.yaml\nversion: 1\n", nil, ""},
		{"a file is called as another's service", "G081", "# file: x.yaml\nversion: 1\nfacts: {service: a}\n# file: a.yaml\nversion: 1\n", nil, ""},
	} {
		t.Run(c.fact, c.check)
	}
}

func TestSumsOverAllCallers(t *testing.T) {
	two := func(a, b string) string {
		return "# file: a.yaml\nversion: 1\nfacts: {service: a, processes: 10}\ndependencies: {db: {" + a + "}}\n# file: b.yaml\nversion: 1\nfacts: {service: b, processes: 5}\ndependencies: {db: {" + b + "}}\n"
	}
	for _, c := range []graphCase{
		{"just fits", "G078", two("facts: {rate: 10/s, capacity: 195/s}", "facts: {rate: 10/s}"), nil, ""},
		{"an outage is too much", "G078", two("facts: {rate: 10/s, capacity: 194/s}", "facts: {rate: 10/s}"),
			[]string{"db: a 10/s × 10 + b 10/s × 5 = 150/s at a usual time, and 100/s × 1.3 + 50/s × 1.3 = 195/s with the retries of an outage that lasts > capacity 194/s"}, ""},
		{"too much as it is", "G078", two("facts: {rate: 10/s, capacity: 149/s}", "facts: {rate: 10/s}"), []string{"= 150/s at a usual time > capacity 149/s"}, ""},
		{"no budget", "G078", two("retry: {budget: off}, facts: {rate: 10/s, capacity: 300/s}", "facts: {rate: 10/s}"), []string{"100/s × 3 + 50/s × 1.3 = 365/s"}, ""},
		{"a rate is not said", "G078", two("facts: {rate: 10/s, capacity: 100/s}", "retry: off"), nil, "facts.rate"},
		{"two callers that say no name", "G078", "# file: x/gabion.yaml\nversion: 1\nfacts: {processes: 1}\ndependencies: {db: {facts: {rate: 10/s, capacity: 15/s}}}\n# file: y/gabion.yaml\nversion: 1\nfacts: {processes: 1}\ndependencies: {db: {facts: {rate: 10/s}}}\n",
			[]string{"db: x/gabion.yaml 10/s × 1 + y/gabion.yaml 10/s × 1 = 20/s"}, ""},
		{"one caller is another rule's", "G078", "version: 1\nfacts: {processes: 100}\ndependencies: {db: {facts: {rate: 10/s, capacity: 1/s}}}\n", nil, ""},
		{"connections just fit", "G079", two("bulkhead: {limit: 10}, facts: {connections: 200}", "bulkhead: {limit: 50}, facts: {pool: 20}"), nil, ""},
		{"a connection too many", "G079", two("bulkhead: {limit: 10}, facts: {connections: 199}", "bulkhead: {limit: 50}, facts: {pool: 20}"),
			[]string{"db: a 10 × 10 + b 20 × 5 = 200 connections > 199"}, ""},
		{"a learned limit counts as its most", "G079", two("bulkhead: {limit: learned, max: 30}, facts: {connections: 399}", "bulkhead: {limit: 20}"), []string{"a 30 × 10 + b 20 × 5 = 400"}, ""},
		{"no bulkhead and no pool", "G079", two("bulkhead: off, facts: {connections: 399}", "bulkhead: {limit: 20}"), nil, "facts.pool"},
	} {
		t.Run(c.fact, c.check)
	}
}

func TestWhatAGraphCanNotReadIsUnknown(t *testing.T) {
	text := "version: 1\nfacts: {service: a, routes: {POST /x: {guarantee: hold, retention: 3}}}\ndependencies: {b: {timeout: {call: x}, trust: internall, facts: {mesh: {breaker: true}}, breaker: 3}}\n"
	a, _ := config.Read("a.yaml", []byte(text))
	b, _ := config.Read("b.yaml", []byte("version: 1\nfacts: {service: b}\ndependencies: {c: {retry: {attempts: x}}}\n"))
	r := Run([]*config.File{a, b}, Options{})
	for _, want := range []string{"G050 facts.routes.POST /x.retention", "G077 trust", "G074 breaker", "G070 retry.attempts"} {
		id, missing, _ := strings.Cut(want, " ")
		if !slices.ContainsFunc(r.Unknown, func(u Unknown) bool { return u.Rule.ID == id && u.Missing == missing }) {
			t.Errorf("%s is not unknown: %v", want, r.Unknown)
		}
	}
}

// drawn makes a graph at random; without circles if edges only go up in number.
func drawn(rnd *rand.Rand, nodes, edges int, circles bool) (g Graph) {
	none := func(path, reason, proposal string) config.Finding { return config.Finding{Reason: reason} }
	for i := range nodes {
		g.Services = append(g.Services, Service{Name: fmt.Sprint(i), Place: none, Program: facts.Program{
			StopsRetries: rnd.IntN(2) == 0, DropsKeys: rnd.IntN(3) == 0, Fresh: rnd.IntN(3) == 0,
		}})
	}
	for range edges {
		a, b := rnd.IntN(nodes), rnd.IntN(nodes)
		if !circles {
			if a == b {
				continue
			}
			a, b = min(a, b), max(a, b)
		}
		e := Edge{From: fmt.Sprint(a), To: fmt.Sprint(b), Place: none, Deaf: rnd.IntN(5) == 0, Deadline: rnd.IntN(2) == 0}
		e.Policy.Retry.Attempts, e.Policy.Hedge.Max = 1+rnd.IntN(4), max(rnd.IntN(5)-2, 0)
		e.Policy.Retry.Budget.Off = rnd.IntN(2) == 0
		e.Facts.Inner, e.Facts.Mesh.Attempts, e.Facts.Mesh.Breaker = rnd.IntN(3), rnd.IntN(3), rnd.IntN(2) == 0
		e.Policy = e.Policy.Resolved()
		g.Edges = append(g.Edges, e)
	}
	return g
}

// naive multiplies along each path by itself, and returns the most.
func naive(x *look, bottom int, c counting) (most float64) {
	var path []int
	var walk func(v int)
	walk = func(v int) {
		for _, i := range x.into[v] {
			path = append(path, i)
			n, marked := 1.0, false
			for _, j := range path { // from the bottom up
				e := &x.Edges[j]
				gabion := float64(e.Policy.Retry.Attempts + e.Policy.Hedge.Max)
				budget := !e.Policy.Retry.Budget.Off
				repeats := gabion > 1 && !(c.budgets && budget)
				if c.budgets && budget {
					gabion = min(gabion, 1.3)
				}
				if c.marks && marked && !e.Deaf {
					gabion = 1
				}
				n *= gabion * float64(max(e.Facts.Inner, 1)*max(e.Facts.Mesh.Attempts, 1))
				marked = c.marks && x.program(e.From).StopsRetries && (marked && !e.Deaf || repeats)
			}
			most = max(most, n)
			walk(x.index[x.Edges[i].From])
			path = path[:len(path)-1]
		}
	}
	walk(bottom)
	return most
}

func TestTheWorstPathIsTheWorstOfAllPaths(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	for range 200 {
		x := newLook(&run{}, drawn(rnd, 2+rnd.IntN(6), rnd.IntN(14), false))
		for v := range x.nodes {
			for _, c := range []counting{{}, {marks: true}, {budgets: true}, {marks: true, budgets: true}} {
				want := naive(x, v, c)
				got, path := x.worstPath(v, c)
				product := 1.0
				for _, f := range path {
					product *= f.n
				}
				near := func(a, b float64) bool { return a <= b*1.000001 && b <= a*1.000001 }
				if !near(got, want) || len(path) > 0 && !near(product, got) {
					t.Fatalf("%+v: %v and %v along the path, want %v, at %s of %d edges", c, got, product, want, x.nodes[v], len(x.Edges))
				}
			}
		}
	}
}

func TestAnyGraphIsLookedAtToTheEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 2))
	for range 100 {
		n := 1 + rnd.IntN(12)
		g := drawn(rnd, n, rnd.IntN(4*n), true)
		told := false
		for _, f := range runGraph(g, Options{}).Findings {
			told = told || f.Rule.ID == "G080"
		}
		if x := newLook(&run{}, g); told != slices.Contains(x.round, true) || told != circular(g) {
			t.Fatalf("circle: told %v, is %v", told, circular(g))
		}
	}
	long := drawn(rnd, 2_000, 0, false)
	for i := range 1_999 {
		e := Edge{From: fmt.Sprint(i), To: fmt.Sprint(i + 1), Place: long.Services[0].Place, Policy: policy.Policy{}.Resolved()}
		long.Edges = append(long.Edges, e)
	}
	if r := runGraph(long, Options{Rules: []string{"G070", "G072", "G080"}}); len(r.Findings) != 1 || len(r.Findings[0].Reason) > 500 {
		t.Errorf("%.2000v", r.Findings)
	}
}

// circular reports whether a graph without its uncalled nodes, taken away one after
// the other, has edges left.
func circular(g Graph) bool {
	type pair struct{ from, to string }
	var edges []pair
	for i := range g.Edges {
		edges = append(edges, pair{g.Edges[i].From, g.Edges[i].To})
	}
	for {
		n := len(edges)
		edges = slices.DeleteFunc(slices.Clone(edges), func(e pair) bool {
			return !slices.ContainsFunc(edges, func(f pair) bool { return f.to == e.from })
		})
		if len(edges) == n {
			return n > 0
		}
	}
}

// Whatever files hold, the linter comes to an end.
func FuzzFiles(f *testing.F) {
	f.Add("version: 1\nfacts: {service: a}\ndependencies: {b: {}}", "version: 1\nfacts: {service: b}\ndependencies: {a: {}}", "version: 1\nfacts: {service: b}")
	f.Add("version: 1\nfacts:\n  routes: {POST /a: {guarantee: hold, store: x, p999: 3s}, \"\": {}}\n  stores: {x: {kind: redis}}", "{", "")
	f.Add("version: 1\nfacts: {service: \"\"}\ndependencies: {\"\": {facts: {service: b}}, a: {timeout: {call: off}}}", "version: 1\ndependencies: {a: {facts: {rate: 1/s, capacity: 1/s}}}", "version: 1\ndependencies: {a: {bulkhead: off, facts: {connections: 3}}}")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var fs []*config.File
		var broken []config.Findings
		for i, text := range []string{a, b, c} {
			file, mistakes := config.Read(fmt.Sprintf("%c.yaml", 'a'+i), []byte(text))
			fs, broken = append(fs, file), append(broken, mistakes)
		}
		for _, f := range Run(fs, Options{Broken: broken}).Findings {
			_ = f.Error()
		}
	})
}

// runGraph looks at a graph with the rules for graphs alone.
func runGraph(g Graph, o Options) Report {
	r := run{rules: chosen(o)}
	r.graph(g)
	r.report.sort()
	return r.report
}
