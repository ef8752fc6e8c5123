package report

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// played plays the storm once, and returns what makes copies of the study.
func played(o scenario.Options) func() []byte {
	return sync.OnceValue(func() []byte {
		data, err := os.ReadFile("testdata/storm.yaml")
		if err != nil {
			panic(err)
		}
		f, err := scenario.Parse("storm", data)
		if err != nil {
			panic(err)
		}
		s, err := f.Run(context.Background(), o)
		if err != nil {
			panic(err)
		}
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(s); err != nil {
			panic(err)
		}
		return b.Bytes()
	})
}

var (
	playedAlone  = played(scenario.Options{Command: "gabion lab run storm.yaml"})
	playedJudged = played(scenario.Options{Command: "gabion lab run storm.yaml --against naive", Against: &scenario.Policies{Rival: "naive"}})
)

// copied is a study that a test may change.
func copied(t testing.TB, data []byte) (s *scenario.Study) {
	t.Helper()
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// real is a study of runs that took place.
func real(t testing.TB) *scenario.Study { return copied(t, playedAlone()) }

// judged is a study of three sides that took place.
func judged(t testing.TB) *scenario.Study { return copied(t, playedJudged()) }

func html(t testing.TB, s *scenario.Study) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// said is a page whose numbers and units may be parted.
func said(page string) string { return strings.ReplaceAll(page, hard, " ") }

func terminal(t testing.TB, s *scenario.Study, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Terminal(&b, s, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name  string
		study *scenario.Study
	}{{"alone", alone()}, {"pair", pair()}, {"storm", real(t)}} {
		for ending, got := range map[string]string{".html": content(html(t, c.study)), ".txt": terminal(t, c.study, Options{})} {
			testgolden.File(t, filepath.Join("testdata", c.name+ending), got)
		}
	}
}

// content is a page without its style sheet, its script and their hashes. They have files and
// tests of their own, and a colour that changes must not change every golden page.
func content(page string) string { return decoration.ReplaceAllString(page, "") }

var decoration = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|'sha256-[^']*'`)

func TestTheSameStudyGivesTheSameBytes(t *testing.T) {
	if html(t, pair()) != html(t, pair()) {
		t.Error("two pages of one study differ")
	}
	if terminal(t, pair(), Options{}) != terminal(t, pair(), Options{}) {
		t.Error("two screens of one study differ")
	}
	s := pair()
	html(t, s)
	terminal(t, s, Options{})
	if !reflect.DeepEqual(s, pair()) {
		t.Error("showing a study changed it")
	}
}

// elements reads a page strictly, as XML, and returns its elements.
func elements(t testing.TB, page string) (all []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

func attribute(e *xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestEveryPictureHasATitleAndADescription(t *testing.T) {
	for _, s := range []*scenario.Study{alone(), pair(), real(t)} {
		ids, pictures := map[string]int{}, 0
		all := elements(t, html(t, s))
		for i := range all {
			if id := attribute(&all[i], "id"); id != "" {
				ids[id]++
			}
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("%s: %d elements are called %q", s.Name, n, id)
			}
		}
		for i := range all {
			if attribute(&all[i], "role") != "img" {
				continue
			}
			pictures++
			names := strings.Fields(attribute(&all[i], "aria-labelledby"))
			if len(names) != 2 || ids[names[0]] != 1 || ids[names[1]] != 1 || all[i+1].Name.Local != "title" || all[i+2].Name.Local != "desc" {
				t.Errorf("%s: a picture is described by %q", s.Name, names)
			}
		}
		if pictures < 6 {
			t.Errorf("%s: %d pictures", s.Name, pictures)
		}
	}
}

const nasty = "\"'><script>alert(1)</script></style></svg><!-- &lt; \x1b[31mred\x07 \u202e \xff \x00"

// spoil puts something hostile into every text of a study.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.String:
		v.SetString(v.String() + nasty)
	}
}

func TestNothingWrittenInAScenarioBecomesMarkup(t *testing.T) {
	s := pair()
	s.Judgements = judged(t).Judgements
	spoil(reflect.ValueOf(s))
	scripts := 0
	for _, e := range elements(t, html(t, s)) {
		if e.Name.Local == "script" {
			scripts++
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("an element obeys %s", a.Name.Local)
			}
		}
	}
	if scripts != 1 {
		t.Fatalf("%d scripts: a name became one", scripts)
	}
	tame, _, _ := strings.Cut(nasty, "'")
	if page := html(t, s); strings.Contains(page, tame+"'><script") || strings.Contains(page, "\x1b") {
		t.Error("a text was written as it is")
	}
}

func TestATerminalObeysNothingWrittenInAScenario(t *testing.T) {
	s := pair()
	spoil(reflect.ValueOf(s))
	for _, r := range terminal(t, s, Options{}) {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Fatalf("%U was written", r)
		}
	}
}

