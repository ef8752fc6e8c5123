package lint

import (
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// graphRules are about who calls whom.
var graphRules = []Rule{
	{ID: "G070", Name: "attempts-multiply", Severity: Warning, graph: (*look).attemptsMultiply,
		Title: "layers that each repeat a call multiply, and nothing bounds it"},
	{ID: "G071", Name: "work-for-nobody", Severity: Warning, graph: (*look).workForNobody,
		Title: "a service works on for longer than its caller waits, since the deadline does not travel"},
	{ID: "G072", Name: "timeout-never-reached", Severity: Note, graph: (*look).timeoutNeverReached,
		Title: "a call's timeout is longer than what its caller's caller leaves it"},
	{ID: "G073", Name: "keys-lost", Severity: Warning, graph: (*look).keysLost,
		Title: "a program in the middle drops idempotency keys, and a retry above it writes twice"},
	{ID: "G074", Name: "breaker-twice", Severity: Warning, graph: (*look).breakerTwice,
		Title: "both a mesh and the program have a breaker for the same calls"},
	{ID: "G075", Name: "several-layers-retry", Severity: Note, graph: (*look).severalLayers,
		Title: "a layer repeats calls of one that already repeats its own"},
	{ID: "G076", Name: "deadline-too-short", Severity: Warning, graph: (*look).deadlineTooShort,
		Title: "a program has to answer before its own calls have to end"},
	{ID: "G077", Name: "own-service-external", Severity: Warning, graph: (*look).ownServiceExternal,
		Title: "deadlines and attempt numbers do not travel to a service of one's own"},
	{ID: "G078", Name: "capacity-of-all", Severity: Warning, graph: (*look).capacityOfAll,
		Title: "all callers of a dependency together send more than it can answer"},
	{ID: "G079", Name: "connections-of-all", Severity: Warning, graph: (*look).connectionsOfAll,
		Title: "all callers of a dependency together may open more connections than it takes"},
	{ID: "G080", Name: "calls-in-a-circle", Severity: Warning, graph: (*look).callsInACircle,
		Title: "services call each other in a circle"},
	{ID: "G081", Name: "two-files-of-one-service", Severity: Warning, graph: (*look).twoFilesOfOneService,
		Title: "two files say that they are of the same service"},
}

func d(t time.Duration) string { return policy.FormatDuration(t) }

// attemptTime is how long an attempt of an edge may take that another can follow, or the
// call; zero if neither is bounded.
func (e *Edge) attemptTime() time.Duration {
	if t := e.Policy.Timeout; t.Attempt > 0 {
		return t.Attempt
	}
	return max(e.Policy.Timeout.Call, 0)
}

// workForNobody is rule G071.
func (x *look) workForNobody() {
	for i := range x.Edges {
		e := &x.Edges[i]
		fresh := x.program(e.To).Fresh
		own := e.attemptTime()
		if e.Deadline && !fresh || own == 0 || len(x.out[x.index[e.To]]) == 0 || !x.reads(e, "timeout.attempt", "timeout.call", "trust") {
			continue
		}
		longest, free := (*Edge)(nil), false
		for _, j := range x.out[x.index[e.To]] {
			f := &x.Edges[j]
			if !x.reads(f, "timeout.call") {
				continue
			}
			off := f.Policy.Timeout.Call <= 0
			if longest == nil || off && !free || !free && f.Policy.Timeout.Call > longest.Policy.Timeout.Call {
				longest, free = f, off
			}
		}
		if longest == nil || !free && longest.Policy.Timeout.Call <= own {
			continue
		}
		why, remedy := fmt.Sprintf("the deadline does not travel from %s", e.From), "write "+e.Travel+" in the file of "+e.From
		if fresh {
			why, remedy = fmt.Sprintf("%s gives its calls fresh timeouts", e.To), "use the context of the request for the calls that it makes, and remove facts.fresh"
		}
		call := longest.Policy.Timeout.Call
		reason := fmt.Sprintf("%s may take %s, but %s gives %s only %s: up to %s of wasted work, after each attempt, since %s",
			longest.arrow(), d(call), e.From, e.To, d(own), d(call-own), why)
		if free {
			reason = fmt.Sprintf("%s may take for ever, but %s gives %s only %s: the rest is wasted, after each attempt, since %s",
				longest.arrow(), e.From, e.To, d(own), why)
		}
		x.find(x.rule.Severity, longest, "timeout.call", reason, remedy)
	}
}

// timeoutNeverReached is rule G072.
func (x *look) timeoutNeverReached() {
	left, by := x.timeLeft()
	for i := range x.Edges {
		e := &x.Edges[i]
		from := x.index[e.From]
		if call := e.Policy.Timeout.Call; left[from] > 0 && call > left[from] && x.reads(e, "timeout.call") {
			x.find(x.rule.Severity, e, "timeout.call", fmt.Sprintf("%s may take %s, but %s leaves %s at most %s: what comes after that never happens",
				e.arrow(), d(call), by[from].arrow(), e.From, d(left[from])), "write "+d(left[from])+" or less, so that the file says what happens")
		}
	}
}

// timeLeft is how much time services have at most when their hastiest caller calls them, by node, and
// whose attempt it is. Zero means that nothing bounds it.
func (x *look) timeLeft() (left []time.Duration, by []*Edge) {
	left, by = make([]time.Duration, len(x.nodes)), make([]*Edge, len(x.nodes))
	for _, v := range x.callersFirst() {
		for _, i := range x.out[v] {
			e := &x.Edges[i]
			to := x.index[e.To]
			if x.round[i] || !e.Deadline || x.program(e.To).Fresh {
				continue
			}
			give, who := e.attemptTime(), e
			if above := left[v]; above > 0 && (give == 0 || above < give) {
				give, who = above, by[v]
			}
			if give -= max(e.Policy.Timeout.HopMargin, 0); give > 0 && (left[to] == 0 || give < left[to]) {
				left[to], by[to] = give, who
			}
		}
	}
	return left, by
}

// callersFirst returns all nodes, each before those that it calls without a circle.
func (x *look) callersFirst() []int {
	byComp := make([][]int, len(x.nodes))
	for v, c := range x.comp {
		byComp[c] = append(byComp[c], v)
	}
	order := make([]int, 0, len(x.nodes))
	for c := len(byComp) - 1; c >= 0; c-- {
		order = append(order, byComp[c]...)
	}
	return order
}

// keysLost is rule G073.
func (x *look) keysLost() {
	for v, name := range x.nodes {
		s := x.service(name)
		if s == nil || !s.Program.DropsKeys {
			continue
		}
		above := x.retriesAbove(v)
		if above == nil {
			continue
		}
		for _, i := range x.out[v] {
			if e := &x.Edges[i]; !e.Policy.Safe && x.reads(e, "safe") {
				x.find(x.rule.Severity, e, "safe", fmt.Sprintf("%s is not safe to repeat, %s is tried %d times, and %s drops the key in between: each attempt above is another write at %s",
					e.arrow(), above.arrow(), above.Policy.Retry.Attempts, name, e.To),
					fmt.Sprintf("let %s take the key of its request for this call (gabion.WithKey), or write retry: off for %s", name, above.arrow()))
			}
		}
	}
}

// retriesAbove returns the nearest edge with retries on a way to a node, or nil.
func (x *look) retriesAbove(v int) *Edge {
	seen, todo := map[int]bool{v: true}, []int{v}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, i := range x.into[at] {
			e := &x.Edges[i]
			if x.reads(e, "retry.attempts") && e.Policy.Retry.Attempts > 1 {
				return e
			}
			if from := x.index[e.From]; !seen[from] {
				seen[from] = true
				todo = append(todo, from)
			}
		}
	}
	return nil
}

