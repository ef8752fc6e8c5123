package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/e2e/stores"
)

// sample is what a run might come to.
func sample() stores.Figures {
	f := stores.Figures{Command: "make bench", Took: "2m0s", Load: "0.00 0.00 0.00", System: "linux/amd64", CPU: "Some CPU", Go: "go1.26", Processors: 2, Rounds: 3, Each: "2.5s", Sync: 4}
	for _, c := range []struct {
		name  string
		pairs float64
	}{
		{stores.Log, 10000}, {stores.Bolt, 4000}, {stores.SQLite, 2000}, {stores.PostgresBare, 4000}, {stores.PostgresStore, 3000},
		{stores.NATSBare, 500}, {stores.NATSStore, 450},
	} {
		row := stores.Row{Name: c.name, Bytes: 1500}
		for _, factor := range []float64{1, 2, 1.5} { // the machine's mood meets twins alike
			row.Rounds = append(row.Rounds, stores.Round{Pairs: c.pairs * factor, P50: 10, P99: 40})
		}
		f.Pairs = append(f.Pairs, row)
	}
	f.Pairs = append(f.Pairs, stores.Row{Name: stores.RedisBare, Missing: "redis-server is not installed"}, stores.Row{Name: stores.RedisStore, Missing: "redis-server is not installed"})
	f.Middleware = []stores.Cost{
		{Name: stores.NewKey, Nanoseconds: []float64{4100, 3900}, Allocations: 11},
		{Name: stores.SameKey, Nanoseconds: []float64{2600, 2700}, Allocations: 9},
		{Name: stores.Replay, Nanoseconds: []float64{1000}, Allocations: 2},
	}
	f.Many = &stores.Crowd{Records: 1_000_000, Expired: 200_000, Fill: 20, FileMiB: 400, RSSMiB: 120, P99: 10, SweptP99: 15, Swept: 9000}
	return f
}

func TestAReportCanBeReadBack(t *testing.T) {
	text := render(sample())
	if err := parse(text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| append log | 15000 | 10 | 40 | 1500 | – |",
		"| boltstore | 6000 | 10 | 40 | 1500 | 0.40× append log |",
		"| redisstore | not measured | – | – | – | – |",
		"| boltstore, of an append log | 0.40× | ≥ 0.35× | met |",
		"| the same, what we would like | 0.40× | ≥ 0.50× | **not met** |",
		"| sqlitestore, of an append log | 0.20× | ≥ 0.25× | **not met** |",
		"| redisstore, of bare scripts | – | ≥ 0.70× | not measured |",
		"| middleware, new key | 3.90 µs | ≤ 3 µs | **not met** |",
		"| middleware, replay | 1 µs | ≤ 2 µs | met |",
		"during a sweep against before | 1.50× | ≤ 2× | met |",
		"Some CPU, 2 processors, linux/amd64, go1.26", "redis-server is not installed", "`make bench`, which took 2m0s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestAReportThatWasChangedIsFound(t *testing.T) {
	text := render(sample())
	for _, c := range []struct{ fact, old, new string }{
		{"a figure is no figure", "| 6000 |", "| many |"},
		{"a target is gone", "| middleware, replay | 1 µs | ≤ 2 µs | met |\n", ""},
		{"it does not say who wrote it", "never by hand", "now and then by hand"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("nothing to change: %q", c.old)
			}
			if parse(changed) == nil {
				t.Error("it was not found")
			}
		})
	}
}

func TestThePartsAreJoined(t *testing.T) {
	all, f := sample(), stores.Figures{}
	for _, part := range []stores.Figures{{Pairs: all.Pairs, CPU: all.CPU}, {Middleware: all.Middleware}, {Many: all.Many}} {
		f = join(f, part)
	}
	if len(f.Pairs) != len(all.Pairs) || len(f.Middleware) != 3 || f.Many == nil || f.CPU == "" {
		t.Errorf("%+v", f)
	}
}

func TestTheDocumentIsAReport(t *testing.T) {
	text, err := os.ReadFile("../../../docs/stores.md")
	if err == nil {
		err = parse(string(text))
	}
	if err != nil {
		t.Error(err)
	}
}
