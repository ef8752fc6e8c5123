package tournament

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
	"github.com/gabion-go/gabion/policy"
)

// What the first entrant is held against.
const (
	tolerated = 0.003 // how far below the plain client a world may be
	fairLoad  = 1.2   // how many times its load another may send that is called better
	failMore  = 1.2   // how many times the failures of no budget it may have in everyday errors
	sendMore  = 1.01  // at how many times its sends
)

// Kind is the worlds of one family, or the library, for the first entrant.
type Kind struct {
	Name      string
	Worlds    int
	Ours      [columns]float64
	Plain     float64 // answered in time; NaN if it does not take part
	Best      string  // of the others whose load is fair, the one that answers most; may be empty
	BestValue float64
	BestLoad  float64
	Better    bool // that is resolved
	Below     int  // worlds below the plain client by more than is tolerated
}

// Below is a world in which the first entrant answers fewer calls than the plain client,
// by more than is tolerated.
type Below struct {
	World       string
	Ours, Plain float64
	Resolved    bool
}

// Everyday is what the budget costs where calls fail now and then.
type Everyday struct {
	Worlds          int
	Failures, Sends float64  // to those without a budget, in all worlds together
	Missed          []string // worlds with too many failures, or too many sends, beyond chance
}

// Held reports whether the budget costs no more than it may.
func (e *Everyday) Held() bool {
	return len(e.Missed) == 0 && !(e.Failures > failMore) && !(e.Sends > sendMore)
}

// kinds compares the first entrant by kind of world.
func (r *Result) kinds() {
	var order []string
	in := map[string][]int{}
	for w := range r.Worlds {
		name := cmp.Or(r.Worlds[w].Kind, r.Worlds[w].Group)
		if in[name] == nil {
			order = append(order, name)
		}
		in[name] = append(in[name], w)
	}
	plainly := slices.IndexFunc(r.Entrants, func(e Entrant) bool { return e.Name == plain })
	for _, name := range order {
		r.Kinds = append(r.Kinds, r.kind(name, in[name], plainly))
	}
	slices.SortStableFunc(r.Below, func(a, b Below) int { return cmp.Compare(a.Ours-a.Plain, b.Ours-b.Plain) })
}

// kind makes the row of some worlds, and adds those that are below the plain client.
func (r *Result) kind(name string, in []int, plainly int) Kind {
	made := Kind{Name: name, Worlds: len(in), Plain: math.NaN()}
	rows := make([]Row, len(r.Entrants))
	for e := range rows {
		rows[e] = r.row(e, in)
	}
	made.Ours = rows[0].Mean
	for e := 1; e < len(rows); e++ {
		x, l := rows[e].Mean[answered], rows[e].Mean[load]
		if r.Entrants[e].Judged || l > fairLoad*made.Ours[load] || made.Best != "" && !(x > made.BestValue) {
			continue
		}
		made.Best, made.BestValue, made.BestLoad, made.Better = r.Entrants[e].Name, x, l, rows[e].Verdict[answered] == stat.Better
	}
	if plainly < 0 {
		return made
	}
	made.Plain = rows[plainly].Mean[answered]
	for _, w := range in {
		ours, theirs := &r.cells[0][w], &r.cells[plainly][w]
		if b := (Below{r.Worlds[w].File.Name, ours.mean(answered), theirs.mean(answered), false}); b.Plain-b.Ours > tolerated {
			_, verdict := compare(ours, theirs, answered)
			b.Resolved = verdict == stat.Better
			r.Below = append(r.Below, b)
			made.Below++
		}
	}
	return made
}

// unbudgeted is an entrant without its retry budget.
func unbudgeted(e Entrant) Entrant {
	change := e.Policies.Change
	e.Policies = scenario.Policies{Name: "no budget", Change: func(p policy.Policy) policy.Policy {
		if change != nil {
			p = change(p)
		}
		p.Retry.Budget = policy.Budget{Off: true}
		return p
	}}
	return e
}

