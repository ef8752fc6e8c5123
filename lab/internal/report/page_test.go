package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// The page asks a network for nothing, and its one script and its one style sheet are
// named by their hashes: it works under a policy that allows nothing else.
func TestThePageAsksForNothing(t *testing.T) {
	for _, s := range []*scenario.Study{alone(), pair(), real(t), judged(t)} {
		page := html(t, s)
		for _, word := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "<link", "<img", "<iframe", "<object", "javascript:", "eval(", "innerHTML", " style=", "unsafe"} {
			if strings.Contains(page, word) {
				t.Errorf("%s: the page has %q", s.Name, word)
			}
		}
		if n := strings.Count(page, "<script>"); n != 1 || strings.Count(page, "<script") != n {
			t.Errorf("%s: %d scripts", s.Name, n)
		}
		for _, name := range []string{"script", "style"} {
			_, text, _ := strings.Cut(page, "<"+name+">")
			text, _, _ = strings.Cut(text, "</"+name+">")
			if want := name + "-src " + strings.ReplaceAll(hashOf(text), "'", "&#39;"); !strings.Contains(page, want) {
				t.Errorf("%s: the policy of the page does not allow its %s: %s", s.Name, name, want)
			}
		}
		if !strings.Contains(page, "default-src &#39;none&#39;") {
			t.Errorf("%s: the page may ask for more", s.Name)
		}
	}
}

// place returns where on a page something stands.
func placeOf(t *testing.T, page, what string) int {
	t.Helper()
	i := strings.Index(page, what)
	if i < 0 {
		t.Fatalf("the page has no %s", what)
	}
	return i
}

func TestThePictureComesBeforeTheTables(t *testing.T) {
	page := html(t, judged(t))
	last := 0
	for _, what := range []string{`class="lead"`, `<figure id="goodput">`, `<section id="glance">`, `<figure id="attempts">`, `<figure id="latency">`, `<section id="verdict">`, "<table", `<section id="compare">`} {
		at := placeOf(t, page, what)
		if at < last {
			t.Errorf("%s stands before what should precede it", what)
		}
		last = at
	}
}

func TestTheDecisiveCardIsFirst(t *testing.T) {
	s := judged(t)
	most, key := 0.0, ""
	for _, h := range s.Judgements[0].Heads {
		if math.Abs(h.Points) > most {
			most, key = math.Abs(h.Points), h.Key
		}
	}
	list, same := newSheet(s).cards()
	if len(list) == 0 || !list[0].decides || list[0].name != cardName(&scenario.Headline{Key: key}) {
		t.Errorf("what decides is %s, and the first card is %+v", key, list)
	}
	for i := range list {
		if list[i].same() {
			t.Errorf("%s is the same on all sides: %v", list[i].name, list[i].values)
		}
		for k := range i {
			if list[i].name == list[k].name {
				t.Errorf("two cards are called %s", list[i].name)
			}
		}
	}
	if page := html(t, s); len(same) == 0 || !strings.Contains(said(page), "The same on all sides: ") {
		t.Errorf("what is the same is not said: %v", same)
	}
}

// Troubles that follow each other at once are named each, and no name lies on another.
func TestAdjacentTroublesAreNamedEach(t *testing.T) {
	s := pair()
	s.Marks = nil
	for i, name := range []string{"80% of db answers 503", "mail never answers", "db is slow, 5 times", "api has 40% of its capacity", "db refuses connections"} {
		s.Marks = append(s.Marks, scenario.Mark{From: float64(30 + 6*i), To: float64(36 + 6*i), Text: name})
	}
	s.Marks = append(s.Marks, scenario.Mark{From: 110, To: 119, Text: "the last of all comes late"}, scenario.Mark{From: 119, To: 120, Text: "db refuses connections"})
	page := html(t, s)
	figure := page[placeOf(t, page, `<figure id="goodput">`):placeOf(t, page, `<figure id="attempts">`)]
	for _, m := range s.Marks[:6] {
		if n := strings.Count(figure, m.Text+"</text>") + strings.Count(figure, m.Text+" (comes 2 times)</text>"); n != 2 {
			t.Errorf("%q is written %d times over two pictures", m.Text, n)
		}
	}
	for _, panels := range []bool{false, true} {
		p := &plot{end: clock(120), width: clock(2), height: 100, named: true, faults: newSheet(s).shades, per: lettersOf[panels], y: linear(1, "x")}
		p.tag()
		for i := range p.tagged {
			for k := range i {
				if a, b := span2(p, &p.tagged[i]), span2(p, &p.tagged[k]); p.tagged[i].row == p.tagged[k].row && a[0] < b[1] && b[0] < a[1] {
					t.Errorf("%q lies on %q", p.tagged[i].name, p.tagged[k].name)
				}
			}
			if b := span2(p, &p.tagged[i]); b[0] < 0 || b[1] > wide+1 {
				t.Errorf("%q is outside: %v", p.tagged[i].name, b)
			}
		}
		if want := above + float64(tagHeight*(p.rows()-1)); p.above() != want {
			t.Errorf("%v above the field are no room for %d rows", p.above(), p.rows())
		}
	}
}

