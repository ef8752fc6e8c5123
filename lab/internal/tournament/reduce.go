package tournament

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/stat"
)

// Group is the worlds that are averaged together.
type Group struct {
	Name         string
	Worlds       int
	Replications int
	Rows         []Row // by entrant
}

// Row is what one entrant came to in a group of worlds. What is unknown is NaN.
type Row struct {
	Mean      [columns]float64
	Worst     [columns]float64 // of worlds; of recovery, of runs
	WorstIn   [columns]string  // in which world
	Verdict   [columns]stat.Verdict
	Delta     [columns]stat.Interval // against the first entrant, in pairs
	Dead      float64                // the mean
	StaysDown stat.Interval          // the probability
	Front     bool                   // no other is better in one of answered, load and recovery, and no worse in the others
}

// Loss is a world in which a judged entrant is worse than another.
type Loss struct {
	Entrant, World, To string
	Of                 string // what it is worse in
	Ours, Theirs       float64
	Delta              stat.Interval // theirs − ours
	OurLoad, TheirLoad float64
	Others             int    // how many more it is worse than
	Breaks             bool   // more than a point fewer answered than the plain client, or than one whose load is not higher
	Command            string // what shows it
}

// reduce makes the tables of the cells.
func (r *Result) reduce() {
	var names []string
	for _, w := range r.Worlds {
		if !slices.Contains(names, w.Group) {
			names = append(names, w.Group)
		}
	}
	for _, name := range names {
		r.Groups = append(r.Groups, r.group(name))
	}
	for e := range r.Entrants {
		if r.Entrants[e].Judged {
			r.lose(e)
		}
	}
	r.kinds()
	r.everyday()
}

// group makes the table of one group.
func (r *Result) group(name string) Group {
	g := Group{Name: name}
	var in []int
	for w := range r.Worlds {
		if r.Worlds[w].Group == name {
			in = append(in, w)
			g.Replications = r.Worlds[w].Replications
		}
	}
	g.Worlds = len(in)
	for e := range r.Entrants {
		g.Rows = append(g.Rows, r.row(e, in))
	}
	for e := range g.Rows {
		g.Rows[e].Front = r.onFront(e, in, g.Rows)
	}
	return g
}

// row reduces an entrant's cells.
func (r *Result) row(e int, in []int) (row Row) {
	var dead []float64
	stuck, of := 0, 0
	for _, w := range in {
		c := &r.cells[e][w]
		stuck, of = stuck+c.stuck, of+c.known
		dead = append(dead, c.dead)
	}
	row.Dead, row.StaysDown = known(dead), stat.Share(stuck, of)
	for k := range columns {
		var means []float64
		row.Worst[k] = math.NaN()
		for _, w := range in {
			c := &r.cells[e][w]
			means = append(means, c.mean(k))
			worst := c.mean(k)
			if k == recovery {
				worst = most(c.values[k])
			}
			if k.more() == (worst < row.Worst[k]) && worst != row.Worst[k] && !math.IsNaN(worst) || math.IsNaN(row.Worst[k]) {
				row.Worst[k], row.WorstIn[k] = worst, r.Worlds[w].File.Name
			}
		}
		row.Mean[k] = known(means)
		row.Delta[k], row.Verdict[k] = r.against(0, e, in, k)
	}
	return row
}

// most returns the largest of what is known.
func most(xs []float64) float64 {
	largest := math.NaN()
	for _, x := range xs {
		if !(x <= largest) && !math.IsNaN(x) {
			largest = x
		}
	}
	return largest
}

// against compares two entrants over worlds: each replication is one observation, the
// mean over worlds of the difference in that replication.
func (r *Result) against(a, b int, in []int, k column) (stat.Interval, stat.Verdict) {
	var zeros, means []float64
	for i := range r.Worlds[in[0]].Replications {
		var ds []float64
		for _, w := range in {
			x, y := r.cells[a][w].values[k], r.cells[b][w].values[k]
			if i < len(x) && i < len(y) {
				ds = append(ds, y[i]-x[i])
			}
		}
		if d := known(ds); !math.IsNaN(d) {
			zeros, means = append(zeros, 0), append(means, d)
		}
	}
	return stat.Paired(zeros, means, k.more(), k.worth())
}

