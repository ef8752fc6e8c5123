package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/e2e/bench"
	"github.com/gabion-go/gabion/internal/report"
)

// sample is what a run of two rounds might print, with every row that there is.
func sample() string {
	var b strings.Builder
	b.WriteString("command: make bench\nprocs: 2\ngo: go1.26\nrounds: 10 6 100ms\nload: 0.00 0.00 0.00\nmodule1: example.com/peer v1.2.3\ntook: 9m0s\n\n")
	b.WriteString("goos: linux\ngoarch: amd64\npkg: github.com/gabion-go/gabion/e2e/bench\ncpu: Some CPU\n")
	for _, ns := range []string{"170", "171"} {
		for _, c := range bench.Contests() {
			for _, e := range c.Entries {
				for _, m := range c.Measured() {
					b.WriteString("BenchmarkContest/" + c.Name + "/" + e.Name + "/" + m + "-2 \t 100 \t " + ns + " ns/op\t 64 B/op\t 1 allocs/op\n")
				}
			}
		}
		b.WriteString("BenchmarkHoldings/partition-2 \t 1 \t 1000 B/each\n")
	}
	return b.String()
}

func run1(t *testing.T, text string) (*results, machine) {
	t.Helper()
	r, err := read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := machineOf([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// page1 is both pages of the sample.
func page1(t *testing.T) string {
	t.Helper()
	r, m := run1(t, sample())
	return render(r, m) + renderFigures(r)
}

func TestAReportCanBeReadBack(t *testing.T) {
	text := page1(t)
	sheets, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(sheets), 3+len(bench.Contests()); got != want { // headline, targets, memory
		t.Errorf("%d tables, want %d", got, want)
	}
	for _, s := range sheets[2 : len(sheets)-1] {
		for _, row := range s.Rows {
			if row[1] != "170" { // medians are one of the values or between them
				t.Errorf("%s, %s: %s", s.Title, row[0], row[1])
			}
		}
	}
	for _, want := range []string{"Some CPU, 2 processors, linux/amd64, go1.26", "example.com/peer v1.2.3", "`make bench`, which took 9m0s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

func TestAReportThatWasChangedIsFound(t *testing.T) {
	text := page1(t)
	for _, c := range []struct{ fact, old, new string }{
		{"a verdict is turned round", "| 0 | ≤ 0 | met |", "| 1 | ≤ 0 | met |"},
		{"a figure is no figure", "| 64 | 1 |", "| few | 1 |"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("nothing to change: %q", c.old)
			}
			if _, err := parse(changed); err == nil {
				t.Error("it was not found")
			}
		})
	}
}

func TestTargetsAreJudgedHonestly(t *testing.T) {
	is := func(v float64) func(*results) (float64, bool) {
		return func(*results) (float64, bool) { return v, true }
	}
	for _, c := range []struct {
		fact string
		t    target
		want string
	}{
		{"at the most", target{measure: is(5), most: true, bound: 5}, report.Met},
		{"below the most", target{measure: is(4), most: true, bound: 5}, report.Met},
		{"above the most", target{measure: is(6), most: true, bound: 5}, report.NotMet},
		{"at the least", target{measure: is(5), bound: 5}, report.Met},
		{"above the least", target{measure: is(6), bound: 5}, report.Met},
		{"below the least", target{measure: is(4), bound: 5}, report.NotMet},
		{"never measured", target{measure: missing, bound: 5}, report.NotMeasured},
	} {
		if _, got := c.t.verdict(nil); got != c.want {
			t.Errorf("%s: %s, want %s", c.fact, got, c.want)
		}
	}
}

const root = "../../../"

func performance(t *testing.T) string {
	t.Helper()
	var both strings.Builder
	for _, name := range []string{"performance.md", "performance-figures.md"} {
		text, err := os.ReadFile(root + "docs/" + name)
		if err != nil {
			t.Fatalf("%v: make bench writes it", err)
		}
		both.Write(text)
	}
	return both.String()
}

// Figures of a busy or noisy machine are not published.
func TestFiguresOfANoisyRunAreNotWritten(t *testing.T) {
	text := sample()
	rounds := strings.Repeat(text[strings.Index(text, "goos:"):], 3) // six rounds of each row
	head := text[:strings.Index(text, "goos:")]
	for _, c := range []struct{ fact, text, want string }{
		{"a quiet run", head + rounds, ""},
		{"another program was running", strings.Replace(head, "load: 0.00", "load: 1.41", 1) + rounds, "busy: its load was 1.41"},
		{"rounds differ", head + strings.ReplaceAll(rounds, "stack/gabion/single-2 \t 100 \t 171 ns/op", "stack/gabion/single-2 \t 100 \t 250 ns/op"), "stack, single"},
		{"too few rounds to know", text, "too few rounds"},
	} {
		err := quiet(run1(t, c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.fact, err, c.want)
		}
	}
}

// A round in which the whole machine was slower moves no figure. One row that took longer by itself stays slower.
func TestRoundsAreLevelled(t *testing.T) {
	line := func(name, ns string) string {
		return "BenchmarkContest/stack/" + name + "/single-2 \t 100 \t " + ns + " ns/op\n"
	}
	round := func(a, b, c string) string { return line("a", a) + line("b", b) + line("c", c) }
	r, err := read([]byte(round("100", "200", "400") + round("150", "300", "600") + line("rare", "90") + round("100", "200", "800")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fact, entry string
		want        []float64
	}{
		{"all took longer", "a", []float64{100, 100, 100}},
		{"one took longer by itself", "c", []float64{400, 400, 800}},
		{"a row of fewer rounds counts from the first", "rare", []float64{90}},
	} {
		if got := r.values[row{"stack", c.entry, "single"}]["ns/op"]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.fact, got, c.want)
		}
	}
}

func TestPerformanceIsAReport(t *testing.T) {
	text := performance(t)
	sheets, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(sheets), 3+len(bench.Contests()); got != want {
		t.Errorf("%d tables, want %d: run make bench", got, want)
	}
	if !strings.Contains(text, "* command: `make bench`\n") {
		t.Error("it was not made by make bench")
	}
}

// README shows no figure that docs/performance.md has not.
func TestREADMEsFiguresAreTheReports(t *testing.T) {
	readme, err := os.ReadFile(filepath.FromSlash(root + "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	inside, marked := block(string(readme))
	if !marked {
		t.Fatal("README.md has no block for figures")
	}
	if want, _ := block(performance(t)); inside != want {
		t.Errorf("README.md says\n%s\nand docs/performance.md\n%s", inside, want)
	}
}

// A verdict about a row that the machine disturbed would be about the machine.
func TestATargetOfARowThatIsNotKnownHasNoVerdict(t *testing.T) {
	steady, moving := row{"stack", "a", "single"}, row{"stack", "b", "single"}
	r := &results{values: map[row]map[string][]float64{
		steady: {"ns/op": {100, 101, 102, 100, 101, 102}},
		moving: {"ns/op": {100, 190, 102, 180, 101, 200}},
	}}
	for _, c := range []struct {
		fact string
		at   row
		want string
	}{
		{"all rounds agree", steady, report.Met},
		{"rounds differ", moving, report.NotKnown},
	} {
		target := target{measure: ns(c.at.contest, c.at.entry, c.at.mode), unit: "ns", most: true, bound: 1000}
		if _, got := target.verdict(r); got != c.want {
			t.Errorf("%s: %s, want %s", c.fact, got, c.want)
		}
	}
}

func TestPrimitivesAreWhatEachTakesByItself(t *testing.T) {
	r := &results{values: map[row]map[string][]float64{}}
	for floor, ns := range map[string]float64{
		"function-call": 5, "monotonic-read": 35, "atomic-add": 9, "mutex": 15, "allocation-64": 25, "timer-reset-stop": 105,
	} {
		r.values[row{"floor", floor, "single"}] = map[string][]float64{"ns/op": {ns}}
	}
	for _, c := range []struct {
		fact string
		unit string
		n    needs
		want string
	}{
		{"the harness once, and of each what it takes above that", "ns", needs{reads: 1}, "35 ns"},
		{"one of everything", "ns", needs{1, 1, 1, 1, 1}, "169 ns"},
		{"the full stack", "ns", wholeStack(1), "105 ns"}, // 5 + 2*30 + 5*4 + 20
		{"two failures", "ns", wholeStack(3), "257 ns"},   // 5 + 4*30 + 13*4 + 2*10 + 3*20
		{"nothing is known to be needed", "ns", needs{}, ""},
		{"a ratio has none", "×", needs{reads: 1}, ""},
	} {
		if got := (target{unit: c.unit, needs: c.n}).primitives(r); got != c.want {
			t.Errorf("%s: %q, want %q", c.fact, got, c.want)
		}
	}
	delete(r.values, row{"floor", "mutex", "single"})
	if got := (target{unit: "ns", needs: needs{reads: 1}}).primitives(r); got != "" {
		t.Errorf("without one of the floors: %q", got)
	}
}
