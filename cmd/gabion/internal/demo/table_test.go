package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// someReport has a keyed loop that leads in one phase and gabion elsewhere.
func someReport() *Report {
	phases := func(in1, in2 int, amp float64) []PhaseReport {
		return []PhaseReport{
			{Name: "before", Calls: 100, SucceededInTime: in1, Amplification: 1},
			{Name: "fault", Calls: 100, SucceededInTime: in2, Amplification: amp},
		}
	}
	plan := smallPlan()
	return &Report{
		Seconds: 42, InTimeMS: 2000, plan: plan, lines: []timeline{newTimeline(plan), newTimeline(plan)},
		Phases: []PhasePlan{{Name: "before"}, {Name: "fault"}},
		Clients: []ClientReport{
			{Name: "keyed loop", Keyed: true, Setup: "by hand", Calls: 200, Attempts: 550, SucceededInTime: 160, Amplification: 4.5, DoubleCharges: 1234, P50: 30, P99: 5000, RecoveryS: never, Phases: phases(100, 60, 4.5)},
			{Name: gabionName, Calls: 200, Attempts: 210, SucceededInTime: 130, Amplification: 1.1, P50: 31, P99: 1999.4, Recovered: true, Phases: phases(100, 30, 1.1)},
		},
	}
}

func text(r *Report, p paint) string {
	var b bytes.Buffer
	r.printTable(&b, p)
	return b.String()
}

func TestTableSaysWhatIsTrue(t *testing.T) {
	got := text(someReport(), false)
	for _, want := range []string{
		"80.0 %", "65.0 %", "4.50", "1.10", "1,234", "5.00 s", "2.00 s", "never",
		"answered in time: 65.0 %, against 80.0 % (keyed loop).",
		"fault: 30.0 % in time with 1.10 attempts a call, against 60.0 % with 4.50",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table does not say %q:\n%s", want, got)
		}
	}
	for _, not := range []string{"\x1b", "p50: 31 ms, against", "before: 100", "wrong"} {
		if strings.Contains(got, not) {
			t.Errorf("the table says %q:\n%s", not, got)
		}
	}
}

func TestTableFitsATerminal(t *testing.T) {
	r := someReport()
	r.Clients = append(r.Clients, r.Clients...)
	r.Clients[0].Name, r.Clients[0].Setup, r.Clients[2].Setup = "loop", "its README", "its README"
	r.Clients[2].Name, r.Clients[2].Phases = "library", r.Clients[1].Phases
	r.lines = append(r.lines, r.lines...)
	for line := range strings.Lines(text(r, false)) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > minWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestPaintIsOnlyAddedWhenAskedFor(t *testing.T) {
	if !strings.Contains(text(someReport(), true), "\x1b[1m") {
		t.Error("no colour at all")
	}
}

func TestTableSaysThatARunIsTooShort(t *testing.T) {
	for seconds, short := range map[int]bool{6: true, judgeable - 1: true, judgeable: false, 42: false} {
		r := someReport()
		r.Seconds = seconds
		if strings.Contains(text(r, false), "too short to judge") != short {
			t.Errorf("%d s are too short, and nothing says so, or the other way round", seconds)
		}
	}
}

func TestTableOwnsUpToContradictions(t *testing.T) {
	r := someReport()
	r.Clients[1].ChargedAndDenied, r.Clients[0].ToldNotCharged, r.Left, r.LateP99 = 3, 4, 5, 900
	got := strings.Join(strings.Fields(text(r, false)), " ") // lines are wrapped
	for _, want := range []string{
		"gabion said of 3 orders that nothing happened", "keyed loop reported 4 orders as charged",
		"5 calls did not end", "this machine was busy",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table does not say %q:\n%s", want, got)
		}
	}
}

func TestPartialTableComparesNothing(t *testing.T) {
	r := someReport()
	r.Interrupted = true
	got := text(r, true)
	if !strings.Contains(got, "Interrupted") || strings.Contains(got, "is behind") || strings.Contains(got, "never") {
		t.Errorf("got:\n%s", got)
	}
	if r.exit() != cli.ExitInterrupted {
		t.Errorf("exit code %d", r.exit())
	}
}

func TestBestIsMarked(t *testing.T) {
	r := someReport()
	for _, c := range []struct {
		label string
		best  int // -1: none
	}{
		{"calls", -1}, {"answered in time", 0}, {"attempts ÷ calls in the outage", 1}, {"requests at the provider", 1},
		{"orders charged twice or more", 1}, {"charged, but caller got an error", -1},
		{"p50", 0}, {"p99", 1}, {"well again after the outage", 1}, {"last retry after the outage", -1},
	} {
		i := slices.IndexFunc(figures, func(f figure) bool { return f.label == c.label })
		if i < 0 {
			t.Errorf("no figure %q", c.label)
			continue
		}
		for n := range r.Clients {
			if got := r.best(figures[i], r.Clients[n]); got != (n == c.best) {
				t.Errorf("%s: client %d is best: %v", c.label, n, got)
			}
		}
	}
}