// goals are what the front is about.
var goals = []column{answered, load, recovery}

// onFront reports whether no other entrant is better in a goal, resolved, and in no
// goal worse.
func (r *Result) onFront(e int, in []int, rows []Row) bool {
	for other := range rows {
		if other == e {
			continue
		}
		better, worse := false, false
		for _, k := range goals {
			delta, verdict := r.against(e, other, in, k)
			better = better || verdict == stat.Better
			worse = worse || verdict == stat.Worse || delta.Value != 0 && (delta.Value > 0) != k.more() && math.Abs(delta.Value) >= k.worth()
		}
		if better && !worse {
			return false
		}
	}
	return true
}

// point is one point in a hundred.
const point = 0.01

// lose lists where an entrant is worse than another: for each world and goal the one
// to which it loses most.
func (r *Result) lose(e int) {
	var losses []Loss
	for w := range r.Worlds {
		for _, k := range goals {
			if l, ok := r.worst(e, w, k); ok {
				losses = append(losses, l)
			}
		}
	}
	slices.SortStableFunc(losses, func(a, b Loss) int {
		if a.Breaks != b.Breaks {
			return cmp.Compare(b2i(b.Breaks), b2i(a.Breaks))
		}
		return cmp.Or(cmp.Compare(columnOf(a.Of), columnOf(b.Of)), cmp.Compare(math.Abs(b.Delta.Value), math.Abs(a.Delta.Value)))
	})
	r.Losses = append(r.Losses, losses...)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// worst is the largest loss of an entrant in a world. One that breaks the rule comes
// before those that do not.
func (r *Result) worst(e, w int, k column) (worst Loss, lost bool) {
	ours := &r.cells[e][w]
	for other := range r.Entrants {
		theirs := &r.cells[other][w]
		delta, verdict := compare(ours, theirs, k)
		if other == e || r.Entrants[other].Judged || verdict != stat.Better {
			continue
		}
		l := Loss{
			Entrant: r.Entrants[e].Name, World: r.Worlds[w].File.Name, To: r.Entrants[other].Name, Of: words[k],
			Ours: ours.mean(k), Theirs: theirs.mean(k), Delta: delta, OurLoad: ours.mean(load), TheirLoad: theirs.mean(load), Others: worst.Others,
		}
		l.Breaks = k == answered && delta.Value > point && (l.To == plain || !(l.TheirLoad > l.OurLoad+load.worth()))
		l.Command = r.command(e, w, other)
		switch {
		case !lost:
			worst, lost = l, true
		case l.Breaks && !worst.Breaks, l.Breaks == worst.Breaks && math.Abs(delta.Value) > math.Abs(worst.Delta.Value):
			l.Others++
			worst = l
		default:
			worst.Others++
		}
	}
	return worst, lost
}

// words name the columns.
var words = [columns]string{"answered in time", "answered in the trouble", "time in failed calls", "attempts for each call", "recovery", "peak after"}

// plain is the name of the client that the rule is about.
const plain = "plain"

// command shows a loss: the entrant in a world, against another.
func (r *Result) command(e, w, other int) string {
	args := append([]string{"gabion", "lab", "run", r.Worlds[w].File.Name}, r.Entrants[e].First...)
	if r.Entrants[other].Against != "" {
		args = append(args, "--against", r.Entrants[other].Against)
	}
	if r.Seed != 0 {
		args = append(args, "--seed", fmt.Sprint(r.Seed))
	}
	return strings.Join(append(args, "--replications", fmt.Sprint(r.Worlds[w].Replications)), " ")
}
