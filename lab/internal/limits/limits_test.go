package limits

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

const golden = "testdata/table.json"

func readTable(t *testing.T) (table Table) {
	t.Helper()
	text, err := os.ReadFile(golden)
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	table.Worlds = Worlds()
	return table
}

func TestUpdate(t *testing.T) {
	if !testgolden.Updating() {
		return // the golden is read by the other tests
	}
	table, err := Compare(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range table.Rows {
		for k := range table.Rows[i].Scores {
			table.Rows[i].Scores[k].Limits = nil
		}
	}
	for i := range table.Best {
		table.Best[i].Limits = nil
	}
	worlds := table
	worlds.Worlds = nil // the code has them
	text, err := json.Marshal(worlds)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(append(text, '\n'), []byte("},{"), []byte("},\n{"))
	testgolden.File(t, golden, string(text))
}

func TestTheLearnedLimitHoldsAgainstTheBestFixedOne(t *testing.T) {
	table := readTable(t)
	for i, w := range table.Worlds {
		s, best := table.Rows[0].Scores[i], table.Best[i]
		if s.Goodput < 0.95*best.Goodput {
			t.Errorf("%s: %.1f answers a second, of %.1f", w.Name, s.Goodput, best.Goodput)
		}
		if s.P99 > 2*best.P99 {
			t.Errorf("%s: p99 %v, of %v", w.Name, s.P99, best.P99)
		}
		if w.Name != "bimodal" && s.Steady < 0.95 { // see TestBimodalWorkIsSteadyOnAverage
			t.Errorf("%s: within a fifth of its median for %.0f %% of the time", w.Name, 100*s.Steady)
		}
		for _, share := range s.Shares {
			if share < 1.0/3/float64(len(w.Clients)) {
				t.Errorf("%s: a client has %.0f %% of the answers", w.Name, 100*share)
			}
		}
	}
	testgolden.Part(t, "../../../docs/learned-limit.md", "<!-- table: go test ./lab/internal/limits -args -update -->\n", "<!-- end of table -->", table.Markdown())
}

// Where one piece of work in twenty is the longest by far, the share of the time in which the limit is
// near its median is 0.6 to 1.0 in one run (ADR 84), so it is the mean of twelve.
func TestBimodalWorkIsSteadyOnAverage(t *testing.T) {
	if testing.Short() {
		t.Skip("long: twelve runs of a busy client")
	}
	const runs = 12
	w, sum := Worlds()[5], 0.0
	for seed := range uint64(runs) {
		s, err := w.Run(Contenders()[0], seed+1)
		if err != nil {
			t.Fatal(err)
		}
		sum += s.Steady
	}
	if sum/runs < 0.85 {
		t.Errorf("%s: within a fifth of its median for %.0f %% of the time", w.Name, 100*sum/runs)
	}
}

// What the golden file says of gabion is what the code does now.
func TestTheTableIsWhatItWas(t *testing.T) {
	table := readTable(t)
	for i, w := range table.Worlds {
		if w.Length > 5*time.Minute {
			continue // too long for every day
		}
		s, err := w.Run(Contenders()[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.against(&table.Best[i]), table.cell(i, 0); got != want {
			t.Errorf("%s: %s, and the table says %s: go test ./lab/internal/limits -args -update", w.Name, got, want)
		}
	}
}

// A limit that is learned must not learn from what fewer calls would not cure, nor from
// what says nothing, and must not grow where the load needs no more (C112).
func TestWhatDoesNotMoveTheLimit(t *testing.T) {
	const ms, fault, back = time.Millisecond, 60 * time.Second, 90 * time.Second
	work := draw.LogNormal(90*ms, 250*ms)
	for _, c := range []struct {
		fact    string
		rate    float64
		f       sim.Fault
		lowest  int // limit while it lasts, but for the first ten seconds; 10 work
		highest int
	}{
		{"all work takes twice as long", 150, sim.Fault{Kind: sim.Slow, Factor: 2}, 10, 25},
		{"one of twenty takes ten times as long", 150, sim.Fault{Kind: sim.Slow, Factor: 10, Share: 0.05}, 10, 30},
		{"half of the connections are refused", 150, sim.Fault{Kind: sim.Refuse, Share: 0.5}, 10, 25},
		{"half of the answers are 500", 150, sim.Fault{Kind: sim.Errors, Status: 500, Share: 0.5}, 10, 25},
		{"all answers are 503, for every caller", 150, sim.Fault{Kind: sim.Errors, Status: 503}, 10, 25},
		{"the load needs fewer", 50, sim.Fault{Kind: sim.Slow, Factor: 1.2}, 100, 100},
		{"a client of three calls a second, in an outage", 3, sim.Fault{Kind: sim.BlackHole}, 100, 100},
	} {
		t.Run(c.fact, func(t *testing.T) {
			c.f.At, c.f.For = fault, back-fault
			w := World{Workers: 10, Work: work, Rate: c.rate, Clients: []time.Duration{0}, Length: back, Changes: []time.Duration{0}, Faults: []sim.Fault{c.f}}
			s, err := w.Run(Contender{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			_, was := pieces(s.Limits, 30*time.Second, fault)
			_, is := pieces(s.Limits, fault+learning, back)
			if is < c.lowest || is > c.highest {
				t.Errorf("the limit was %d and is %d", was, is)
			}
		})
	}
}

// C113, with outages in place of the step.
func TestAfterAnOutageTheLimitIsBack(t *testing.T) {
	for _, kind := range []sim.Kind{sim.BlackHole, sim.Refuse, sim.Restart} {
		w := World{Workers: 10, Work: draw.LogNormal(90*time.Millisecond, 250*time.Millisecond), Rate: 150, Clients: []time.Duration{0}, Length: 80 * time.Second,
			Changes: []time.Duration{0}, Faults: []sim.Fault{{Kind: kind, At: 40 * time.Second, For: 20 * time.Second}}}
		s, err := w.Run(Contender{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, was := pieces(s.Limits, 20*time.Second, 40*time.Second)
		_, is := pieces(s.Limits, 65*time.Second, 80*time.Second)
		if 10*is < 8*was {
			t.Errorf("kind %d: the limit was %d, and five seconds after the outage it is %d", kind, was, is)
		}
	}
}

// Ten clients that begin with a hundred slots each send far too many, and each sees little of
// what it does by itself.
func TestAFleetIsNotWorseOffThanWithTheDefault(t *testing.T) {
	clients := make([]time.Duration, 10)
	for i := range clients {
		clients[i] = time.Duration(i) * 2 * time.Second
	}
	w := World{Workers: 40, Work: draw.LogNormal(90*time.Millisecond, 250*time.Millisecond), Rate: 60, Clients: clients, Length: 2 * time.Minute, Changes: []time.Duration{0}}
	learned, err := w.Run(Contender{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := w.Run(Contender{Fixed: policy.Policy{}.Resolved().Bulkhead.Limit}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f answers a second, p99 %v; with a fixed limit %.1f, %v", learned.Goodput, learned.P99, fixed.Goodput, fixed.P99)
	if learned.Goodput < fixed.Goodput {
		t.Errorf("%.1f answers a second, and with a fixed limit %.1f", learned.Goodput, fixed.Goodput)
	}
}

// With a limit fifty times too high every answer comes too late, so that none says how long
// work takes.
func TestWhereNothingIsAnsweredInTime(t *testing.T) {
	w := World{Workers: 2, Work: draw.LogNormal(90*time.Millisecond, 250*time.Millisecond), Rate: 40, Clients: []time.Duration{0}, Length: 2 * time.Minute, Changes: []time.Duration{0}}
	s, err := w.Run(Contender{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.Goodput < 17 {
		t.Errorf("%.1f answers a second, of 20", s.Goodput)
	}
}