// breakerTwice is rule G074.
func (x *look) breakerTwice() {
	for i := range x.Edges {
		e := &x.Edges[i]
		if e.Facts.Mesh.Breaker && !e.Policy.Breaker.Off && x.reads(e, "breaker") {
			x.find(x.rule.Severity, e, "facts.mesh.breaker", fmt.Sprintf("%s has a breaker in the mesh and one in the program: each counts the other's refusals, or hides failures from it, and they open and close at different times",
				e.arrow()), "keep the one in the program, which sees what calls are about, and switch the mesh's off; else write breaker: off")
		}
	}
}

// deadlineTooShort is rule G076.
func (x *look) deadlineTooShort() {
	for i := range x.Services {
		s := &x.Services[i]
		deadline := s.Program.Deadline
		if deadline <= 0 || x.about[s.Name] != i {
			continue
		}
		var sum time.Duration
		var texts []string
		longer := false
		for _, j := range x.out[x.index[s.Name]] {
			e := &x.Edges[j]
			call := e.Policy.Timeout.Call
			if !x.reads(e, "timeout.call") || call <= 0 {
				continue
			}
			if sum, texts = sum+call, append(texts, d(call)); call > deadline {
				longer = true
				x.find(x.rule.Severity, e, "timeout.call", fmt.Sprintf("%s may take %s, but those who call %s wait %s: %s comes too late for them",
					e.arrow(), d(call), s.Name, d(deadline), d(call-deadline)), "write less than "+d(deadline))
			}
		}
		if len(texts) > 8 {
			texts = append(texts[:7], "…")
		}
		if sum > deadline && !longer {
			x.findAt(Note, s, "facts.deadline", fmt.Sprintf("%s: %s = %s > deadline %s: calls that are made in a row do not all get their time",
				s.Name, strings.Join(texts, " + "), d(sum), d(deadline)), "write shorter timeouts for calls that are made in a row")
		}
	}
}