func TestNobodyIsBestWhenAllAreAlike(t *testing.T) {
	r := someReport()
	r.Clients[0] = r.Clients[1]
	for _, f := range figures {
		if r.best(f, r.Clients[0]) {
			t.Errorf("%s has a winner", f.label)
		}
	}
}

func TestGabionBehindInNothing(t *testing.T) {
	r := someReport()
	r.Clients = r.Clients[1:]
	if got := r.behind(); len(got) != 1 || !strings.HasPrefix(got[0], "in nothing") {
		t.Errorf("got %q", got)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ fact, got, want string }{
		{"thousands", thousands(1234567), "1,234,567"},
		{"hundreds", thousands(999), "999"},
		{"nothing", thousands(0), "0"},
		{"milliseconds", duration(12.4), "12 ms"},
		{"seconds", duration(1234), "1.23 s"},
		{"no calls have no share", percent(0, 0), "-"},
		{"a name that fits", fit("rate limit", 10), "rate limit"},
		{"its first word", fit("rate limit", 9), "rate"},
		{"as much as there is room for", fit("rate limit", 2), "ra"},
		{"no room", fit("rate", -1), ""},
		{"padding counts runes", right("÷", 3), "  ÷"},
		{"wrapping", strings.Join(wrap("a bb ccc dddd", 6), "|"), "a bb|ccc|dddd"},
		{"a long word stays whole", strings.Join(wrap("aaaaaaaa b", 3), "|"), "aaaaaaaa|b"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.fact, c.got, c.want)
		}
	}
}

func TestTimeline(t *testing.T) {
	plan := smallPlan()
	l := newTimeline(plan)
	l.arrive(0)
	l.arrive(0)
	l.settle(0, true)
	for _, c := range []struct {
		fact string
		line timeline
		want rune
	}{
		{"what is out may still succeed, so nothing is said", l.judged(time.Second), '·'},
		{"until its time is over", l.judged(time.Minute), '▄'},
	} {
		if got := c.line.cells[0].bar(); got != c.want {
			t.Errorf("%s: got %c", c.fact, got)
		}
	}
	live := sample{line: l.judged(time.Second)}
	if h := live.figures(columns); h.inTime != percent(0, 0) {
		t.Errorf("one call of two is out and has time, and the headline says %s", h.inTime)
	}
	if h := (sample{line: l.judged(time.Minute)}).figures(columns); h.share != 0.5 {
		t.Errorf("one call of two is out and late, and the headline says %s", h.inTime)
	}
	if got := l.cells[1].bar(); got != ' ' {
		t.Errorf("a column without calls is %c", got)
	}
	l.arrive(plan.Busy() + time.Hour) // beyond the end: the last column, no panic
	if got := l.cells[columns-1].bar(); got != '·' {
		t.Errorf("a column of which nothing is known is %c", got)
	}
}

func TestRulerIsAsWideAsTheChart(t *testing.T) {
	for name, says := range map[string]string{defaultPlan: "brown out", "free-failures": "lost", "testdata/short.yaml": "lost"} {
		outage, _, err := loadOutage(name)
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := planOf(outage)
		row := ruler(plan)
		if len(row) != columns || !strings.Contains(row, says+" ") || !strings.Contains(row, "healthy") || strings.Contains(row, "healt ") {
			t.Errorf("%s: %d columns: %q", name, len(row), row)
		}
	}
}

// README has the table of a run: its rows are those that are printed now. make
// demo-table writes it anew.
func TestREADMEHasThisTable(t *testing.T) {
	readme, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), intoBegin)
	block, _, ok := strings.Cut(rest, intoEnd)
	if !ok {
		t.Fatal("README.md has no demo table")
	}
	for _, f := range figures {
		if !strings.Contains(block, "\n  "+left(f.label, labelWidth)) {
			t.Errorf("README.md has no row %q: run make demo-table", f.label)
		}
	}
	for line := range strings.Lines(block) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > minWidth {
			t.Errorf("%d columns in README.md: %s", n, line)
		}
	}
}

func TestTheTableIsWrittenIntoADocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	for _, c := range []struct {
		text string
		ok   bool
	}{{"# A\n<!-- demo -->\nold\n<!-- /demo -->\nend\n", true}, {"# A\n", false}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := someReport().writeInto(path)
		got, _ := os.ReadFile(path)
		text := string(got)
		if (err == nil) != c.ok || c.ok != strings.Contains(text, "Where gabion is behind:") || strings.Contains(text, "old") || !strings.HasPrefix(text, "# A\n") {
			t.Errorf("%q: %v\n%s", c.text, err, text)
		}
		if c.ok && !strings.HasSuffix(text, "```\n<!-- /demo -->\nend\n") {
			t.Errorf("the end is lost:\n%s", text)
		}
	}
}
