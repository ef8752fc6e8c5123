package tune

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// synthetic is a bench without scenarios, whose rows are made.
func synthetic(goal string) *bench {
	g, err := ParseGoal(goal)
	if err != nil {
		panic(err)
	}
	b := &bench{worlds: make([]World, 1), goal: g, columns: []Column{g.Objective}}
	for _, bound := range g.Bounds {
		b.columns = append(b.columns, bound.Column)
	}
	return b
}

// drawnPair is a validation in which both sides share some noise and have some of their own.
func drawnPair(seed uint64, seeds, columns int, noise float64, now, best []float64) *pair {
	v := &pair{now: make([][][]Row, 1), best: make([][][]Row, 1), seeds: seeds}
	v.now[0], v.best[0] = make([][]Row, len(validated)), make([][]Row, len(validated))
	stream := draw.New(seed, 9, 0)
	for range seeds {
		for i := range validated {
			a, b := make(Row, columns), make(Row, columns)
			for k := range columns {
				shared := stream.Normal()
				a[k] = now[k] + noise*(3*shared+stream.Normal())
				b[k] = best[k] + noise*(3*shared+stream.Normal())
			}
			v.now[0][i], v.best[0][i] = append(v.now[0][i], a), append(v.best[0][i], b)
		}
	}
	return v
}

// Where no candidate is better than today's, the search still finds one that looks so. The
// validation says so of one in forty at most.
func TestNoiseIsHardlyEverTakenForAWin(t *testing.T) {
	const trials = 300
	wins, looked := 0, 0
	for seed := range uint64(trials) {
		p := hill(Point{2, 4, 4, 4, 4}, 0, 1, seed)
		p.Final = 12
		p.MaxRuns = 400
		found := Search(t.Context(), p)
		if found.Best == found.Home {
			continue
		}
		looked++
		b := synthetic("goodput first")
		if verdict, _ := judge(b.rows(drawnPair(seed, 12, 1, 0.01, []float64{0.9}, []float64{0.9}))); verdict == Win {
			wins++
		}
	}
	t.Logf("of %d searches %d had a candidate to validate, and %d were called a win", trials, looked, wins)
	if most := 0.025*trials + 3*math.Sqrt(0.025*trials); float64(wins) > most {
		t.Errorf("%d of %d are called a win", wins, trials)
	}
}

func TestWhatAValidationProves(t *testing.T) {
	const goal = "goodput first, amplification <= 1.2, recovery <= now"
	for _, c := range []struct {
		fact      string
		now, best []float64 // goodput, amplification, recovery
		verdict   string
		says      string
	}{
		{"better, and within the bounds", []float64{0.90, 1.1, 5}, []float64{0.92, 1.15, 5}, Win, "goodput is better"},
		{"better by nothing", []float64{0.90, 1.1, 5}, []float64{0.90, 1.1, 5}, Unresolved, "do not tell whether goodput is better"},
		{"worse", []float64{0.90, 1.1, 5}, []float64{0.88, 1.1, 5}, Unresolved, "goodput is worse"},
		{"better, at the price of a bound", []float64{0.90, 1.1, 5}, []float64{0.95, 1.3, 5}, Unresolved, "amplification <= 1.2 does not hold"},
		{"better, and it is open whether a bound holds", []float64{0.90, 1.1, 5}, []float64{0.95, 1.2, 5}, Unresolved, "whether amplification <= 1.2 holds is not resolved"},
		{"better, and slower to recover than today", []float64{0.90, 1.1, 5}, []float64{0.95, 1.1, 6}, Unresolved, "recovery <= now does not hold"},
		{"a bound that did not hold holds now, at a price", []float64{0.90, 1.4, 5}, []float64{0.88, 1.1, 5}, Win, "the price is goodput: "},
		{"a bound that did not hold holds now", []float64{0.90, 1.4, 5}, []float64{0.90, 1.1, 5}, Win, "amplification <= 1.2 holds, and today it does not"},
		{"a bound holds neither way, and no less", []float64{0.90, 1.4, 5}, []float64{0.93, 1.3, 5}, Win, "goodput is better"},
		{"a bound holds neither way, and less", []float64{0.90, 1.4, 5}, []float64{0.93, 1.5, 5}, Unresolved, "today as little, and it gets worse"},
	} {
		b := synthetic(goal)
		verdict, why := judge(b.rows(drawnPair(1, 20, 3, 0.002, c.now, c.best)))
		if verdict != c.verdict || !strings.Contains(strings.Join(why, "\n"), c.says) {
			t.Errorf("%s: %s: %q", c.fact, verdict, why)
		}
	}
}