func span2(p *plot, g *tag) [2]float64 {
	if g.before {
		return [2]float64{g.x - p.length(g), g.x}
	}
	return [2]float64{g.x, g.x + p.length(g)}
}

// A budget or a breaker that does not exist is not drawn as one that is used up, or that
// stays closed.
func TestWhatDoesNotExistIsNotDrawn(t *testing.T) {
	s := pair()
	for i := range s.Sides[1].Series.Edges {
		e := &s.Sides[1].Series.Edges[i]
		e.Unbudgeted, e.Unguarded = true, true
	}
	s.Sides[0].Series.Edges[1].Unbudgeted, s.Sides[0].Series.Edges[1].Unguarded = true, true
	page := html(t, s)
	budget := page[placeOf(t, page, `<figure id="budget">`):placeOf(t, page, `<figure id="tail">`)]
	if n := strings.Count(budget, `class="line`); n != 1 || !strings.Contains(budget, "There is no retry budget") {
		t.Errorf("%d budgets are drawn of the one that there is", n)
	}
	breakers := page[placeOf(t, page, `<figure id="breakers">`):placeOf(t, page, `<figure id="budget">`)]
	if n := strings.Count(breakers, `class="shut"`); n != 1 || !strings.Contains(breakers, "There is no breaker") || !strings.Contains(breakers, "db → search, without a breaker") {
		t.Errorf("%d breakers are drawn of the one that there is", n)
	}
}

// The head of a phase stands over both sides, and not over the second.
func TestPhaseHeadsStandOverBothSides(t *testing.T) {
	page := html(t, pair())
	table := page[placeOf(t, page, `<table class="phases">`):]
	if n := strings.Count(table[:strings.Index(table, "</tr>")], `class="n over" scope="colgroup" colspan="2"`); n != 3 {
		t.Errorf("%d of 3 heads span their sides", n)
	}
	if !regexp.MustCompile(`\.over \.span \{[^}]*text-align: center`).MatchString(style) {
		t.Error("the head of a phase is not in the middle of its sides")
	}
}

// texts returns what a reader sees outside of pictures and of what is to be copied.
func texts(t *testing.T, page string) (all []string) {
	t.Helper()
	d, hidden := xml.NewDecoder(strings.NewReader(page)), 0
	skip := []string{"svg", "code", "pre", "style", "script", "title"}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if hidden > 0 || slices.Contains(skip, e.Name.Local) {
				hidden++
			}
		case xml.EndElement:
			hidden = max(hidden-1, 0)
		case xml.CharData:
			if hidden == 0 {
				all = append(all, string(e))
			}
		}
	}
}

func TestANumberKeepsItsUnit(t *testing.T) {
	parted := regexp.MustCompile(`[0-9] (s|ms|µs|min|h|%|pt)\b|[0-9] %`)
	for _, s := range []*scenario.Study{alone(), pair(), judged(t)} {
		for _, text := range texts(t, html(t, s)) {
			if m := parted.FindString(text); m != "" {
				t.Errorf("%s: %q may be parted in %q", s.Name, m, text)
			}
		}
	}
}

// A trouble of 30 s in ten minutes can be looked at in full: there is a button for it,
// which only the script shows, and a line with a point for each bin.
func TestATroubleCanBeZoomed(t *testing.T) {
	p := &plot{end: 10 * time.Minute, width: time.Second, height: 100, y: linear(1, "x"), faults: []shade{{from: 3 * time.Minute, to: 210 * time.Second, name: "x"}}}
	p.line(band(through(1, 1, 1), .5).Mid, "x")
	levels := p.resolutions()
	if len(levels) != 2 || levels[0].class != " far" || levels[1].class != " near" {
		t.Fatalf("it is drawn %d times", len(levels))
	}
	inside := 0
	for _, at := range levels[1].groups {
		if at >= 180 && at < 210 {
			inside++
		}
	}
	if inside != 30 || len(levels[0].groups) > points+2 || len(levels[1].groups) > 2*points+10 {
		t.Errorf("%d points in 30 bins of trouble, %d and %d in all", inside, len(levels[0].groups), len(levels[1].groups))
	}
	s := alone()
	s.Duration, s.Bin, s.During = 600, 1, [2]float64{180, 210}
	s.Marks[0].From, s.Marks[0].To = 180, 210
	page := html(t, s)
	bar := page[placeOf(t, page, `<div id="zoom"`):]
	bar = bar[:strings.Index(bar, "</div>")]
	if !strings.Contains(bar, `hidden="hidden"`) || !strings.Contains(bar, `data-from="165" data-to="225"`) {
		t.Errorf("no button for the trouble, or without a script it does nothing: %s", bar)
	}
	if n := strings.Count(page, `class="plot zooms" data-end="600"`); n < 5 {
		t.Errorf("%d pictures can be zoomed", n)
	}
	page = html(t, alone())
	if strings.Contains(page[placeOf(t, page, `<figure id="tail">`):placeOf(t, page, `<figure id="queues">`)], "zooms") {
		t.Error("the picture of the end, which has times of its own, is zoomed as if it showed all")
	}
}

