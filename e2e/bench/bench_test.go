package bench_test

import (
	"os"
	"testing"

	"github.com/gabion-go/gabion/e2e/bench"
)

func TestMain(m *testing.M) {
	bench.ServeIfChild()
	os.Exit(m.Run())
}

func BenchmarkContest(b *testing.B) {
	for _, c := range bench.Contests() {
		b.Run(c.Name, c.Benchmark)
	}
}

func BenchmarkHoldings(b *testing.B) { bench.BenchmarkHoldings(b) }

// Each entry of each contest plays by the rules: right results, and as many
// executions as the task has.
func TestEveryEntryDoesItsTask(t *testing.T) {
	for _, c := range bench.Contests() {
		t.Run(c.Name, func(t *testing.T) {
			c.Ready(t)
			for _, e := range c.Entries {
				t.Run(e.Name, func(t *testing.T) { c.Try(t, e, 12) })
			}
		})
	}
}

func TestFloorsAndNamesAreKnown(t *testing.T) {
	contests := bench.Contests()
	floors := map[string]bool{"": true}
	for _, e := range contests[0].Entries {
		floors[e.Name] = true
	}
	for _, c := range contests {
		names := map[string]bool{}
		for _, e := range c.Entries {
			if names[e.Name] {
				t.Errorf("%s has two entries %s", c.Name, e.Name)
			}
			names[e.Name] = true
		}
		if !floors[c.Floor] && !names[c.Floor] {
			t.Errorf("%s has no such floor: %s", c.Name, c.Floor)
		}
	}
}