// crowded has more of everything than a screen has room for.
func crowded() *scenario.Study {
	s := pair()
	for range 9 {
		s.Marks = append(s.Marks, scenario.Mark{From: 70, To: 71, Kind: "down", Of: "db", Text: strings.Repeat("db is down ", len(s.Marks))})
	}
	s.Sides[0].Modes = s.Sides[1].Modes
	for i := range s.Sides {
		side := &s.Sides[i]
		side.Name = strings.Repeat("a-long-name-", 9)
		for range 4 {
			side.Asserts = append(side.Asserts, side.Asserts...)
		}
		side.Broken = []string{"one thing", "and another"}
		side.Worst[0].Text = strings.Repeat("all that ", 30)
	}
	for _, key := range []string{"goodput", "amplification", "wasted", "p99"} {
		for _, phase := range []string{during, after} {
			s.Diffs = append(s.Diffs, scenario.Diff{Key: key, Phase: phase, Unit: scenario.Ratio, A: exactly(1), B: exactly(2), Delta: about(1, .5), Verdict: worse})
		}
	}
	s.Title = strings.Repeat("title ", 40)
	return s
}

func TestTheScreenFits(t *testing.T) {
	for name, s := range map[string]*scenario.Study{"alone": alone(), "pair": pair(), "real": real(t), "judged": judged(t), "crowded": crowded()} {
		for _, width := range []int{0, 1, 40, 57, 80, 132} {
			want := cmp.Or(map[int]int{0: 80, 1: 40}[width], width)
			lines := strings.Split(strings.TrimSuffix(terminal(t, s, Options{Width: width}), "\n"), "\n")
			if len(lines) > 40 {
				t.Errorf("%s has %d lines", name, len(lines))
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > want && !strings.HasPrefix(line, "again: ") {
					t.Errorf("%s, %d wide: %d columns in %q", name, width, n, line)
				}
			}
		}
	}
}

func TestColourIsOnlyColour(t *testing.T) {
	plain, painted := terminal(t, pair(), Options{}), terminal(t, pair(), Options{Color: true})
	if strings.Contains(plain, "\x1b") {
		t.Error("colours where none are wanted")
	}
	if plain == painted {
		t.Error("no colours where they are wanted")
	}
	bare := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(painted, "")
	if regexp.MustCompile(`(?m) +$`).ReplaceAllString(bare, "") != plain {
		t.Error("without its colours the screen differs")
	}
}

// Of runs that end in two ways the mean is what no run did.
func TestTwoWaysHaveNoMean(t *testing.T) {
	s := pair()
	for name, text := range map[string]string{"page": said(html(t, s)), "screen": terminal(t, s, Options{})} {
		if !strings.Contains(text, "3 % or 98 %") {
			t.Errorf("the %s does not tell the two ways", name)
		}
		if strings.Contains(text, "39 %") || strings.Contains(text, "60.2 pt") {
			t.Errorf("the %s has the mean", name)
		}
		if !strings.Contains(text, "62.5 %") || !strings.Contains(text, "30.6 to 86.3 %") {
			t.Errorf("the %s lacks the probability of staying down", name)
		}
	}
}

func TestThereMayBeVeryLittle(t *testing.T) {
	nothing := &scenario.Study{Name: "nothing", Sides: make([]scenario.Side, 1)}
	quiet := alone()
	quiet.Marks, quiet.During = nil, [2]float64{}
	quiet.Sides[0].Phases = quiet.Sides[0].Phases[:1]
	quiet.Sides[0].Phases[0].Name = whole
	once := pair()
	once.Replications = 1
	for i := range once.Sides {
		side := &once.Sides[i]
		side.Runs, side.Modes = side.Runs[:1], nil
		side.Stuck = lone(math.NaN())
		for k := range side.Metrics {
			side.Metrics[k].Mean = lone(math.NaN())
		}
	}
	for i := range once.Diffs {
		once.Diffs[i].Delta = lone(1)
	}
	bare := pair()
	bare.Sides[1].Series, bare.Sides[1].Phases, bare.Sides[1].Asserts = scenario.Series{}, nil, nil
	short := pair()
	short.Sides[0].Series.Goodput.Mid = short.Sides[0].Series.Goodput.Mid[:3]
	short.Sides[0].Series.P50.Mid = flat(bins, math.NaN())
	for name, s := range map[string]*scenario.Study{"nothing": nothing, "no trouble": quiet, "one run": once, "an empty side": bare, "short series": short} {
		page := html(t, s)
		elements(t, page)
		for _, text := range []string{page, terminal(t, s, Options{})} {
			if i := max(strings.Index(text, "NaN"), strings.Index(text, "Inf")); i >= 0 {
				t.Errorf("%s: %q", name, text[max(i-40, 0):min(i+40, len(text))])
			}
		}
	}
}

