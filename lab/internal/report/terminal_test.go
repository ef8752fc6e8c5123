package report

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// row returns the line of a screen that begins with some words.
func row(t *testing.T, screen, begin string) string {
	t.Helper()
	for line := range strings.SplitSeq(screen, "\n") {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	t.Fatalf("no line begins with %q:\n%s", begin, screen)
	return ""
}

func TestAWideTerminalShowsMore(t *testing.T) {
	s := judged(t)
	s.Bin /= 10 // what is known is not what limits it
	narrow, wide := terminal(t, s, Options{Width: 80}), terminal(t, s, Options{Width: 120})
	sparks := func(line string) (n int) {
		for _, r := range line {
			if slices.Contains(blocksOf8[1:], r) {
				n++
			}
		}
		return n
	}
	few, many := sparks(row(t, narrow, "offered")), sparks(row(t, wide, "offered"))
	if many < few+35 {
		t.Errorf("sparks have %d columns at 80 and %d at 120", few, many)
	}
	interval := regexp.MustCompile(`\([0-9.]+ to [0-9.]+ %\)`)
	if interval.MatchString(row(t, narrow, "answered in time")) || !interval.MatchString(row(t, wide, "answered in time")) {
		t.Errorf("the intervals of headlines are not where there is room:\n%s\n%s", narrow, wide)
	}
}

func TestOneSpikeDoesNotFlattenTheRest(t *testing.T) {
	s := alone()
	for _, c := range []struct {
		fact  string
		spike float64
		cut   bool
	}{{"a spike of fifty times", 50_000, true}, {"a bit more than usual", 1_500, false}} {
		t.Run(c.fact, func(t *testing.T) {
			s.Sides[0].Series.Attempts.Mid[10] = c.spike
			screen := terminal(t, s, Options{})
			line := row(t, screen, "attempts")
			if got := strings.ContainsRune(line, beyond); got != c.cut {
				t.Errorf("it is cut: %v: %q", got, line)
			}
			if got := strings.Contains(screen, string(beyond)+" is above the scale"); got != c.cut {
				t.Errorf("that it is cut is said: %v", got)
			}
			if n := strings.Count(line, "▇") + strings.Count(line, "█") + strings.Count(line, "▆") + strings.Count(line, "▅"); n < 20 {
				t.Errorf("the rest is flat: %q", line)
			}
			if c.cut && !strings.Contains(line, "50,000/s max") {
				t.Errorf("how high it was is lost: %q", line)
			}
		})
	}
}

func TestASparkKeepsItsScale(t *testing.T) {
	for _, c := range []struct {
		ys   []float64
		top  float64
		want string
	}{
		{[]float64{0, 1, 4, 8}, 8, " ▁▄█"},
		{[]float64{8, 9, 11}, 8, "██" + string(beyond)},
		{[]float64{0, 0}, 0, "  "},
		{[]float64{math.NaN(), 8}, 8, " █"},
	} {
		if got := spark(c.ys, c.top); got != c.want {
			t.Errorf("%v up to %g is %q, want %q", c.ys, c.top, got, c.want)
		}
	}
}

func TestUnresolvedIsExplained(t *testing.T) {
	s := alone()
	if screen := terminal(t, s, Options{}); !strings.Contains(screen, "? unresolved") || !strings.Contains(screen, "more runs would tell") {
		t.Error("a question mark stands there unexplained")
	}
	for i := range s.Sides[0].Asserts {
		s.Sides[0].Asserts[i].Holds = scenario.Yes
	}
	if screen := terminal(t, s, Options{}); strings.Contains(screen, "? unresolved") {
		t.Error("what is not there is explained")
	}
}

func TestWhoCallsWhom(t *testing.T) {
	edges := func(names ...string) (all []scenario.EdgeSeries) {
		for i := 0; i+1 < len(names); i += 2 {
			all = append(all, scenario.EdgeSeries{Caller: names[i], Service: names[i+1]})
		}
		return all
	}
	for _, c := range []struct {
		fact  string
		edges []scenario.EdgeSeries
		want  string
	}{
		{"a chain", edges("shop", "api", "api", "db"), "shop → api → db"},
		{"several", edges("shop", "api", "api", "db", "api", "mail", "reports", "db"), "shop → api → (db, mail); reports → db"},
		{"what two call is followed once", edges("a", "x", "b", "x", "x", "y"), "a → x → y; b → x"},
		{"twice the same", edges("a", "x", "a", "x"), "a → x"},
		{"a circle ends", edges("a", "x", "x", "y", "y", "x"), "a → x → y → x"},
		{"no calls", nil, ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := alone()
			s.Sides[0].Series.Edges = c.edges
			if got := newSheet(s).graph().String(); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
			if got := strings.Contains(terminal(t, s, Options{}), "calls: "+c.want+"\n"); got != (c.want != "") {
				t.Errorf("the screen shows it: %v", got)
			}
		})
	}
}

