package tournament

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// blip is a small world.
const blip = `version: 1
title: blip
duration: 30s
warmup: 2s
clients:
  shop: {count: 10, rate: 20/s, deadline: 2s, calls: [{to: db, network: exp 1ms}]}
services:
  db: {workers: 4, queue: 10, time: exp 20ms}
policies:
  db: {safe: true, timeout: {call: 2s, attempt: 500ms}}
faults:
  - {kind: errors, service: db, at: 10s, for: 5s, share: 60%}
`

// tiny is a tournament of two entrants in two worlds. Both are written out, so that
// nothing but the lab itself changes it.
func tiny(t *testing.T, workers int) *Result {
	t.Helper()
	var worlds []World
	for _, w := range []World{{Group: Library, Replications: 2}, {Group: Families, Replications: 2, Dead: true}} {
		text := blip
		if w.Dead {
			text = strings.Replace(text, "kind: errors, service: db, at: 10s, for: 5s, share: 60%", "kind: down, service: db, at: 8s, for: 14s", 1)
		}
		f, err := scenario.Parse(map[bool]string{false: "blip", true: "family:gone"}[w.Dead], []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w.File = f
		worlds = append(worlds, w)
	}
	others, err := Opponents([]string{"plain"})
	if err != nil {
		t.Fatal(err)
	}
	naive, err := opponent.Find("naive")
	if err != nil {
		t.Fatal(err)
	}
	judged := Entrant{Name: "three-tries", Title: "a loop", Policies: scenario.Policies{Name: "three-tries", Change: naive.Change}, Judged: true, First: []string{"--config", "f.yaml", "--as", "'*=db'"}}
	r, err := Run(context.Background(), Options{Title: "Tournament", Entrants: append([]Entrant{judged}, others...), Worlds: worlds, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var styleSheet = regexp.MustCompile(`(?s)<style>.*?</style>`)

func TestATinyTournamentIsTheGoldenOne(t *testing.T) {
	r := tiny(t, 1)
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"tiny.txt": func(b *bytes.Buffer) error { return r.Terminal(b, false) },
		"tiny.md":  func(b *bytes.Buffer) error { return r.Markdown(b) },
		"tiny.html": func(b *bytes.Buffer) error {
			var page bytes.Buffer
			err := r.HTML(&page)
			b.Write(styleSheet.ReplaceAll(page.Bytes(), nil)) // a colour is not what the page says
			return err
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		testgolden.File(t, filepath.Join("testdata", name), b.String())
	}
}

func TestTheNumberOfWorkersChangesNothing(t *testing.T) {
	page := func(workers int) string {
		var b bytes.Buffer
		if err := tiny(t, workers).HTML(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if one := page(1); one != page(4) || one != page(2) {
		t.Error("another page with more workers")
	}
}

func TestATerminalOf80ColumnsIsEnough(t *testing.T) {
	var b bytes.Buffer
	if err := tiny(t, 2).Terminal(&b, false); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "gabion lab run") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestThePageNeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	if err := tiny(t, 2).HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<link", "src=", "@import", "url(", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	for _, good := range []string{"prefers-color-scheme: dark", `name="viewport"`, "max-width: 640px"} {
		if !strings.Contains(b.String(), good) {
			t.Errorf("the page has no %s", good)
		}
	}
}

// hand is a result of given cells, one world each.
func hand(worlds int, cells ...[]cell) *Result {
	r := &Result{cells: cells}
	for i := range cells {
		r.Entrants = append(r.Entrants, Entrant{Name: string(rune('a' + i)), Judged: i == 0})
	}
	for range worlds {
		r.Worlds = append(r.Worlds, World{File: &scenario.File{Name: "w"}, Group: Library, Replications: len(cells[0][0].values[answered])})
	}
	return r
}

// of is a cell of answers, loads and recoveries.
func of(answers, loads, recoveries []float64) (c cell) {
	c.values[answered], c.values[load], c.values[recovery] = answers, loads, recoveries
	return c
}

func TestTheFront(t *testing.T) {
	more, fewer, noise := []float64{0.95, 0.951, 0.949}, []float64{0.9, 0.901, 0.899}, []float64{0.98, 0.9, 0.82}
	one, two, quick := []float64{1, 1, 1}, []float64{2, 2.01, 1.99}, []float64{1, 1, 1}
	for _, c := range []struct {
		fact  string
		a, b  cell
		front [2]bool
	}{
		{"fewer answers at the same load are behind", of(fewer, one, quick), of(more, one, quick), [2]bool{false, true}},
		{"more answers at a higher load are a choice", of(fewer, one, quick), of(more, two, quick), [2]bool{true, true}},
		{"what is not resolved takes no entrant off the front", of(more, one, quick), of(noise, one, quick), [2]bool{true, true}},
		{"a lower load at the same answers leads", of(more, two, quick), of(more, one, quick), [2]bool{false, true}},
	} {
		r := hand(1, []cell{c.a}, []cell{c.b})
		r.reduce()
		if got := [2]bool{r.Groups[0].Rows[0].Front, r.Groups[0].Rows[1].Front}; got != c.front {
			t.Errorf("%s: %v", c.fact, got)
		}
	}
}

func TestLosses(t *testing.T) {
	high, mid, low := []float64{0.95, 0.951, 0.949}, []float64{0.945, 0.946, 0.944}, []float64{0.9, 0.901, 0.899}
	one, two, none := []float64{1, 1, 1}, []float64{2, 2.01, 1.99}, []float64{0, 0, 0}
	for _, c := range []struct {
		fact         string
		ours, theirs cell
		to           string
		losses       []string
		breaks       bool
	}{
		{"five points fewer than one with the same load", of(low, one, none), of(high, one, none), "b", []string{words[answered]}, true},
		{"five points fewer than one with a higher load", of(low, one, none), of(high, two, none), "b", []string{words[answered]}, false},
		{"five points fewer than the plain client, whatever its load", of(low, one, none), of(high, two, none), plain, []string{words[answered]}, true},
		{"half a point fewer than the plain client", of(mid, one, none), of(high, one, none), plain, []string{words[answered]}, false},
		{"more answers at a higher load", of(high, two, none), of(low, one, none), "b", []string{words[load]}, false},
		{"nothing resolved", of(high, one, none), of(high, one, none), "b", nil, false},
	} {
		r := hand(1, []cell{c.ours}, []cell{c.theirs})
		r.Entrants[1].Name, r.Entrants[1].Against = c.to, c.to
		r.reduce()
		var got []string
		breaks := false
		for _, l := range r.Losses {
			got, breaks = append(got, l.Of), breaks || l.Breaks
		}
		if !slices.Equal(got, c.losses) || breaks != c.breaks {
			t.Errorf("%s: %v, breaks the rule: %v", c.fact, got, breaks)
		}
	}
}

func TestALossIsToTheWorstOfThemAndCountsTheOthers(t *testing.T) {
	one, none := []float64{1, 1, 1}, []float64{0, 0, 0}
	r := hand(1, []cell{of([]float64{0.9, 0.901, 0.899}, one, none)}, []cell{of([]float64{0.92, 0.921, 0.919}, one, none)}, []cell{of([]float64{0.95, 0.951, 0.949}, one, none)})
	r.reduce()
	if len(r.Losses) != 1 || r.Losses[0].To != "c" || r.Losses[0].Others != 1 {
		t.Errorf("%+v", r.Losses)
	}
}

func TestARunThatNeverRecoversCountsWithTheRestOfIt(t *testing.T) {
	for _, l := range tiny(t, 2).cells[0] {
		for _, x := range l.values[recovery] {
			if x > 30 {
				t.Errorf("recovery of %v s in a run of 30 s", x)
			}
		}
	}
	f, err := scenario.Parse("stuck", []byte(strings.Replace(blip, "for: 5s, share: 60%", "for: 19s, share: 100%", 1)))
	if err != nil {
		t.Fatal(err)
	}
	slow := policy.Policy{Breaker: policy.Breaker{Open: 100e9, FailureRate: 0.1}} // open until long after the end
	study, err := f.Run(context.Background(), scenario.Options{Policies: scenario.Policies{Name: "slow", Change: func(p policy.Policy) policy.Policy { return opponent.Like(slow, p) }}, Alone: true, Replications: 2})
	if err != nil {
		t.Fatal(err)
	}
	if c := measure(study, &World{}); c.mean(recovery) != 1 {
		t.Errorf("recovery %v s, and one second was left", c.values[recovery])
	}
}

func TestDeadLoadIsThatAfterTenSeconds(t *testing.T) {
	study := &scenario.Study{Bin: 1, During: [2]float64{5, 25}, Sides: []scenario.Side{{}}}
	for i := range 40 {
		sent := 3.0
		if i >= 15 && i < 25 {
			sent = 0.5
		}
		series := &study.Sides[0].Series
		series.Attempts.Mid, series.Offered.Mid = append(series.Attempts.Mid, 10*sent), append(series.Offered.Mid, 10)
	}
	if d := deadLoad(study); d != 0.5 {
		t.Errorf("dead load %v", d)
	}
}

func TestTheWorstRecoveryIsThatOfARun(t *testing.T) {
	steady := []float64{1, 1, 1}
	r := hand(2, []cell{of(steady, []float64{1, 1, 2.5}, []float64{0, 9, 0}), of([]float64{0.5, 0.6, 0.7}, steady, []float64{4, 4, 4})})
	r.reduce()
	row := r.Groups[0].Rows[0]
	if row.Worst[recovery] != 9 || row.Worst[load] != 1.5 || row.Worst[answered] != 0.6 {
		t.Errorf("worst recovery %v s, load %v, answered %v", row.Worst[recovery], row.Worst[load], row.Worst[answered])
	}
}

func TestDeadLoadIsOfWhatAnswersNothing(t *testing.T) {
	r := tiny(t, 2)
	if d := r.cells[1][1].dead; d < 0.9 || d > 1.1 {
		t.Errorf("the plain client sends %v of each call to what is dead", d)
	}
	if d := r.cells[0][1].dead; d < 2.8 || d > 3.2 {
		t.Errorf("three tries send %v", d)
	}
	for name, want := range map[string]bool{
		"black-hole": true, "flap": false, "family:down-1m-100x2": true, "family:black-hole-10m-5x20": true, "family:down-2s-100x2": false, "family:black-hole-10s-5x20": false,
	} {
		if dead(name) != want {
			t.Errorf("%s: dead for long is %v", name, !want)
		}
	}
}

func TestPlans(t *testing.T) {
	for _, full := range []bool{false, true} {
		worlds, err := Worlds(full, 0)
		if err != nil {
			t.Fatal(err)
		}
		groups, work := map[string]int{}, 0.0
		for _, w := range worlds {
			groups[w.Group]++
			work += w.File.Expected() * float64(w.Replications)
		}
		entrants := len(Usual) + 1
		if full {
			entrants = len(opponent.All()) + 1
		}
		calls := work * float64(entrants)
		t.Logf("full %v: %v, %.0f million calls", full, groups, calls/1e6)
		// A call takes 1.1 to 1.6 µs of one of two processors: 1.8 µs keep within 2 and 30
		// minutes.
		if minutes := calls * 1.8e-6 / 2 / 60; minutes > map[bool]float64{false: 2, true: 30}[full] {
			t.Errorf("full %v takes %.1f minutes", full, minutes)
		}
		if groups[Library] != len(family.Core) || !full && groups[Families] != len(quickFamilies) {
			t.Errorf("full %v: %v", full, groups)
		}
	}
}

func TestWhatCannotBePlayed(t *testing.T) {
	if _, err := Run(context.Background(), Options{}); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	if _, err := Opponents([]string{"resilence4j"}); !errors.Is(err, opponent.ErrUnknown) {
		t.Error(err)
	}
	if _, err := Named([]string{"family:nothing"}, func(bool) int { return 1 }); !errors.Is(err, family.ErrUnknown) {
		t.Error(err)
	}
	worlds, err := Named([]string{"short-blip"}, func(bool) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	wrong := Entrant{Name: "wrong", Policies: scenario.Policies{Name: "wrong", Change: func(p policy.Policy) policy.Policy { p.Retry.Attempts = -7; return p }}}
	if _, err := Run(context.Background(), Options{Entrants: []Entrant{wrong}, Worlds: worlds}); err == nil || !strings.Contains(err.Error(), "wrong in short-blip") {
		t.Error(err)
	}
	over, end := context.WithCancel(context.Background())
	end()
	if _, err := Run(over, Options{Entrants: []Entrant{Gabion()}, Worlds: worlds}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
