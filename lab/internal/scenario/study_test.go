package scenario

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/testgolden"
)

// run runs a scenario of testdata and returns its study and JSON.
func run(t testing.TB, name string, o Options) (*Study, []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return s, append(out, '\n')
}

var golden = []struct {
	name string
	o    Options
}{
	{"storm", Options{}},
	{"layers", Options{Watch: "shop"}},
	{"collapse", Options{Map: true}},
}

// What a scenario comes to is part of what reports in git mean. Of each study the golden file has
// the digest of its JSON, and a line for each part of it: what is short as it is, and the digest of
// what is long, which says where to look.
func TestStudiesAreWhatTheyWere(t *testing.T) {
	var made strings.Builder
	for _, c := range golden {
		_, got := run(t, c.name, c.o)
		fmt.Fprintf(&made, "%s: %s\n%s", c.name, digest(got), outline(t, "  ", got))
	}
	testgolden.File(t, "testdata/studies.txt", made.String())
}

func digest(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// outline has a line for each key of an object, and of the sides below it.
func outline(t *testing.T, indent string, text []byte) (lines string) {
	t.Helper()
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		var short bytes.Buffer
		var sides []json.RawMessage
		switch err := json.Compact(&short, parts[key]); {
		case err != nil:
			t.Fatal(err)
		case key == "sides" && json.Unmarshal(parts[key], &sides) == nil:
			for i, side := range sides {
				lines += fmt.Sprintf("%sside %d:\n%s", indent, i, outline(t, indent+"  ", side))
			}
		case short.Len() <= 100:
			lines += indent + key + ": " + short.String() + "\n"
		default:
			lines += indent + key + ": " + digest(short.Bytes())[:16] + "\n"
		}
	}
	return lines
}

func firstDifference(got, want []byte) string {
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "\n got " + a[i] + "\nwant " + b[i]
		}
	}
	return ""
}

func TestTheNumberOfWorkersChangesNothing(t *testing.T) {
	for _, c := range golden[1:] {
		var first []byte
		for _, workers := range []int{1, 7} {
			o := c.o
			o.Workers = workers
			_, got := run(t, c.name, o)
			if first == nil {
				first = got
			}
			if !bytes.Equal(got, first) {
				t.Errorf("%s on %d workers is another study%s", c.name, workers, firstDifference(got, first))
			}
		}
	}
}

func TestAnotherSeedIsAnotherStudy(t *testing.T) {
	a, _ := run(t, "storm", Options{Replications: 2})
	b, _ := run(t, "storm", Options{Replications: 2, Seed: 2})
	if a.Hash == b.Hash {
		t.Error("two seeds have the same events")
	}
}

func TestMoreReplicationsBeginWithTheSame(t *testing.T) {
	a, _ := run(t, "storm", Options{Replications: 2})
	b, _ := run(t, "storm", Options{Replications: 4})
	if !slices.Equal(a.Sides[0].Runs, b.Sides[0].Runs[:2]) {
		t.Errorf("%v does not begin as %v", b.Sides[0].Runs, a.Sides[0].Runs)
	}
}

// metric returns a metric of a side.
func metric(t testing.TB, s *Study, side int, key, of, phase string) Metric {
	t.Helper()
	all := s.Sides[side].Metrics
	for _, p := range s.Sides[side].Phases {
		if p.Name == phase {
			all = p.Metrics
		}
	}
	i := slices.IndexFunc(all, func(m Metric) bool { return m.Key == key && m.Of == of })
	if i < 0 {
		t.Fatalf("there is no %s of %q", key, of)
	}
	return all[i]
}

func TestANaiveSideIsWorseInAStorm(t *testing.T) {
	s, _ := run(t, "storm", Options{Replications: 8})
	ours, naive := metric(t, s, 0, "amplification", "db", "during"), metric(t, s, 1, "amplification", "db", "during")
	// Half of the attempts fail: 1 + 1/2 + 1/4 of them for the shop. The jobs can't repeat.
	if naive.Mean.Value < 1.6 || naive.Mean.Value > 1.8 || ours.Mean.Value > 1.4 {
		t.Errorf("amplification %.3f, and naively %.3f", ours.Mean.Value, naive.Mean.Value)
	}
	for _, d := range s.Diffs {
		if d.Key == "amplification" && d.Of == "db" && d.Phase == "during" && d.Verdict != "worse" {
			t.Errorf("the naive side is %s: %+v", d.Verdict, d.Delta)
		}
	}
	if s.Sides[0].Asserts[1].Holds != No || s.Sides[0].Asserts[0].Holds != Yes {
		t.Errorf("assertions: %+v", s.Sides[0].Asserts)
	}
	if len(s.Settings) == 0 {
		t.Error("the sides differ in no setting")
	}
	before := metric(t, s, 0, "amplification", "db", "before")
	if math.Abs(before.Mean.Value-1) > 0.01 {
		t.Errorf("before the trouble amplification is %.3f", before.Mean.Value)
	}
}