// everyday compares the first entrant with itself without a budget.
func (r *Result) everyday() {
	var ours, theirs, sent, without float64
	made := &Everyday{}
	for w := range r.Worlds {
		if r.Worlds[w].Kind != family.Everyday || len(r.free) == 0 {
			continue
		}
		calls := r.Worlds[w].File.Expected() * float64(r.Worlds[w].Replications)
		a, b := &r.cells[0][w], &r.free[w]
		failed, least := calls*(1-a.mean(answered)), calls*(1-b.mean(answered))
		ours, theirs, sent, without = ours+failed, theirs+least, sent+calls*a.mean(load), without+calls*b.mean(load)
		made.Worlds++
		if failed > failMore*least+3*math.Sqrt(least)+3 || a.mean(load) > sendMore*b.mean(load) {
			made.Missed = append(made.Missed, fmt.Sprintf("%s: %.0f of %.0f fail, and %.0f without a budget, at %.3f and %.3f attempts a call",
				r.Worlds[w].File.Name, failed, calls, least, a.mean(load), b.mean(load)))
		}
	}
	if made.Worlds > 0 {
		made.Failures, made.Sends = ours/theirs, sent/without
		r.Everyday = made
	}
}

// Sentence says what the budget costs in one line.
func (e *Everyday) Sentence() string {
	s := fmt.Sprintf("everyday errors: %.2f times the failures of no budget at %.3f times its sends; at most %.1f and %.2f are aimed at",
		e.Failures, e.Sends, failMore, sendMore)
	if len(e.Missed) > 0 {
		s += fmt.Sprintf(", which %d of %d worlds miss", len(e.Missed), e.Worlds)
	}
	return s
}

// Sentence says in one line how far below.
func (b *Below) Sentence() string {
	s := fmt.Sprintf("%s: %s, and plain %s", b.World, answered.say(b.Ours), answered.say(b.Plain))
	if !b.Resolved {
		s += ", not resolved"
	}
	return s
}

// belowSays says of how many worlds it is true.
func (r *Result) belowSays() string {
	if len(r.Below) == 0 {
		return fmt.Sprintf("in no world below plain by more than %s points", answered.show(tolerated))
	}
	return fmt.Sprintf("below plain by more than %s points in %d of %d worlds", answered.show(tolerated), len(r.Below), len(r.Worlds))
}

// against spells who else is best in a kind.
func (k *Kind) against() string {
	if k.Best == "" {
		return "–"
	}
	s := fmt.Sprintf("%s %s at %s", k.Best, answered.show(k.BestValue), load.show(k.BestLoad))
	if k.Better {
		s += "+"
	}
	return s
}

// cells spell the row of a kind.
func (k *Kind) cells() []string {
	return []string{
		k.Name, fmt.Sprint(k.Worlds), answered.say(k.Ours[answered]), answered.say(k.Plain), load.show(k.Ours[load]), recovery.say(k.Ours[recovery]),
		strings.Replace(k.against(), "+", " ↑", 1), fmt.Sprint(k.Below),
	}
}

// bars says whether the first entrant holds what it should, a sentence each: first about
// all worlds, then about each in which it does not, and the same of everyday errors.
func (r *Result) bars() []string {
	said := []string{upper(r.belowSays()) + "."}
	for i := range r.Below {
		said = append(said, r.Below[i].Sentence())
	}
	if r.Everyday != nil {
		said = append(append(said, upper(r.Everyday.Sentence())+"."), r.Everyday.Missed...)
	}
	return said
}

// kindTable writes the table of kinds and the bars.
func (r *Result) kindTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s by kind of scenario\n%-25s%3s%8s%8s%6s%7s  %s\n", r.Entrants[0].Name, "", "", "in time", "plain", "load", "recov.", "best of the others")
	for i := range r.Kinds {
		k := &r.Kinds[i]
		fmt.Fprintf(b, "%-25s%3d%8s%8s%6s%7s  %s\n", cut(k.Name, 25), k.Worlds, answered.show(k.Ours[answered]), answered.show(k.Plain), load.show(k.Ours[load]), recovery.show(k.Ours[recovery]), cut(k.against(), 30))
	}
	b.WriteString("  best of the others: whose load is at most 1.2 times as high; + is resolved\n\n")
	for _, says := range r.bars() {
		fmt.Fprintf(b, "  %s\n", folded(says, 78))
	}
}

// kindMarkdown writes the same as a part of a document.
func (r *Result) kindMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s by kind of scenario\n\n| | scenarios | answered in time | plain | load | recovery | best of the others, at most 1.2 times the load | below plain |\n|---|--:|--:|--:|--:|--:|---|--:|\n", upper(r.Entrants[0].Name))
	for i := range r.Kinds {
		fmt.Fprintf(b, "| %s |\n", strings.Join(r.Kinds[i].cells(), " | "))
	}
	for _, says := range r.bars() {
		fmt.Fprintf(b, "\n- %s", says)
	}
	b.WriteString("\n")
}
