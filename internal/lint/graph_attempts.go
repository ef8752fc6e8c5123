package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/formulas"
)

// counting says which defences count when attempts are multiplied.
type counting struct {
	marks   bool // gabion marks answers that it repeated in vain, and does not repeat marked ones
	budgets bool // budgets bound what an outage that lasts adds
}

// term is one factor of a product.
type term struct {
	edge *Edge
	what string // the key that it is from
	n    float64
}

// attempts returns what a call of an edge becomes, at most: gabion's attempts and hedges, those of
// the client under it, and those of a mesh.
func (e *Edge) attempts(c counting, marked bool) []term {
	n := e.sends()
	if c.budgets {
		n = min(n, 1+formulas.Extra(e.Policy))
	}
	if c.marks && marked && !e.Deaf {
		n = 1
	}
	terms := []term{{e, "retry.attempts", n}}
	if e.Facts.Inner > 1 {
		terms = append(terms, term{e, "facts.inner", float64(e.Facts.Inner)})
	}
	if e.Facts.Mesh.Attempts > 1 {
		terms = append(terms, term{e, "facts.mesh.attempts", float64(e.Facts.Mesh.Attempts)})
	}
	return terms
}

func (e *Edge) unreadAttempts() bool {
	return e.Unread != nil && (e.Unread("retry.attempts") || e.Unread("retry.budget") || e.Unread("hedge.max"))
}

// sends is how many attempts and hedges gabion makes of a call of an edge.
func (e *Edge) sends() float64 {
	if e.unreadAttempts() {
		return 1 // and the rule is unknown there
	}
	return float64(formulas.Sends(e.Policy))
}

// marks reports whether From's answers are sure to be marked when a call of the edge fails.
// A budget may end the call after one attempt, which is not marked.
func (e *Edge) marks(c counting, below bool) bool {
	return below && !e.Deaf || e.sends() > 1 && !(c.budgets && !e.Policy.Retry.Budget.Off)
}

// reach is the worst path from a node to the bottom.
type reach struct {
	n      float64
	edge   int // the first one; -1 at the bottom
	marked int // of the path after it
}

// worst finds the path to a service with the most attempts there for one call.
type worst struct {
	x      *look
	c      counting
	bottom int
	best   map[int][2]reach // by node, and by whether its answer is marked
}

// worstPath returns the path with the largest product that ends at a node; nil if nothing calls it.
func (x *look) worstPath(bottom int, c counting) (product float64, path []term) {
	w := worst{x, c, bottom, map[int][2]reach{bottom: {{n: 1, edge: -1}}}}
	above := x.above(bottom)
	var top [2]int
	for _, v := range above {
		w.visit(v)
		for m, r := range w.best[v] {
			if r.edge >= 0 && r.n > product {
				product, top = r.n, [2]int{v, m}
			}
		}
	}
	if product == 0 {
		return 0, nil
	}
	for v, m := top[0], top[1]; v != bottom; {
		r := w.best[v][m]
		e := &x.Edges[r.edge]
		path = append(path, e.attempts(c, r.marked == 1)...)
		v, m = x.index[e.To], r.marked
	}
	return product, path
}

// above returns all nodes that reach one without a cycle, each after those that it calls.
func (x *look) above(bottom int) (nodes []int) {
	seen := map[int]bool{bottom: true}
	todo := []int{bottom}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range x.into[v] {
			if from := x.index[x.Edges[i].From]; !x.round[i] && !seen[from] {
				seen[from] = true
				todo, nodes = append(todo, from), append(nodes, from)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b int) int {
		if x.comp[a] != x.comp[b] {
			return x.comp[a] - x.comp[b]
		}
		return a - b
	})
	return nodes
}

// visit finds the worst paths from a node; those of the nodes that it calls are known.
func (w *worst) visit(v int) {
	best := [2]reach{{edge: -1}, {edge: -1}}
	for _, i := range w.x.out[v] {
		if w.x.round[i] {
			continue
		}
		e := &w.x.Edges[i]
		for m, below := range w.best[w.x.index[e.To]] {
			if below.n == 0 {
				continue
			}
			n := below.n
			for _, t := range e.attempts(w.c, m == 1) {
				n *= t.n
			}
			as := 0
			if w.c.marks && w.x.program(e.From).StopsRetries && e.marks(w.c, m == 1) {
				as = 1
			}
			if n > best[as].n {
				best[as] = reach{n, i, m}
			}
		}
	}
	w.best[v] = best
}