// ownServiceExternal is rule G077.
func (x *look) ownServiceExternal() {
	for i := range x.Edges {
		e := &x.Edges[i]
		if x.service(e.To) == nil || e.Deadline || !x.reads(e, "trust") {
			continue
		}
		x.find(x.rule.Severity, e, "trust", fmt.Sprintf("%s is a service of yours, and deadlines and attempt numbers do not travel to it: it works on for callers who have gone",
			e.arrow()), "write "+e.Travel)
	}
}

// callsInACircle is rule G080.
func (x *look) callsInACircle() {
	told := map[int]bool{}
	for i := range x.Edges {
		e := &x.Edges[i]
		from := x.index[e.From]
		if c := x.comp[from]; !x.round[i] || told[c] {
			continue
		}
		told[x.comp[from]] = true
		names, product := x.circle(i)
		if len(names) > 9 {
			names = append(append(names[:4:4], "…"), names[len(names)-4:]...)
		}
		reason := strings.Join(names, " → ") + ": a call may go round"
		if product > 1 {
			reason += fmt.Sprintf(", and each round makes it %s attempts", number(product))
		}
		x.find(x.rule.Severity, e, "", reason, "break the circle with a queue, or say in the request that it has been there; a deadline that travels ends it")
	}
}

// circle returns the shortest way back to where an edge begins.
func (x *look) circle(first int) (names []string, product float64) {
	e := &x.Edges[first]
	home := x.index[e.From]
	via := map[int]int{} // the edge by which a node was reached
	via[x.index[e.To]] = first
	todo := []int{x.index[e.To]}
	for at := todo[0]; at != home; {
		at, todo = todo[0], todo[1:]
		for _, i := range x.out[at] {
			if to := x.index[x.Edges[i].To]; x.round[i] && x.comp[to] == x.comp[home] {
				if _, seen := via[to]; !seen {
					via[to] = i
					todo = append(todo, to)
				}
			}
		}
		if len(todo) == 0 {
			break
		}
	}
	product = 1
	for at := home; ; {
		f := &x.Edges[via[at]]
		names = append([]string{f.To}, names...)
		for _, t := range f.attempts(counting{}, false) {
			product *= t.n
		}
		if at = x.index[f.From]; at == home {
			return append([]string{e.From}, names...), product
		}
	}
}

// twoFilesOfOneService is rule G081.
func (x *look) twoFilesOfOneService() {
	for i := range x.Services {
		s := &x.Services[i]
		if first := &x.Services[x.about[s.Name]]; first != s {
			where := first.Place("facts.service", "", "")
			x.findAt(x.rule.Severity, s, "facts.service", fmt.Sprintf("%s is the service of %s:%d, too: their calls count together, and what the second says of the program is not looked at",
				s.Name, where.File, where.Line), "give each program a name of its own, or keep one file")
		}
	}
}