func TestTwoWaysToEndAreSeen(t *testing.T) {
	s, _ := run(t, "collapse", Options{Alone: true, Replications: 24})
	side := &s.Sides[0]
	if side.Stuck.Value < 0.05 || side.Stuck.Value > 0.95 || side.Modes == nil {
		t.Errorf("stuck %v, modes %v", side.Stuck, side.Modes)
	}
	if len(s.Sides) != 1 || len(s.Diffs) != 0 {
		t.Errorf("alone there are %d sides", len(s.Sides))
	}
}

func TestAMapIsWorseWhereTheLoadIsMore(t *testing.T) {
	s, _ := run(t, "collapse", Options{Map: true, Alone: true, Replications: 2})
	cells := s.Map.Cells[0]
	if cells[0].Stuck.Value != 0 || cells[1].Stuck.Value < cells[0].Stuck.Value || cells[0].Goodput < 0.95 || cells[1].Goodput > cells[0].Goodput {
		t.Errorf("at half the load %+v, at all of it %+v", cells[0], cells[1])
	}
}

// A trigger is how long faults last: nothing works in the last quarter of what is
// after it, if it lasts five times as long and is not over by then.
func TestATriggerOfAMapIsHowLongFaultsLast(t *testing.T) {
	text := strings.NewReplacer("at: 20s, for: 10s", "at: 10s, for: 10s, status: 500",
		"assert:", "map: {load: [100%], trigger: [50%, 100%, 500%], replications: 2}\nduring: 10s..12s\nassert:").Replace(small)
	f, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i, trigger := range []float64{0.5, 1, 5} {
		w, err := f.world(&Policies{}, scale{1, trigger, 1})
		if want := time.Duration(trigger * 1e10); err != nil || w.Faults[0].For != want {
			t.Errorf("cell %d: the fault lasts %s, want %s (%v)", i, w.Faults[0].For, want, err)
		}
	}
	s, err := f.Run(t.Context(), Options{Map: true, Replications: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Map.Cells; c[1][0].Stuck.Value != 0 || c[2][0].Stuck.Value != 1 {
		t.Errorf("stuck %+v", c)
	}
}

func TestAFileReplacesPoliciesByName(t *testing.T) {
	text := []byte("version: 1\ndependencies:\n  db: {retry: off, breaker: off}\n  payments: {safe: true, retry: {attempts: 5, backoff: {base: 1ms, cap: 1ms}, budget: off}, breaker: off}\n")
	f, err := config.Parse("prod.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := run(t, "storm", Options{Policies: Policies{File: f}, Against: &Policies{File: f, As: map[string]string{"db": "payments"}}, Replications: 2})
	off, five := metric(t, s, 0, "tries", "db", "during"), metric(t, s, 1, "tries", "db", "during")
	if off.Mean.Value != 1 || five.Mean.Value < 1.8 {
		t.Errorf("without retries %.3f attempts, with five %.3f", off.Mean.Value, five.Mean.Value)
	}
	if src := s.Sides[0].Policies[0].Source; src != "prod.yaml" {
		t.Errorf("the policy is from %q", src)
	}
	if src := s.Sides[0].Policies[1].Source; src != "storm" {
		t.Errorf("what the file does not name is from %q", src)
	}
	if s.Sides[0].Config == s.Sides[1].Config {
		t.Error("two configurations have one hash")
	}
}

func TestWatchingChangesNothing(t *testing.T) {
	a, _ := run(t, "layers", Options{Replications: 1})
	b, _ := run(t, "layers", Options{Replications: 1, Watch: "shop", WatchClient: 3})
	if a.Hash != b.Hash || len(b.Timeline) == 0 {
		t.Errorf("%s and %s, %d lines", a.Hash, b.Hash, len(b.Timeline))
	}
	sent := 0
	for _, l := range b.Timeline {
		if strings.HasPrefix(l.Text, "attempt_sent") {
			sent++
		}
	}
	if sent == 0 {
		t.Error("no attempt is in the timeline")
	}
	text, err := os.ReadFile("testdata/layers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("x", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Watch: "shopp"}, {Watch: "shop", WatchClient: 40}} {
		if _, err := f.Run(t.Context(), o); err == nil {
			t.Errorf("%s %d can be watched", o.Watch, o.WatchClient)
		}
	}
}

func TestCapacityFallsWithTheFault(t *testing.T) {
	s, _ := run(t, "layers", Options{Replications: 1})
	c := s.Sides[0].Series.Services[2].Capacity
	if s.Sides[0].Series.Services[2].Name != "database" || c[0] != 1000 || c[1] > 500 {
		t.Errorf("capacity of %s is %v", s.Sides[0].Series.Services[2].Name, c)
	}
	// Half of the work also sends mail, of which 5/s go out: 10 pieces of work.
	if s.Bottleneck != "mail" || s.Capacity[0] != 10 {
		t.Errorf("clients could get %v done, by %s", s.Capacity[0], s.Bottleneck)
	}
}

func TestVerdictsKnowWhatTheyDoNot(t *testing.T) {
	for _, c := range []struct {
		fact   string
		a      assertion
		values []float64
		want   Holds
	}{
		{"all on the right side", assertion{key: "goodput", op: ">=", value: 0.9}, []float64{0.95, 0.96, 0.95, 0.96}, Yes},
		{"all on the wrong side", assertion{key: "goodput", op: ">=", value: 0.99}, []float64{0.95, 0.96, 0.95, 0.96}, No},
		{"on both", assertion{key: "goodput", op: ">=", value: 0.955}, []float64{0.95, 0.96, 0.95, 0.96}, Unsure},
		{"one run proves nothing", assertion{key: "goodput", op: ">=", value: 0.5}, []float64{0.95}, Unsure},
		{"none of twenty are stuck", assertion{key: "stuck", op: "<=", value: 0.2}, make([]float64, 20), Yes},
		{"and that is not one in a hundred", assertion{key: "stuck", op: "<=", value: 0.01}, make([]float64, 20), Unsure},
		{"nothing happened twice", assertion{key: "duplicates", op: "==", value: 0}, make([]float64, 4), Yes},
		{"something did", assertion{key: "duplicates", op: "==", value: 0}, []float64{3, 4, 3, 4}, No},
		{"most recover", assertion{key: "recovery", op: "<=", value: 30}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, math.Inf(1)}, Yes},
		{"not nine in ten", assertion{key: "recovery", op: "<=", value: 30, quantile: 0.9}, []float64{1, 2, 3, 4, 5, 6, 7, 8, math.Inf(1), math.Inf(1)}, Unsure},
		{"none does", assertion{key: "recovery", op: "<=", value: 30}, slices.Repeat([]float64{math.Inf(1)}, 10), No},
		{"nothing is known", assertion{key: "p99", op: "<=", value: 30}, []float64{math.NaN(), math.NaN()}, Unsure},
	} {
		if got := c.a.judge(c.values); got.Holds != c.want {
			t.Errorf("%s: %s, %+v", c.fact, got.Holds, got.Measured)
		}
	}
}

// The library can be read and run; GABION_SOAK=1 runs it as it is and looks at its
// assertions.
func TestTheLibraryHolds(t *testing.T) {
	names := Names()
	if len(names) < 16 {
		t.Errorf("there are %d scenarios", len(names))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if sentences := strings.Count(f.Story+" ", ". "); sentences < 3 || sentences > 8 || f.Title == "" || len(f.asserts) == 0 {
				t.Errorf("a title %q, %d sentences, %d assertions", f.Title, sentences, len(f.asserts))
			}
			soak := os.Getenv("GABION_SOAK") == "1"
			if work := f.work(); work > 40_000 && !soak {
				return // GABION_SOAK runs it
			}
			o := Options{Replications: 1, Alone: true}
			if soak {
				o.Replications = 0
			}
			s, err := f.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, broken := range s.Sides[0].Broken {
				t.Error(broken)
			}
			for _, a := range s.Sides[0].Asserts {
				if a.Holds != Yes && soak {
					t.Errorf("%s: %s, measured %+v", a.Text, a.Holds, a.Measured)
				}
			}
		})
	}
}

