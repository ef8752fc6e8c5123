package report

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a page with what all have.
func sample() string {
	p := new(Page)
	p.Line("# Sample")
	p.Line("")
	p.Line("<!-- Written by `make sample`, never by hand. -->")
	p.Line("")
	p.Line("## Figures")
	p.Line("")
	p.Table(1, "", "ms")
	p.Cells("one", "12")
	p.Line("")
	p.Line("## Targets")
	p.Line("")
	p.Table(1, "", "measured", "target", "")
	p.Cells(Target{What: "goodput", Least: true, Bound: 90, Unit: " %"}.Cells(95.25, true)...)
	p.Cells(Target{What: "recovery", Bound: 5, Unit: " s"}.Cells(math.Inf(1), true)...)
	p.Cells(Target{What: "cost", Bound: 2, Unit: "×"}.Cells(0, false)...)
	p.Line("")
	p.Line("")
	return p.Text()
}

func TestAPageCanBeReadBack(t *testing.T) {
	sheets, err := Read(sample(), "sample")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, s := range sheets {
		all.WriteString(s.Title + ": " + strings.Join(s.Head, ", ") + "\n")
		for _, row := range s.Rows {
			all.WriteString(strings.Join(row, ", ") + "\n")
		}
	}
	want := "Figures: , ms\none, 12\nTargets: , measured, target, \n" +
		"goodput, 95.2 %, ≥ 90 %, met\nrecovery, ∞ s, ≤ 5 s, **not met**\ncost, –, ≤ 2×, not measured\n"
	if all.String() != want {
		t.Errorf("read\n%s\nwant\n%s", all.String(), want)
	}
	if text := sample(); !strings.HasSuffix(text, "|\n") {
		t.Errorf("it ends in %q", text[len(text)-5:])
	}
}

func TestAPageThatWasChangedIsFound(t *testing.T) {
	text := sample()
	for _, c := range []struct{ fact, old, new, want string }{
		{"a verdict is turned round", "90 % | met", "90 % | **not met**", "goodput"},
		{"a figure is made worse than its verdict", "95.2 %", "85.2 %", "goodput"},
		{"a figure is made better than its verdict", "∞ s", "4 s", "recovery"},
		{"a verdict is another word", "| met |", "| fine |", "no verdict"},
		{"a figure is no figure", "95.2 %", "most of it", "invalid syntax"},
		{"a cell is gone", "| one | 12 |", "| one |", "1 cells under 2 headings"},
		{"a row is gone", "| one | 12 |\n", "", "no rows"},
		{"the column of targets is gone", "target |", "aim |", "no column"},
		{"it says that another target writes it", "make sample", "make samples", "make sample"},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s: nothing to change", c.fact)
		}
		if _, err := Read(changed, "sample"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.fact, err, c.want)
		}
	}
}

func TestEqualFiguresMayRoundEitherWay(t *testing.T) {
	for _, verdict := range []string{Met, NotMet} {
		text := strings.Replace(sample(), "95.2 % | ≥ 90 % | met", "90 % | ≥ 90 % | "+verdict, 1)
		if _, err := Read(text, "sample"); err != nil {
			t.Errorf("%s: %v", verdict, err)
		}
	}
}

func TestFiguresAreKept(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bin", "figures.json")
	if err := Save(name, map[string]int{"pairs": 7}); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := Load(name, &got); err != nil || got["pairs"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}
