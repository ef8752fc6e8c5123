package scenario

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// One call in 25 is refused for want of a key, of a service that nothing is wrong with.
const refusing = `version: 1
title: x
duration: 60s
replications: 8
clients:
  shop: {count: 10, rate: 96/s, calls: [{to: db}]}
  till: {count: 10, rate: 4/s, calls: [{to: db, policy: till}]}
services:
  db: {workers: 10, queue: 100, time: exp 20ms}
policies:
  db: {safe: true}
  till: {safe: true}
against:
  till: {safe: true, key: required}
`

func TestRefusingAHealthyServiceIsNoGain(t *testing.T) {
	s := study(t, refusing, Options{})
	for _, d := range s.Diffs {
		switch d.Key {
		case "amplification", "received", "wasted", "load": // it does send less
		default:
			if d.Verdict == "better" {
				t.Errorf("to refuse is better in %s %s of %q: %v", d.Key, d.Phase, d.Of, d.Delta)
			}
		}
	}
	j := s.Judgements[0]
	if j.Winner != s.Sides[0].Name || math.Abs(j.Points+4) > 0.5 {
		t.Errorf("%q wins by %g points, want the side that answers 4 calls of a hundred more: %s", j.Winner, j.Points, j.Sentence)
	}
	if want := "points more in time than its rival."; !strings.Contains(j.Sentence, want) {
		t.Errorf("%q does not say %q", j.Sentence, want)
	}
}

// A refusal is waited for as long as it took, and no answer is quicker for it.
func TestLatenciesAreOfAnswers(t *testing.T) {
	s := study(t, refusing, Options{Replications: 2})
	for _, c := range []struct {
		key, of string
		atLeast float64
	}{{"p50", "", 0.01}, {"mean", "", 0.015}} {
		a, b := metric(t, s, 0, c.key, c.of, "").Mean.Value, metric(t, s, 1, c.key, c.of, "").Mean.Value
		if a < c.atLeast || b < c.atLeast || math.Abs(a/b-1) > 0.03 {
			t.Errorf("%s is %g, and %g where some are refused", c.key, a, b)
		}
	}
	if got := metric(t, s, 1, "p50", "till", "").Mean.Value; !math.IsNaN(got) {
		t.Errorf("nothing is answered, and takes %g s", got)
	}
}

func TestTimeInCallsThatFailed(t *testing.T) {
	text := `version: 1
title: x
duration: 60s
replications: 2
clients:
  shop: {count: 1, rate: 10/s, even: true, calls: [{to: db}]}
services:
  db: {time: 1ms}
faults:
  - {kind: black_hole, service: db, at: 20s, for: 20s, share: 100%}
policies:
  db: {timeout: {call: 2s, attempt: 2s}, retry: off, breaker: off, bulkhead: off}
`
	s := study(t, text, Options{})
	for phase, want := range map[string]float64{"before": 0, "during": 2, "after": 0} {
		if got := metric(t, s, 0, "failed_time", "", phase).Mean.Value; math.Abs(got-want) > 0.03 {
			t.Errorf("%s the trouble a call waits %g s for nothing, want %g", phase, got, want)
		}
	}
}

// A quarter of the answers is lost by callers who give up after a second: how their
// calls end counts where they began, so that a screen adds up to all of them.
func TestHowCallsEndCountsWhereTheyBegan(t *testing.T) {
	s := study(t, `version: 1
title: x
duration: 60s
replications: 2
clients:
  shop: {count: 10, rate: 100/s, calls: [{to: db}]}
services:
  db: {time: 1ms}
faults:
  - {kind: black_hole, service: db, at: 20s, for: 5s}
policies:
  db: {timeout: {call: 3s, attempt: 3s}, retry: off, breaker: off, bulkhead: off}
`, Options{})
	for _, p := range s.Sides[0].Phases {
		good, failed, sum := 0.0, 0.0, 0.0
		for _, m := range p.Metrics {
			switch {
			case m.Key == "goodput" && m.Of == "":
				good = m.Mean.Value
			case m.Key == "failed":
				failed = m.Mean.Value
			}
		}
		for _, e := range p.Ended {
			sum += e.Share
			if e.Reason == "ok" && math.Abs(e.Share-good) > 1e-6 {
				t.Errorf("%s: %g end well, and the goodput is %g", p.Name, e.Share, good)
			}
		}
		if math.Abs(sum-1) > 1e-5 || math.Abs(good+failed-1) > 1e-5 {
			t.Errorf("%s: endings are %g of the calls, good and failed %g", p.Name, sum, good+failed)
		}
	}
}