func TestABrokenSimulationSaysSo(t *testing.T) {
	s := alone()
	s.Sides[0].Broken = []string{"Little: an area of 1"}
	for _, text := range []string{html(t, s), terminal(t, s, Options{})} {
		if !strings.Contains(text, "contradicts itself") || !strings.Contains(text, "an area of 1") {
			t.Error("a run that broke an invariant is shown as if it had not")
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	if err := HTML(fullDisk{}, pair()); !errors.Is(err, errFull) {
		t.Errorf("HTML returned %v", err)
	}
	if err := Terminal(fullDisk{}, pair(), Options{}); !errors.Is(err, errFull) {
		t.Errorf("Terminal returned %v", err)
	}
}

func TestPicturesDropNothing(t *testing.T) {
	p := &plot{end: clock(120), width: clock(2), height: 100, y: linear(10, "x")}
	p.line([]float64{1, 1, 1, 5, math.NaN(), 2, 2}, "a")
	d := p.field[0].attr[3]
	if want := "M8.3 90 41.7 90 58.3 50M91.7 80 108.3 80"; d != want {
		t.Errorf("the line is %q, want %q", d, want)
	}
	long := &plot{end: clock(2400), width: clock(1), height: 100, y: linear(10, "x")}
	spike := flat(2400, 1)
	spike[1234] = 9
	long.band(flat(2400, 1), spike, "b")
	if got := long.field[0].attr[3]; !strings.Contains(got, " 10 ") {
		t.Errorf("a spike of one bin is lost in %q", got)
	}
}

func TestAPictureShowsTheFaultsOfItsTimeOnly(t *testing.T) {
	s := alone()
	s.Marks = append(s.Marks, scenario.Mark{From: 10, To: 12, Kind: "down", Of: "db", Text: "db is down"})
	page := html(t, s)
	tail := page[strings.Index(page, `<figure id="tail">`):strings.Index(page, `<figure id="queues">`)]
	if n := strings.Count(tail, `class="fault"`); n != 1 {
		t.Errorf("the picture of the end shows %d faults", n)
	}
	if n := strings.Count(page[strings.Index(page, `<figure id="goodput">`):strings.Index(page, `<figure id="attempts">`)], `class="fault"`); n != 2 {
		t.Errorf("the picture of all shows %d faults", n)
	}
}

func TestNamesOfLinesDoNotOverlap(t *testing.T) {
	p := &plot{height: 100, end: 1, y: linear(1, "x")}
	for i := range 6 {
		p.labels = append(p.labels, label{y: float64(98 - i%2), text: "x"})
	}
	out := el("svg")
	p.names(out)
	var at []float64
	for _, n := range out.kids {
		at = append(at, number(t, n.attr[3]))
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < 13.9 {
			t.Errorf("names at %v", at)
		}
	}
	if last := at[len(at)-1]; last > p.above()+p.height+7 {
		t.Errorf("the last name is at %v, below the picture", last)
	}
}

// Texts in these colours have to be read (WCAG 2.2, 1.4.3: 4.5 to 1).
func TestTextsStandOutFromThePaper(t *testing.T) {
	blocks := strings.SplitN(style, "prefers-color-scheme: dark", 2)
	for theme, css := range map[string]string{"light": blocks[0], "dark": blocks[1]} {
		paper := colour(t, css, "paper")
		for _, name := range []string{"ink", "soft", "good", "offered", "capacity", "fault", "spike", "p50", "p90", "p99", "tint1", "tint2", "tint3", "tint4", "tint5", "tint6"} {
			if c := contrast(colour(t, css, name), paper); c < 4.5 {
				t.Errorf("%s %s: %.2f to 1", theme, name, c)
			}
		}
	}
}

func colour(t *testing.T, css, name string) (luminance float64) {
	t.Helper()
	m := regexp.MustCompile(`--` + name + `: #([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})`).FindStringSubmatch(css)
	if m == nil {
		t.Fatalf("no colour %s", name)
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(strings.IndexByte(hex, m[i+1][0])*16+strings.IndexByte(hex, m[i+1][1])) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		luminance += weight * c
	}
	return luminance
}

const hex = "0123456789abcdef"

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

func TestHeatMapKeepsItsOrientation(t *testing.T) {
	m := &scenario.Map{Loads: []float64{1, 2}, Triggers: []float64{1, 3}, Replications: 10, Cells: [][]scenario.Cell{
		{{Stuck: share(0)}, {Stuck: share(2)}}, {{Stuck: share(4)}, {Stuck: share(10)}},
	}}
	s := alone()
	s.Map = m
	page := html(t, s)
	for _, want := range []string{"load × 2, trigger × 1: stays down with 20 %", "load × 1, trigger × 3: stays down with 40 %", "load × 2, trigger × 3: stays down with 100 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the map does not say %q", want)
		}
	}
	if low, high := strings.Index(page, `y="39" width="43.60%"`), strings.Index(page, `y="1" width="43.60%"`); low < 0 || high < 0 || low > high {
		t.Error("the larger trigger is not above the smaller one")
	}
}