// work is how many requests a run makes at least.
func (f *File) work() (n float64) {
	for i := range f.fleets {
		n += f.fleets[i].mostWork(f.duration) / 2 * sum(f.visits(f.fleets[i].calls))
	}
	return n
}

// The default comparison: a thousand clients, ten minutes, a thousand calls a second,
// twenty replications, two sides.
func BenchmarkDefaultComparison(b *testing.B) {
	f, err := Open("error-storm")
	if err != nil {
		b.Fatal(err)
	}
	events := uint64(0)
	for b.Loop() {
		s, err := f.Run(b.Context(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		events += s.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

// Two sides that go by the same policies get the same random numbers, and nothing differs.
func TestSidesAreComparedWithTheSameNumbers(t *testing.T) {
	s, _ := run(t, "storm", Options{Against: &Policies{Name: "the same"}, Replications: 4})
	for i, r := range s.Sides[0].Runs {
		if r != s.Sides[1].Runs[i] {
			t.Errorf("replication %d: %+v and %+v", i, r, s.Sides[1].Runs[i])
		}
	}
	for _, d := range s.Diffs {
		if d.Verdict != "unresolved" || d.Delta.Value != 0 && !math.IsNaN(d.Delta.Value) {
			t.Errorf("%s of %q differs by %+v", d.Key, d.Of, d.Delta)
		}
	}
}