// A file that refuses nearly everything sends little. That is no merit, and what it sends is no bound.
func TestToSendLessThanIsNeededIsNoMerit(t *testing.T) {
	for _, c := range []struct {
		fact    string
		best    []float64
		verdict string
	}{
		{"as much as is needed", []float64{0.9, 0.99}, Win},
		{"more than is needed", []float64{0.9, 1.05}, Unresolved},
	} {
		b := synthetic("goodput first, amplification <= now")
		now := []float64{0.6, 0.4}
		if verdict, why := judge(b.rows(drawnPair(1, 20, 2, 0.002, now, c.best))); verdict != c.verdict {
			t.Errorf("%s: %s: %q", c.fact, verdict, why)
		}
		home, rows := []Row{now, now}, []Row{c.best, c.best}
		if score := mean(b.score(rows, home)); score > 89 != (c.verdict == Win) {
			t.Errorf("%s: the search gives it %.1f points", c.fact, score)
		}
	}
}

// The defaults are the yardstick: as much as they come to is not called worse, unless the
// goal says so.
func TestWhatTheDefaultsComeToIsNotWorse(t *testing.T) {
	for _, c := range []struct {
		fact, goal string
		usual      []float64 // goodput, amplification, recovery
		verdict    string
	}{
		{"as much as the defaults", "goodput first, amplification <= usual, recovery <= usual", []float64{0.9, 1.2, 9}, Win},
		{"more than the defaults send", "goodput first, amplification <= usual, recovery <= usual", []float64{0.9, 1.1, 9}, Unresolved},
		{"slower than the defaults", "goodput first, amplification <= usual, recovery <= usual", []float64{0.9, 1.2, 4}, Unresolved},
		{"more than today, which is what the goal says", "goodput first, amplification <= now, recovery <= usual", []float64{0.9, 1.2, 9}, Unresolved},
	} {
		b := synthetic(c.goal)
		v := drawnPair(1, 20, 3, 0.002, []float64{0.6, 1, 1}, []float64{0.9, 1.2, 8})
		beside(v, drawnPair(1, 20, 3, 0.002, c.usual, c.usual))
		if verdict, why := judge(b.rows(v)); verdict != c.verdict {
			t.Errorf("%s: %s: %q", c.fact, verdict, why)
		}
		var home, rows []Row
		for i := range v.now[0][0] {
			home, rows = append(home, v.now[0][0][i]), append(rows, v.best[0][0][i])
		}
		if score := mean(b.score(rows, home)); score > 89 != (c.verdict == Win) {
			t.Errorf("%s: the search gives it %.1f points", c.fact, score)
		}
	}
}

// beside puts what the defaults come to beside what the file does.
func beside(v, usual *pair) {
	for i := range v.now[0] {
		for k := range v.now[0][i] {
			v.now[0][i][k] = append(v.now[0][i][k], usual.now[0][i][k]...)
		}
	}
}

func TestWhatIsWorseWithOtherTroubleIsNoWin(t *testing.T) {
	b := synthetic("goodput first")
	v := drawnPair(1, 20, 1, 0.002, []float64{0.9}, []float64{0.95})
	for i := range v.best[0][2] {
		v.best[0][2][i][0] -= 0.1
	}
	verdict, why := judge(b.rows(v))
	if verdict != Unresolved || !strings.Contains(strings.Join(why, "\n"), "goodput is worse with longer trouble") {
		t.Errorf("%s: %q", verdict, why)
	}
	beside(v, drawnPair(1, 20, 1, 0.002, []float64{0.84}, []float64{0.84}))
	if verdict, why := judge(b.rows(v)); verdict != Win {
		t.Errorf("no worse than the defaults: %s: %q", verdict, why)
	}
}

func TestADifferenceThatDoesNotCountIsNoWin(t *testing.T) {
	b := synthetic("goodput first")
	verdict, why := judge(b.rows(drawnPair(1, 20, 1, 0.00001, []float64{0.9}, []float64{0.9003})))
	if verdict != Unresolved || !strings.Contains(strings.Join(why, "\n"), "better by less than counts") {
		t.Errorf("%s: %q", verdict, why)
	}
}