func TestHarmIsNamedWhereItHappened(t *testing.T) {
	s := study(t, `version: 1
title: x
duration: 300s
replications: 3
clients:
  shop: {count: 10, rate: 50/s, calls: [{to: db}]}
services:
  db: {time: 1ms}
faults:
  - {kind: errors, service: db, at: 100s, for: 10s}
policies:
  db: {retry: off, breaker: off}
`, Options{})
	c := s.Sides[0].Worst[0]
	if c.Phase != "during" || c.Share < 0.99 {
		t.Errorf("what hurt most is %+v", c)
	}
}

const storm = `version: 1
title: x
duration: 120s
replications: 6
clients:
  shop: {count: 20, rate: 100/s, calls: [{to: db}]}
services:
  db: {workers: 20, queue: 100, time: exp 10ms}
faults:
  - {kind: errors, service: db, at: 30s, for: 30s, share: 80%}
policies:
  db: {safe: true, timeout: {call: 5s, attempt: 1s}}
against: naive
`

var stormOnce = sync.OnceValues(func() (*Study, error) {
	f, err := Parse("x", []byte(storm))
	if err != nil {
		return nil, err
	}
	return f.Run(context.Background(), Options{})
})

// stormy returns the study of storm, which is made once for all tests and not to be changed.
func stormy(t *testing.T) *Study {
	t.Helper()
	s, err := stormOnce()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestThePlainClientIsTheThirdSide(t *testing.T) {
	s := stormy(t)
	var names []string
	for _, side := range s.Sides {
		names = append(names, side.Name)
	}
	if !slices.Equal(names, []string{"defaults", "naive", "plain"}) {
		t.Fatalf("the sides are %q", names)
	}
	for key, want := range map[string]float64{"tries": 1, "received": 3000} {
		if got := metric(t, s, 2, key, "db", "during").Mean.Value; math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s of the plain client is %g, want %g", key, got, want)
		}
	}
	if got := metric(t, s, 2, "goodput", "", "during").Mean.Value; math.Abs(got-0.2) > 0.02 {
		t.Errorf("the plain client is answered %g of its calls when 20 %% are", got)
	}
	var pairs [][2]int
	for _, j := range s.Judgements {
		pairs = append(pairs, [2]int{j.A, j.B})
		for _, name := range []string{s.Sides[j.A].Name, s.Sides[j.B].Name} {
			if !strings.Contains(j.Sentence, name) {
				t.Errorf("%q does not name %s", j.Sentence, name)
			}
		}
	}
	if !slices.Equal(pairs, [][2]int{{0, 1}, {2, 0}, {2, 1}}) {
		t.Errorf("judged are %v", pairs)
	}
	if n := len(study(t, strings.Replace(storm, "against: naive", "against: plain", 1), Options{Replications: 2}).Sides); n != 2 {
		t.Errorf("against the plain client there are %d sides", n)
	}
	if n := len(study(t, storm, Options{Replications: 1, Alone: true}).Sides); n != 1 {
		t.Errorf("alone there are %d sides", n)
	}
}

// The plain client keeps the timeout of an attempt, and none does not: a service that
// takes two seconds answers the latter only.
func TestPlainHasTheAttemptTimeoutAndNoneHasNot(t *testing.T) {
	text := strings.NewReplacer("exp 10ms", "2s", "workers: 20, queue: 100, ", "", "against: naive", "against: none").Replace(storm)
	s := study(t, text, Options{Replications: 2})
	none, plain := metric(t, s, 1, "goodput", "", "before").Mean.Value, metric(t, s, 2, "goodput", "", "before").Mean.Value
	if none < 0.99 || plain > 0.01 {
		t.Errorf("none is answered %g, plain %g", none, plain)
	}
}

// Every metric votes once, in one phase, and no figure of one group adds to another's.
func TestNothingVotesTwice(t *testing.T) {
	s := stormy(t)
	for _, j := range s.Judgements {
		seen, sum := map[string]bool{}, 0.0
		for _, h := range j.Heads {
			if h.Weight != 0 && seen[h.Key] {
				t.Errorf("%s votes twice", h.Key)
			}
			seen[h.Key] = seen[h.Key] || h.Weight != 0
			sum += h.Points
			if h.Weight == 0 && h.Points != 0 || h.Verdict == stat.Unresolved.String() && h.Points != 0 {
				t.Errorf("%s counts %g points", h.Key, h.Points)
			}
		}
		if math.Abs(sum-j.Points) > 1e-4 {
			t.Errorf("%g points, and the sum is %g", j.Points, sum)
		}
	}
}

