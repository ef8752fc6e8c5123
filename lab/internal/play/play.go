package play

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// Question is what the page asks: to run the world under one policy, for its files, or, if it
// asks for neither, which knobs there are.
type Question struct {
	World *World `json:"world"` // nil means the usual one
	Side  string `json:"side"`  // gabion, plain, naive or an opponent, or theirs, for File: runs it
	Files bool   `json:"files"`
	File  *File  `json:"file"` // of another system: says what it is, or plays it
}

// About says what the page can ask for.
type About struct {
	Knobs     []Knob   `json:"knobs"`
	Troubles  []Choice `json:"troubles"`
	Opponents []Choice `json:"opponents"`
	Usual     World    `json:"usual"`
	Stories   []Story  `json:"stories"`
}

// Files are what the page offers for download.
type Files struct {
	Scenario string `json:"scenario"`
	Policy   string `json:"policy"`
}

// Side is a world under one policy. Times are seconds, each bin is one second.
type Side struct {
	Name     string    `json:"name"`
	Hash     string    `json:"hash"` // of all events of the run
	Events   uint64    `json:"events"`
	From     float64   `json:"from"` // of the trouble; both are the end if nothing goes wrong
	To       float64   `json:"to"`
	Capacity []float64 `json:"capacity"` // of the dependency; -1 means unbounded

	Requests []float64 `json:"requests"` // at the dependency
	Offered  []float64 `json:"offered"`
	Answers  []float64 `json:"answers"` // in time
	P50      []float64 `json:"p50"`
	P99      []float64 `json:"p99"`

	Totals Totals `json:"totals"`
}

// Totals are of the whole run but its warm-up. What is unknown, or infinite, is null.
type Totals struct {
	Answered scenario.Number `json:"answered"` // share of calls, in time
	During   scenario.Number `json:"during"`   // the same while something is wrong
	After    scenario.Number `json:"after"`    // and afterwards
	Load     scenario.Number `json:"load"`     // requests at the dependency for each that is needed
	Peak     float64         `json:"peak"`     // most requests in a second
	Received scenario.Number `json:"received"` // requests that reached the dependency
	Wasted   scenario.Number `json:"wasted"`   // share of work for callers who had gone
	P99      scenario.Number `json:"p99"`
	Recovery scenario.Number `json:"recovery"`
	Stuck    bool            `json:"stuck"` // still down at the end
}

// most is how long a question may be: a file is in it.
const most = 1 << 20

// Answer answers a question. What went wrong is in the key problem of the answer.
func Answer(ctx context.Context, question []byte) []byte {
	answer, err := answer(ctx, question)
	if err != nil {
		answer = map[string]string{"problem": err.Error()}
	}
	text, err := json.Marshal(answer)
	if err != nil { // a number that JSON does not have
		text, _ = json.Marshal(map[string]string{"problem": err.Error()})
	}
	return text
}

func answer(ctx context.Context, question []byte) (any, error) {
	if len(question) > most {
		return nil, fmt.Errorf("the question has %d bytes, and may have %d", len(question), most)
	}
	w := usual()
	q := Question{World: &w}
	in := json.NewDecoder(strings.NewReader(string(question)))
	in.DisallowUnknownFields()
	if err := in.Decode(&q); err != nil {
		return nil, fmt.Errorf("the question can't be read: %w", err)
	}
	if q.World == nil {
		q.World = &w
	}
	switch err := q.World.check(); {
	case err != nil:
		return nil, err
	case q.File != nil:
		return q.World.theirs(ctx, q.File, q.Side)
	case q.Side != "":
		return q.World.run(ctx, q.Side)
	case q.Files:
		return Files{q.World.scenario(), q.World.policy()}, nil
	}
	return about(), nil
}

func about() About {
	a := About{Knobs: knobs, Troubles: troubles, Usual: usual(), Stories: Stories()}
	for _, o := range opponent.All() {
		if o.Name != "plain" && o.Name != "naive" {
			a.Opponents = append(a.Opponents, Choice{o.Name, o.Title})
		}
	}
	return a
}

// run runs the world once under one policy.
func (w *World) run(ctx context.Context, side string) (*Side, error) {
	by := scenario.Policies{}
	if side != "gabion" {
		found, err := opponent.Find(side)
		if err != nil {
			return nil, err
		}
		by = scenario.Policies{Name: found.Name, Change: func(p policy.Policy) policy.Policy { return widened(found.Change(p)) }}
	}
	return w.by(ctx, side, by)
}

func (w *World) by(ctx context.Context, side string, by scenario.Policies) (*Side, error) {
	f, err := scenario.Parse("playground", []byte(w.scenario()))
	if err != nil {
		return nil, err
	}
	study, err := f.Run(ctx, scenario.Options{Policies: by, Alone: true, Replications: 1, Workers: 1})
	if err != nil {
		return nil, err
	}
	return reduce(side, study), nil
}

// widened is an opponent's policy for any timeout of an attempt. A window shorter than two
// attempts would be a mistake, and so would a time beside a window of calls.
func widened(p policy.Policy) policy.Policy {
	switch b := &p.Breaker; {
	case b.WindowCalls > 0:
		b.Window = 0
	case b.Window > 0:
		b.Window = max(b.Window, 2*p.Timeout.Attempt)
	}
	return p
}

// reduce keeps of a study what the page draws.
func reduce(name string, study *scenario.Study) *Side {
	s := &study.Sides[0]
	last := &s.Series.Services[len(s.Series.Services)-1]
	for i := range s.Series.Services {
		if s.Series.Services[i].Name == service {
			last = &s.Series.Services[i]
		}
	}
	made := &Side{
		Name: name, Hash: s.Runs[0].Hash, Events: s.Runs[0].Events, From: study.During[0], To: study.During[1],
		Capacity: last.Capacity, Requests: last.Attempts.Mid, Offered: s.Series.Offered.Mid,
		Answers: s.Series.Goodput.Mid, P50: s.Series.P50.Mid, P99: s.Series.P99.Mid,
	}
	made.Totals = Totals{
		Answered: of(s.Metrics, "goodput", ""), Load: of(s.Metrics, "amplification", service),
		Received: of(s.Metrics, "received", service), Wasted: of(s.Metrics, "wasted", service),
		P99: of(s.Metrics, "p99", ""), Recovery: of(s.Metrics, "recovery", ""), Stuck: s.Runs[0].Stuck,
		During: scenario.Number(math.NaN()), After: scenario.Number(math.NaN()),
	}
	for _, v := range made.Requests {
		made.Totals.Peak = max(made.Totals.Peak, v)
	}
	for i := range s.Phases {
		switch s.Phases[i].Name {
		case "during":
			made.Totals.During = of(s.Phases[i].Metrics, "goodput", "")
		case "after":
			made.Totals.After = of(s.Phases[i].Metrics, "goodput", "")
		}
	}
	return made
}

// of is the value of a metric in the one run.
func of(all []scenario.Metric, key, service string) scenario.Number {
	for i := range all {
		if all[i].Key == key && all[i].Of == service && len(all[i].Values) == 1 {
			return all[i].Values[0]
		}
	}
	return scenario.Number(math.NaN())
}