func share(k int) scenario.Estimate { return scenario.Estimate{Interval: stat.Share(k, 10)} }

// A cell of which nothing is known says so.
func TestAMapOfWhatIsUnknown(t *testing.T) {
	m := &scenario.Map{Loads: []float64{1}, Triggers: []float64{4}, Replications: 3}
	cells := [][]scenario.Cell{{{Stuck: scenario.Estimate{Interval: stat.Share(0, 0)}, Goodput: scenario.Number(math.NaN())}}}
	var out strings.Builder
	w := bufio.NewWriter(&out)
	newSheet(&scenario.Study{Sides: make([]scenario.Side, 1)}).heat(m, cells, 0).write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "NaN") || !strings.Contains(text, "goodput after it –") || !strings.Contains(text, ">–<") {
		t.Errorf("it says %s", text)
	}
}

// Who wins is said first, in sentences with the names that were asked for, and the
// figures of all sides follow.
func TestWhoWinsIsSaidFirst(t *testing.T) {
	s := judged(t)
	for name, text := range map[string]string{"page": strings.NewReplacer("<b>", "", "</b>", "").Replace(said(html(t, s))), "screen": strings.Join(strings.Fields(terminal(t, s, Options{Width: 100})), " ")} {
		last := -1
		for _, j := range s.Judgements[:2] {
			i := strings.Index(text, strings.NewReplacer("'", "&#39;").Replace(j.Sentence))
			if i < 0 {
				i = strings.Index(text, j.Sentence)
			}
			if i <= last {
				t.Errorf("the %s does not say %q in its place", name, j.Sentence)
			}
			last = i
		}
		for _, side := range s.Sides {
			if !strings.Contains(text[max(last, 0):], side.Name) {
				t.Errorf("the %s has no figures of %s", name, side.Name)
			}
		}
		if strings.Contains(text, "B against A") {
			t.Errorf("the %s calls sides by letters", name)
		}
	}
	if n := strings.Count(terminal(t, s, Options{Width: 80}), "\n"); n > lines {
		t.Errorf("the screen has %d lines", n)
	}
}

// Where there are messages, what became of their effects stands beside the answers.
func TestEffectsStandBesideAnswers(t *testing.T) {
	f, err := scenario.Parse("x", []byte(`version: 1
title: x
duration: 1m
clients:
  billing: {count: 2, rate: 10/s, deadline: 20s, queue: {workers: 20, visibility: 1s, heartbeat: true, inbox: reexecute}, calls: [{to: db}]}
services:
  db: {time: 1500ms}
policies:
  db: {safe: true, timeout: {call: 30s, attempt: 30s}, retry: off, bulkhead: off}
  billing: {timeout: {call: 2m, attempt: 30s}, retry: {attempts: 3}, bulkhead: {limit: 20}}
against: plain
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), scenario.Options{Replications: 2})
	if err != nil {
		t.Fatal(err)
	}
	screen := terminal(t, s, Options{Width: 100})
	for _, row := range []string{`effects done again +0 % +\d[\d.]+ % worse`, `effects lost +0 % +0 %`} {
		if !regexp.MustCompile(row).MatchString(screen) {
			t.Errorf("the screen does not say %s: %s", row, screen)
		}
	}
	for _, text := range []string{"Effects done again", "effects lost", "to messages, in the whole run"} {
		if !strings.Contains(said(html(t, s)), text) {
			t.Errorf("the page does not say %q", text)
		}
	}
}

// What is worse is red, and what is better green.
func TestVerdictsHaveTheirColours(t *testing.T) {
	for verdict, want := range map[string]string{worse: "\x1b[31m", better: "\x1b[32m"} {
		s := judged(t)
		for i := range s.Judgements[0].Heads {
			s.Judgements[0].Heads[i].Verdict = verdict
		}
		text := terminal(t, s, Options{Width: 120, Color: true})
		if !regexp.MustCompile(regexp.QuoteMeta(want) + ` +[0-9][^\x1b]* ` + verdict).MatchString(text) {
			t.Errorf("%s is not %q: %s", verdict, want, text)
		}
	}
}

// A failure of few runs says of how many it is.
func TestFewRunsSayHowMany(t *testing.T) {
	s := alone()
	s.Sides[0].Runs = s.Sides[0].Runs[:2]
	v := &s.Sides[0].Asserts[0]
	v.Holds, v.Breaks = scenario.No, exactly(1)
	if text := terminal(t, s, Options{}); !strings.Contains(text, "in 2 of 2 runs") {
		t.Error(text)
	}
}
