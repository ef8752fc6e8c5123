package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

const small = `version: 1
title: small
duration: 30s
bin: 1s
drain: 5s
replications: 4
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}]}
services:
  db: {workers: 4, queue: 10, time: exp 20ms}
policies:
  db: {safe: true, breaker: off}
faults:
  - {kind: errors, service: db, at: 10s, for: 10s}
assert:
  - goodput >= 99% during faults
`

func runSmall(t *testing.T, o Options) *Report {
	t.Helper()
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAReportSaysWhatItWasAsked(t *testing.T) {
	r := runSmall(t, Options{Rival: None, Seed: 3, Watch: "shop"})
	if !r.Failed() || r.Assertions()[0].Verdict != "no" {
		t.Errorf("all answers are errors, and %+v", r.Assertions())
	}
	if r.Seed() != 3 || r.Replications() != 4 || r.Command() != "gabion lab run small.yaml --seed 3 --replications 4" {
		t.Errorf("seed %d, %d replications, %q", r.Seed(), r.Replications(), r.Command())
	}
	if from, to := r.Trouble(); from != 10 || to != 20 {
		t.Errorf("trouble from %g to %g", from, to)
	}
	mean, values, err := r.Metric(1, "tries", "db", "during")
	if err != nil || mean.Value != 1 || len(values) != 4 {
		t.Errorf("callers that only call try %+v times, %v, %v", mean, values, err)
	}
	for _, c := range []struct {
		side           int
		key, of, phase string
	}{{0, "tries", "", ""}, {0, "goodput", "", "meanwhile"}, {3, "goodput", "", ""}, {-1, "goodput", "", ""}} {
		if _, _, err := r.Metric(c.side, c.key, c.of, c.phase); !errors.Is(err, ErrNoMetric) {
			t.Errorf("%+v is there: %v", c, err)
		}
	}
	if p := r.Stuck(0); p.Value != 0 || p.High < 0.2 {
		t.Errorf("four runs prove %+v", p)
	}
	if len(r.Timeline()) == 0 || r.Timeline()[0].Edge != "shop → db" {
		t.Errorf("a timeline of %d", len(r.Timeline()))
	}
}

func TestEveryFormIsWritten(t *testing.T) {
	r := runSmall(t, Options{Replications: 2})
	var text, page, data bytes.Buffer
	if err := errors.Join(r.Terminal(&text, 0, false), r.HTML(&page), r.WriteJSON(&data)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "small") || !strings.Contains(page.String(), "<svg") || !json.Valid(data.Bytes()) {
		t.Errorf("%.100s\n%.100s\n%.100s", &text, &page, &data)
	}
}

func TestNamesAndPathsAreToldApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "error-storm.yaml")
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil || s.Title() != "small" {
		t.Errorf("a path is %v, %v", s, err)
	}
	s, err = Load("error-storm")
	if err != nil || s.Title() == "small" || s.Fleets()[0] != "shop" || s.Story() == "" {
		t.Errorf("a name is %v, %v", s, err)
	}
	if _, err := Load("eror-storm"); err == nil || !strings.Contains(err.Error(), "did you mean error-storm?") {
		t.Errorf("a slip is %v", err)
	}
	if _, err := Load("./nothing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is %v", err)
	}
}

func TestARivalThatIsNone(t *testing.T) {
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), Options{Rival: "stranger"}); err == nil {
		t.Error("an unknown rival ran")
	}
}

// A file of which nothing is used must not look like one that was tried.
func TestAFileThatNobodyCallsByIsRefused(t *testing.T) {
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  payments: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(t.Context(), Options{Config: file, Alone: true})
	if err == nil || !strings.Contains(err.Error(), "gabion.yaml has none of the dependencies that small.yaml calls (db)") {
		t.Errorf("it says %v", err)
	}
	if _, err = s.Run(t.Context(), Options{Config: file, Alone: true, As: map[string]string{"db": "payments"}}); err != nil {
		t.Error(err)
	}
}

// What docs/lab.md shows as a scenario is one.
func TestTheDocumentedScenarioIsOne(t *testing.T) {
	text, err := os.ReadFile("../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	block, _, _ := strings.Cut(after, "```")
	if _, err := Parse("docs/lab.md", []byte(block)); err != nil || block == "" {
		t.Errorf("%v\n%s", err, block)
	}
}

func TestWhoWinsIsSaidOfEachTwoSides(t *testing.T) {
	s, err := Parse("outage", []byte(`version: 1
title: An outage
duration: 60s
replications: 4
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}]}
services:
  db: {time: 1ms}
policies:
  db: {safe: true}
faults:
  - {kind: errors, service: db, at: 20s, for: 10s, share: 50%}
`))
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("two.yaml", []byte("version: 1\ndependencies:\n  eager: {safe: true, breaker: off, retry: {budget: off}}\n  shy: {safe: true, retry: off}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), Options{Config: file, As: map[string]string{"db": "eager"}, AgainstAs: map[string]string{"db": "shy"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Sides(); !slices.Equal(got, []string{"two.yaml eager", "two.yaml shy", Plain}) {
		t.Errorf("the sides are %q", got)
	}
	var sides [][2]int
	for _, j := range r.Judgements() {
		sides = append(sides, [2]int{j.A, j.B})
		if j.Sentence == "" || j.Winner == "" && j.Points >= 0.1 {
			t.Errorf("%+v", j)
		}
	}
	if !slices.Equal(sides, [][2]int{{0, 1}, {2, 0}, {2, 1}}) {
		t.Errorf("judged are %v", sides)
	}
	for fact, o := range map[string]Options{
		"no file":      {AgainstAs: map[string]string{"db": "shy"}},
		"a rival":      {Config: file, As: map[string]string{"db": "eager"}, Rival: Naive, AgainstAs: map[string]string{"db": "shy"}},
		"no other one": {Config: file, As: map[string]string{"db": "eager"}, Alone: true, AgainstAs: map[string]string{"db": "shy"}},
	} {
		if _, err := s.Run(t.Context(), o); err == nil {
			t.Errorf("%s is compared with", fact)
		}
	}
}