// The map of where runs stay down is on the screen, too: of both sides next to each
// other where there is room.
func TestTheMapIsOnTheScreen(t *testing.T) {
	for width, want := range map[int]string{80: "× 2          0 %    0 %    0 %   12 %  × 2         25 %   50 %   75 %  100 %", 57: "× 2          0 %    0 %    0 %   12 %"} {
		screen := terminal(t, pair(), Options{Width: width})
		if !slices.Contains(strings.Split(screen, "\n"), want) {
			t.Errorf("%d wide it has no %q:\n%s", width, want, screen)
		}
	}
}

func TestAnOverloadIsSaid(t *testing.T) {
	s := pair()
	s.Warnings = []string{"the load exceeds the capacity from the start: db gets 220 requests a second and can serve 127"}
	screen, page := terminal(t, s, Options{}), html(t, s)
	if !strings.Contains(strings.Join(strings.Fields(screen), " "), s.Warnings[0]) {
		t.Errorf("the screen does not say it:\n%s", screen)
	}
	if !strings.Contains(page, s.Warnings[0]) || strings.Index(page, s.Warnings[0]) > strings.Index(page, "<svg") {
		t.Error("the page does not say it before the pictures")
	}
}

// Each trouble is named on the screen: the same one that comes again is named once.
func TestTroublesAreNamed(t *testing.T) {
	s := alone()
	s.Marks = nil
	for i := range 9 {
		s.Marks = append(s.Marks, scenario.Mark{From: float64(10 * i), To: float64(10*i + 5), Text: "db refuses"})
	}
	s.Marks = append(s.Marks, scenario.Mark{From: 100, To: 110, Text: "mail is slow"})
	screen := terminal(t, s, Options{})
	for _, want := range []string{"0:00 to 0:05, 9 times until 1:25  db refuses\n", "1:40 to 1:50  mail is slow\n"} {
		if !strings.Contains(screen, want) {
			t.Errorf("it does not say %q:\n%s", want, screen)
		}
	}
}

// A number and its unit stay on one line.
func TestANumberKeepsItsUnitOnAScreen(t *testing.T) {
	for width := 40; width < 130; width++ {
		b := &screen{width: width}
		b.wrapped("", strings.Repeat("answers 1.3 points in 12 ms or 7.04 s and 30 % ", 4), 20)
		for line := range strings.SplitSeq(b.w.String(), "\n") {
			if regexp.MustCompile(`[0-9]$`).MatchString(line) {
				t.Fatalf("%d wide: %q", width, line)
			}
			if n := utf8.RuneCountInString(line); n > width {
				t.Fatalf("%d wide: %d columns", width, n)
			}
		}
	}
}

// The price stands at the end of the sentence on who wins, and is not cut for want of lines:
// other rows go first.
func TestThePriceIsNotCut(t *testing.T) {
	const price = "the price: it lets each call wait 27 ms more for nothing and recovers 2 s later than plain."
	s := judged(t)
	long := strings.Repeat("It answers more in time and recovers earlier. ", 4) + price
	s.Judgements[0].Sentence, s.Judgements[1].Sentence = long, long
	for range 12 {
		for i := range s.Sides {
			s.Sides[i].Asserts = append(s.Sides[i].Asserts, scenario.Verdict{Text: "stuck <= 1%", Holds: scenario.Unsure})
		}
		s.Marks = append(s.Marks, scenario.Mark{From: float64(len(s.Marks)), To: 60, Text: "trouble " + strings.Repeat("x", len(s.Marks))})
	}
	for _, width := range []int{80, 100, 120} {
		screen := terminal(t, s, Options{Width: width})
		if n := strings.Count(strings.Join(strings.Fields(screen), " "), price); n != 2 {
			t.Errorf("%d wide: the price is said %d times:\n%s", width, n, screen)
		}
		if n := strings.Count(screen, "\n"); n > lines {
			t.Errorf("%d wide: %d lines", width, n)
		}
	}
}