func TestMoreNoiseNeedsMoreSeeds(t *testing.T) {
	for _, c := range []struct {
		differences []float64
		want        int
	}{
		{[]float64{1, 1, 1.1, 0.9}, fewSeeds},
		{[]float64{1, -1, 3, 1}, 32},
		{[]float64{1, -1, 1, -1}, mostSeeds},
		{nil, mostSeeds},
	} {
		if n := seedsFor(c.differences); n < c.want-20 && c.want != fewSeeds || n > c.want+8 || c.want == fewSeeds && n != fewSeeds {
			t.Errorf("%v: %d seeds", c.differences, n)
		}
	}
}

// A bound that is missed costs more than any objective gains, and one that holds costs
// nothing.
func TestABoundCountsBeforeTheObjective(t *testing.T) {
	b := synthetic("goodput first, amplification <= 1.2, recovery <= now")
	home := []Row{{0.9, 1.1, 5}, {0.8, 1.1, math.NaN()}}
	for _, c := range []struct {
		fact string
		rows []Row
		want float64
	}{
		{"as today", home, 85},
		{"more, within the bounds", []Row{{0.95, 1.3, 4}, {0.85, 1.0, 9}}, 90},
		{"a bound is missed by one per cent, in the mean", []Row{{0.95, 1.2, 5}, {0.85, 1.224, 5}}, 85},
		{"more than today", []Row{{0.9, 1.1, 5.1}, {0.8, 1.1, 7}}, 80},
		{"unknown", []Row{{math.NaN(), 1.1, 5}, {math.NaN(), 1.1, 5}}, math.NaN()},
	} {
		got := mean(b.score(c.rows, home))
		if math.Abs(got-c.want) > 1.2 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: %v, not %v", c.fact, got, c.want)
		}
	}
}

func TestTheFrontIsWhatNobodyBeats(t *testing.T) {
	b := synthetic("goodput first, amplification <= 1.2")
	b.starts = []Start{{Dimensions: []Dimension{{Path: "retry.attempts", Values: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}, Home: 2}}}}
	found := &Found{}
	add := func(v int, goodput, amplification float64) *Candidate {
		c := &Candidate{Point: Point{0, v}}
		for range 6 {
			c.Rows = append(c.Rows, Row{goodput, amplification})
		}
		found.All = append(found.All, c)
		return c
	}
	found.Home = add(2, 0.9, 1.1)
	add(0, 0.88, 1.2)
	add(1, 0.87, 1.0)
	found.Best = add(3, 0.92, 1.15)
	add(4, 0.95, 1.4)
	add(5, 0.95, 1.4)
	var says []string
	for _, r := range b.front(found, []int{0, 1}) {
		says = append(says, r.text())
	}
	if want := []string{"retry.attempts=5", "best: retry.attempts=4", "today", "retry.attempts=2"}; !slices.Equal(says, want) {
		t.Errorf("%q", says)
	}
	for v := 4; v < 12; v++ {
		add(v, 0.93+float64(v)/100, 1.2+float64(v)/10)
	}
	front := b.front(found, []int{0, 1})
	if len(front) != maxFront || !slices.ContainsFunc(front, func(r FrontRow) bool { return r.Proposed }) || front[0].text() != "retry.attempts=12" {
		t.Errorf("%d rows: %v", len(front), front)
	}
}

func TestNumbersAreSpelledInTheirUnits(t *testing.T) {
	for _, c := range []struct {
		x    float64
		unit string
		want string
	}{
		{0.9, scenario.Share, "90 %"}, {0.90125, scenario.Share, "90.12 %"}, {0.25, scenario.Seconds, "250 ms"}, {12.345, scenario.Seconds, "12.35 s"},
		{1.2345, scenario.Ratio, "1.234"}, {math.NaN(), scenario.Share, "unknown"}, {math.Inf(1), scenario.Seconds, "unbounded"}, {-0.0000001, scenario.Ratio, "0"},
	} {
		if got := value(c.x, c.unit); got != c.want {
			t.Errorf("%v: %s", c.x, got)
		}
	}
	j := Judged{Shown: Shown{Unit: scenario.Share}, Delta: estimate(stat.Interval{Value: 0.01, Low: -0.002, High: 0.022})}
	if got := j.interval(); got != "+1 (−0.2 to +2.2)" {
		t.Error(got)
	}
}