// attemptsMultiply is rule G070.
func (x *look) attemptsMultiply() {
	for i := range x.Edges {
		e := &x.Edges[i]
		x.reads(e, "retry.attempts", "retry.budget", "hedge.max")
		if x.round[i] {
			x.unknown(e, "a path that ends", "its services call each other in a circle, see G080")
		}
		if e.Facts.Service != "" && x.service(e.To) == nil {
			x.unknown(e, "the file of "+e.To, "no file says facts.service: "+e.To)
		}
	}
	for bottom := range x.nodes {
		if slices.ContainsFunc(x.out[bottom], func(i int) bool { return !x.round[i] }) {
			continue // whom it calls has more
		}
		if !slices.ContainsFunc(x.into[bottom], func(i int) bool { return len(x.into[x.index[x.Edges[i].From]]) > 0 }) {
			continue // there is one layer
		}
		product, path := x.worstPath(bottom, counting{})
		if len(path) == 0 || several(path) < 2 || path[0].edge == path[len(path)-1].edge {
			continue
		}
		x.multiplied(x.nodes[bottom], product, path, bottom)
	}
}

func (x *look) multiplied(bottom string, product float64, path []term, node int) {
	peak, _ := x.worstPath(node, counting{marks: true})
	steady, lasting := x.worstPath(node, counting{marks: true, budgets: true})
	top := path[0].edge
	reason := fmt.Sprintf("%s: %s attempts at %s for one call of %s", route(path), formula(path, product), bottom, top.From)
	if peak < product {
		reason += fmt.Sprintf("; marks that stop retries leave %s", number(peak))
	}
	if steady < peak {
		reason += fmt.Sprintf("; budgets bound it to %s while an outage lasts", number(steady))
	}
	if several(lasting) < 2 {
		x.find(Note, top, "retry.attempts", reason, "let one layer retry: the one above "+bottom)
		return
	}
	at := lasting[slices.IndexFunc(lasting, func(t term) bool { return t.n >= 2 })]
	reason += fmt.Sprintf(": nothing bounds %s", undefended(lasting))
	x.find(x.rule.Severity, at.edge, at.what, reason, "let one layer retry: the one above "+bottom+", with a budget, and without attempts of an SDK or a mesh")
}

// several counts the factors that multiply.
func several(path []term) (n int) {
	for _, t := range path {
		if t.n >= 2 {
			n++
		}
	}
	return n
}

func undefended(path []term) string {
	var texts []string
	for _, t := range path {
		if t.n >= 2 {
			texts = append(texts, t.what+" of "+t.edge.arrow())
		}
	}
	if len(texts) > 4 {
		texts = append(texts[:3], fmt.Sprintf("%d more", len(texts)-3))
	}
	return strings.Join(texts, ", ")
}

// route writes the services of a path.
func route(path []term) string {
	names := []string{path[0].edge.From}
	for i, t := range path {
		if i == 0 || t.edge != path[i-1].edge {
			names = append(names, t.edge.To)
		}
	}
	if len(names) > 9 {
		names = slices.Concat(names[:4], []string{"…"}, names[len(names)-4:])
	}
	return strings.Join(names, " → ")
}

func formula(path []term, product float64) string {
	texts := make([]string, 0, len(path))
	for _, t := range path {
		texts = append(texts, number(t.n))
	}
	if len(texts) > 12 {
		texts = slices.Concat(texts[:5], []string{"…"}, texts[len(texts)-5:])
	}
	return strings.Join(texts, " × ") + " = " + number(product)
}

// number writes a factor with as many digits as matter.
func number(n float64) string {
	if n >= 1e6 {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(n, 'f', 2, 64), "0"), ".")
}

// severalLayers is rule G075.
func (x *look) severalLayers() {
	for i := range x.Edges {
		e := &x.Edges[i]
		if x.round[i] || !x.reads(e, "retry.attempts") || e.Policy.Retry.Attempts < 2 {
			continue
		}
		for _, j := range x.out[x.index[e.To]] {
			f := &x.Edges[j]
			if x.round[j] || f.Policy.Retry.Attempts < 2 || f.unreadAttempts() || x.program(e.To).StopsRetries && !e.Deaf {
				continue
			}
			x.find(x.rule.Severity, e, "retry.attempts", fmt.Sprintf("%s is tried %d times, and %s below it %d times: one layer has to retry, the one directly above what fails",
				e.arrow(), e.Policy.Retry.Attempts, f.arrow(), f.Policy.Retry.Attempts),
				fmt.Sprintf("write retry: off, unless %s itself often fails; or let %s answer with gabionhttp.Error and write facts: {stops_retries: true} in its file", e.To, e.To))
			break
		}
	}
}