func TestHeadlinesOfASide(t *testing.T) {
	s := stormy(t)
	var got []string
	for _, h := range s.Sides[0].Heads {
		got = append(got, h.Group+" "+h.Key+" "+h.Phase+" "+h.At)
	}
	want := []string{
		"callers goodput all mean", "callers goodput during mean", "callers failed_time all mean", "dependency load during mean", "dependency peak all mean",
		"recovery recovery all p50", "recovery recovery all p80", "recovery recovery all worst", "certainty stuck all mean",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// What points a judgement has, by what made-up sides came to.
func TestWhoWins(t *testing.T) {
	side := func(name string, good, load, recovery, stuck float64) Side {
		values := func(x, noise float64) (all []Number) {
			for i := range 8 {
				all = append(all, Number(x+noise*float64(i%3)))
			}
			return all
		}
		m := func(key, unit string, more bool, x, noise float64) Metric {
			v := values(x, noise)
			xs := make([]float64, len(v))
			for i := range v {
				xs[i] = float64(v[i])
			}
			return Metric{Key: key, Name: key, Unit: unit, More: more, Values: v, Mean: estimate(middle(key, xs))}
		}
		return Side{
			Name: name, Metrics: []Metric{m("goodput", Share, true, good, 0.0001), m("recovery", Seconds, false, recovery, 0.01), m("stuck", Share, false, stuck, 0)},
			Phases: []Phase{{Name: "before"}, {Name: "during", Metrics: []Metric{m("goodput", Share, true, 5*good-4, 0.0001), m("load", Ratio, false, load, 0.001)}}},
		}
	}
	for _, c := range []struct {
		fact     string
		a, b     Side
		winner   string
		points   float64
		sentence string
	}{
		{"more answers", side("plain", 0.88, 1, 2, 0), side("ours", 0.892, 1, 2, 0), "ours", 1.2, "ours wins for callers: it answers 1.2 points more in time than plain (in the trouble 6.0 more)."},
		{"more answers, and later well", side("plain", 0.88, 1, 2, 0), side("ours", 0.892, 1, 4, 0), "ours", 1.1, "ours wins for callers: it answers 1.2 points more in time than plain (in the trouble 6.0 more); the price: it recovers 2 s later."},
		{"more answers for three times the load", side("plain", 0.88, 1, 2, 0), side("naive", 0.9, 3, 2, 0), "plain", -8, "plain wins for the dependency: it sends 0.33 of naive's load in the trouble; the price: it answers 2.0 points fewer in time than naive (in the trouble 10.0 fewer)."},
		{"less load than is needed is said and wins nothing", side("plain", 0.88, 1, 2, 0), side("shy", 0.87, 0.3, 2, 0), "plain", -1, "plain wins for callers: it answers 1.0 points more in time than shy (in the trouble 5.0 more); the price: it sends 3.33 of shy's load in the trouble."},
		{"one that stays down", side("plain", 0.88, 1, 2, 0), side("naive", 0.88, 1, math.Inf(1), 1), "plain", -33.4, "plain wins for recovery and certainty: it recovers, and the other does not, in the middle run and stays down in 0 % of the runs instead of 100 %."},
		{"no difference", side("plain", 0.88, 1, 2, 0), side("ours", 0.88, 1, 2, 0), "", 0, "ours and plain do not differ by more than chance explains."},
	} {
		s := &Study{Duration: 130, During: [2]float64{30, 60}, Replications: 8, Sides: []Side{c.a, c.b}}
		j := s.judge(0, 1)
		if j.Winner != c.winner || math.Abs(j.Points-c.points) > 0.01 || j.Sentence != c.sentence {
			t.Errorf("%s: %q by %g: %s", c.fact, j.Winner, j.Points, j.Sentence)
		}
	}
}

// What a side does twice, or loses, is not made up for by its answers.
func TestWrongEffectsWinNothing(t *testing.T) {
	side := func(name string, good, doubled, lost float64) Side {
		s := Side{Name: name}
		for _, m := range []struct {
			key  string
			more bool
			x    float64
		}{{"goodput", true, good}, {"doubled_share", false, doubled}, {"lost_share", false, lost}} {
			made := Metric{Key: m.key, Name: m.key, Unit: Share, More: m.more}
			var xs []float64
			for i := range 8 {
				xs = append(xs, m.x+0.0001*float64(i%3))
				made.Values = append(made.Values, Number(xs[i]))
			}
			made.Mean = estimate(middle(m.key, xs))
			s.Metrics = append(s.Metrics, made)
		}
		return s
	}
	const answers = "answers 5.0 points more in time than "
	for _, c := range []struct {
		fact     string
		a, b     Side
		winner   string
		sentence string
	}{
		{"more answers", side("ours", 0.9, 0, 0), side("plain", 0.95, 0, 0), "plain", "plain wins for callers: it " + answers + "ours."},
		{"more answers, and effects done again", side("ours", 0.9, 0, 0), side("plain", 0.95, 0.01, 0), "", "Neither plain nor ours wins: plain " + answers + "ours, but does 1 effects again for each 100 messages instead of 0.0087."},
		{"the same, the other way round", side("plain", 0.95, 0.01, 0), side("ours", 0.9, 0, 0), "", "Neither ours nor plain wins: ours does 0.0087 effects again for each 100 messages instead of 1, but answers 5.0 points fewer in time than plain."},
		{"more answers, and effects lost", side("ours", 0.9, 0, 0), side("plain", 0.95, 0, 0.02), "", "Neither plain nor ours wins: plain " + answers + "ours, but loses 2 effects of each 100 messages instead of 0.0087."},
		{"more of all", side("plain", 0.9, 1.4, 0), side("ours", 0.95, 0.2, 0), "ours", "ours wins for callers and correctness: it " + answers + "plain and does 20 effects again for each 100 messages instead of 140."},
		{"fewer effects again, for nothing", side("plain", 0.9, 0.05, 0), side("ours", 0.9, 0.01, 0), "ours", "ours wins for correctness: it does 1 effects again for each 100 messages instead of 5."},
	} {
		j := (&Study{Duration: 130, Replications: 8, Sides: []Side{c.a, c.b}}).judge(0, 1)
		if j.Winner != c.winner || j.Sentence != c.sentence {
			t.Errorf("%s: %q by %g: %s", c.fact, j.Winner, j.Points, j.Sentence)
		}
	}
}

func TestAFailureThatEveryRunShowsIsAFailure(t *testing.T) {
	claims := []struct {
		text string
		want Holds
	}{{"goodput >= 99% during", No}, {"received(db) == 1", No}, {"stuck <= 1%", Unsure}, {"goodput >= 10% before", Yes}}
	text := storm + "assert:\n"
	for _, c := range claims {
		text += "  - " + c.text + "\n"
	}
	for _, n := range []int{1, 2, 3, 6} {
		s := study(t, text, Options{Replications: n, Alone: true})
		for i, c := range claims {
			v, want := s.Sides[0].Asserts[i], c.want
			if n == 1 && want == Yes {
				want = Unsure // one run proves nothing but a failure
			}
			if v.Holds != want {
				t.Errorf("%d runs say of %s: %s (%v)", n, c.text, v.Holds, v.Measured)
			}
			if (want == No) != (v.Breaks.Value == 1) || v.Breaks.Low > 1-1e-9 {
				t.Errorf("%d runs: %v break %s", n, v.Breaks, c.text)
			}
		}
	}
}

// Two dependencies of one file are compared, each by its name.
func TestTwoDependenciesOfOneFile(t *testing.T) {
	file, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  payments: {safe: true}\n  ledger: {safe: true, retry: off}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := study(t, storm, Options{
		Replications: 2, Policies: Policies{File: file, As: map[string]string{"db": "payments"}}, Against: &Policies{File: file, As: map[string]string{"db": "ledger"}},
	})
	if s.Sides[0].Name != "gabion.yaml payments" || s.Sides[1].Name != "gabion.yaml ledger" {
		t.Errorf("the sides are %q and %q", s.Sides[0].Name, s.Sides[1].Name)
	}
	if a, b := metric(t, s, 0, "tries", "db", "during").Mean.Value, metric(t, s, 1, "tries", "db", "during").Mean.Value; a <= 1 || b != 1 {
		t.Errorf("%g and %g attempts for each first one", a, b)
	}
}