// The page is read as XML elsewhere, and its script is written into it as it is.
func TestTheScriptIsPlainText(t *testing.T) {
	if i := strings.IndexAny(script, "<&"); i >= 0 {
		t.Errorf("the script has %q", script[max(i-20, 0):i+5])
	}
}

// Differences are grouped: a part that is switched off on one side is one entry, and what differs
// alike for several dependencies is listed once.
func TestSettingsThatDifferAreGrouped(t *testing.T) {
	diff := func(policy, path, a, b string) scenario.SettingDiff {
		return scenario.SettingDiff{Policy: policy, Path: path, A: a, B: b}
	}
	list := parts([]scenario.SettingDiff{
		diff("db", "retry.attempts", "3", "4"), diff("db", "breaker.window", "10s", ""), diff("db", "breaker.open", "3s", ""), diff("db", "breaker", "", "off"),
		diff("db", "retry.budget.ratio", "20%", ""), diff("db", "retry.budget", "", "off"), diff("db", "retry.backoff.base", "1s", "4s"),
		diff("api", "retry.attempts", "3", "4"), diff("api", "retry.backoff.base", "2s", "4s"), diff("api", "breaker.window", "10s", ""), diff("api", "breaker", "", "off"),
	})
	type entry struct {
		name string
		off  int
		rows int
	}
	var got []entry
	for _, p := range list {
		got = append(got, entry{p.name, p.off, len(p.rows)})
	}
	if want := []entry{{"retry", -1, 3}, {"breaker", 1, 2}, {"retry.budget", 1, 1}}; !slices.Equal(got, want) {
		t.Errorf("the parts are %v, want %v", got, want)
	}
	if of := list[0].rows[0].of; !slices.Equal(of, []string{"db", "api"}) {
		t.Errorf("retry.attempts differs for %v", of)
	}
	s := pair()
	s.Settings = []scenario.SettingDiff{diff("db", "breaker.window", "10s", ""), diff("db", "breaker", "", "off")}
	page := html(t, s)
	if !strings.Contains(page, "off in naive; 1 setting in gabion.yaml") || strings.Contains(page, "<code></code>") {
		t.Error("a part that is off is not told as that, or has empty cells")
	}
}

// Only what is resolved stands in the open; the rest is folded.
func TestOnlyWhatDiffersIsInTheOpen(t *testing.T) {
	s := pair()
	s.Diffs = append(s.Diffs, scenario.Diff{Key: "p99", Name: "p99", Phase: during, Unit: scenario.Seconds, A: exactly(1), B: exactly(1.1), Delta: about(.1, .5), Verdict: "unresolved"})
	page := html(t, s)
	compare := page[placeOf(t, page, `<section id="compare">`):]
	compare = compare[:strings.Index(compare, "</section>")]
	if open, _, _ := strings.Cut(compare, "<details"); strings.Contains(open, `"verdict unresolved"`) || !strings.Contains(open, `"verdict worse"`) {
		t.Error("what does not differ stands among what does")
	}
	if !strings.Contains(compare, "More metrics, during the trouble: 2 of 3 differ") {
		t.Error("the rest is not folded by phase")
	}
}

// On a phone each verdict stands next to what it is about, and tables say that there is
// more beside them.
func TestAPhoneShowsVerdicts(t *testing.T) {
	_, small, _ := strings.Cut(style, "@media (max-width: 760px)")
	for _, want := range []string{".asserts tr { display: grid;", "attr(data-side)"} {
		if !strings.Contains(small, want) {
			t.Errorf("small screens have no %s", want)
		}
	}
	for _, want := range []string{"background-attachment: local, local, scroll, scroll", ".scroll.more::before"} {
		if !strings.Contains(style, want) {
			t.Errorf("tables have no %s", want)
		}
	}
	page := html(t, pair())
	if n := strings.Count(page, `data-side="naive"`); n != 3 {
		t.Errorf("%d of 3 measured values say whose they are", n)
	}
	row := page[placeOf(t, page, `<table class="diffs">`):]
	row = row[strings.Index(row, "<tbody>"):]
	if metric, verdict := strings.Index(row, "</th>"), strings.Index(row, `class="verdict`); verdict > metric+60 {
		t.Error("the verdict on a difference does not stand next to its metric")
	}
}

// rgb reads a colour of a theme as linear light.
func rgb(t *testing.T, css, name string) (c [3]float64) {
	t.Helper()
	m := regexp.MustCompile(`--` + name + `: #([0-9a-f]{6})`).FindStringSubmatch(css)
	if m == nil {
		t.Fatalf("no colour %s", name)
	}
	for i := range c {
		n, err := strconv.ParseUint(m[1][2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if v := float64(n) / 255; v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

// lab is a colour in a space in which distances are about what the eye sees (CIE 1976).
func labOf(c [3]float64) (l [3]float64) {
	f := func(x float64) float64 {
		if x > 0.008856 {
			return math.Cbrt(x)
		}
		return 7.787*x + 16./116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// Percentiles are told apart in both themes, by those too who do not see all colours
// (after Machado and others, 2009), and by their dashes.
func TestPercentilesAreToldApart(t *testing.T) {
	eyes := map[string][3][3]float64{
		"all colours": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"no red":      {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
		"no green":    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
		"no blue":     {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
		"only light":  {{0.2126, 0.7152, 0.0722}, {0.2126, 0.7152, 0.0722}, {0.2126, 0.7152, 0.0722}},
	}
	names := []string{"p50", "p90", "p99"}
	themes := strings.SplitN(style, "prefers-color-scheme: dark", 2)
	for theme, css := range map[string]string{"light": themes[0], "dark": themes[1]} {
		for eye, m := range eyes {
			least := 25.0
			if eye == "only light" {
				least = 5 // dashes tell the rest
			}
			var seen [][3]float64
			for _, name := range names {
				c, out := rgb(t, css, name), [3]float64{}
				for i := range out {
					out[i] = min(max(m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2], 0), 1)
				}
				seen = append(seen, labOf(out))
			}
			for i := range seen {
				for k := range i {
					d := math.Hypot(math.Hypot(seen[i][0]-seen[k][0], seen[i][1]-seen[k][1]), seen[i][2]-seen[k][2])
					if d < least {
						t.Errorf("%s, %s: %s and %s are %.0f apart", theme, eye, names[i], names[k], d)
					}
				}
			}
		}
	}
	dashes := map[string]string{}
	for _, name := range names {
		m := regexp.MustCompile(`\.line\.` + name + ` \{[^}]*`).FindString(style)
		dash := regexp.MustCompile(`stroke-dasharray: [0-9 ]+`).FindString(m)
		for other, d := range dashes {
			if d == dash {
				t.Errorf("%s and %s have the same dashes", name, other)
			}
		}
		dashes[name] = dash
	}
}

// The plain client is a thin line where it is no side of its own.
func TestThePlainClientIsInThePictures(t *testing.T) {
	s := judged(t)
	page := html(t, s)
	for _, id := range []string{"goodput", "attempts"} {
		figure := page[placeOf(t, page, `<figure id="`+id+`">`):]
		figure = figure[:strings.Index(figure, "</figure>")]
		if n := strings.Count(figure, `class="line third`); n != 2 {
			t.Errorf("%s has it %d times", id, n)
		}
	}
	s.Sides = s.Sides[:2]
	if strings.Contains(html(t, s), `class="line third`) {
		t.Error("a third side is drawn where there are two")
	}
}

// A side may have the name of a word: what is a name stands out.
func TestNamesStandOutInSentences(t *testing.T) {
	s := pair()
	s.Sides[0].Name, s.Sides[1].Name = "none", "a.yaml"
	s.Judgements = []scenario.Judgement{{Sentence: "none wins for callers: it sends 0.5 of a.yaml's load; the price: none, nonesuch."}}
	for i := range s.Sides {
		s.Sides[i].Heads = []scenario.Headline{}
	}
	want := `<p class="lead"><b>none</b> wins for callers: it sends 0.5 of <b>a.yaml</b>&#39;s load; the price: <b>none</b>, nonesuch.</p>`
	if page := html(t, s); !strings.Contains(page, want) {
		t.Errorf("it is %s", page[placeOf(t, page, `<p class="lead">`):][:200])
	}
}
