// Package lab shows an outage before production does.
//
// A [Scenario] is a world in a file: clients, services, load, and what fails when. It runs
// many times in virtual time, with production's policy file and production's code. The
// result is a [Report]: numbers with intervals, assertions with verdicts, and charts.
//
//	s, err := lab.Load("error-storm")
//	report, err := s.Run(ctx, lab.Options{Config: file, As: map[string]string{"db": "payments"}})
//	report.Terminal(os.Stdout, 80, false)
//
// The same scenario, policies and seed give the same report, byte by byte, on every
// machine and on any number of cores.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/report"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Findings are all mistakes of a scenario's file, in the order of their places, each
// with its line and a caret. It is the type of the error of a file with mistakes.
type Findings = scenario.Findings

// Scenario is a world in a file. It is not changed once it is made, and safe for
// concurrent use.
type Scenario struct{ file *scenario.File }

// Names returns the names of the scenarios that come with gabion, in alphabetical
// order.
func Names() []string { return scenario.Names() }

// maxFile is the size of the largest file that is read; [Parse] refuses less.
const maxFile = 2 << 20

// Load reads the file at a path, or the scenario of that name that comes with gabion.
// What looks like a path is one: with a slash or with an ending; what begins with
// family: is the name of a generated scenario. Files that a scenario takes latencies or
// calls from are read too; their names count from its own folder. The error is of type [Findings] when the
// file has mistakes.
func Load(name string) (*Scenario, error) {
	if strings.HasPrefix(name, family.Prefix) {
		text, err := family.Text(name)
		if err != nil {
			return nil, err
		}
		return Parse(name, text)
	}
	if !strings.ContainsAny(name, `/\.`) {
		text, err := scenario.Text(name)
		if err != nil {
			return nil, err
		}
		return Parse(name, text)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err // it names the file
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	return made(scenario.ParseIn(filepath.Dir(name), name, text))
}

// Parse reads the text of a scenario; name is for messages. It reads no file, so what the
// text takes from one is a mistake: see [Load]. The error is of type [Findings].
func Parse(name string, text []byte) (*Scenario, error) { return made(scenario.Parse(name, text)) }

// Read reads of a scenario's text what can be read, for tools that say what its policies
// will do: the policies, who calls whom by them, and all mistakes. Files that the text takes
// something from are looked for in the folder; if that is empty, naming one is a mistake.
// The policies are never nil.
func Read(folder, name string, text []byte) (policies *config.File, calls lint.Graph, mistakes Findings) {
	return scenario.Read(folder, name, text)
}

func made(f *scenario.File, err error) (*Scenario, error) {
	if err != nil {
		return nil, err
	}
	return &Scenario{f}, nil
}

// Schema returns the JSON Schema (draft 2020-12) of a scenario's file, for editors.
// What it accepts may still be refused by [Parse], which knows what fits together.
func Schema() []byte { return scenario.Schema() }

// Name returns the name that it was loaded by.
func (s *Scenario) Name() string { return s.file.Name }

// Title returns what happens, in one line.
func (s *Scenario) Title() string { return s.file.Title }

// Story returns what happens, and what to look at.
func (s *Scenario) Story() string { return s.file.Story }

// Text returns the file.
func (s *Scenario) Text() string { return s.file.Text }

// Fleets returns the names of the fleets, in the order of the file.
func (s *Scenario) Fleets() []string { return s.file.Fleets() }

// Policies returns the names of the policies by which something in the scenario goes, in
// the order of the file: what Options.As gives other names to.
func (s *Scenario) Policies() []string { return s.file.PolicyNames() }

// The rivals that need no library; the others are among [Opponents].
const (
	None  = "none"  // callers that only call, within the call's timeout
	Plain = "plain" // callers that only call, within the call's and the attempt's timeout
	Naive = "naive" // callers that try three times at once
)

// Options say how a scenario is run. The zero Options run it as its file says.
type Options struct {
	// Config replaces the scenario's policies, by the name of the dependency. Nil
	// means that none is replaced.
	Config *config.File

	// As names the dependencies of Config, and of Against unless AgainstAs does, for
	// policies of the scenario: db: payments makes db be called by the policy of
	// payments. The name * stands for all policies of the scenario, each with its own
	// timeouts, key and safety; then there is no other name on that side.
	As map[string]string

	// Against is the other side of a comparison. Nil means Rival, or Config if AgainstAs
	// names something.
	Against *config.File

	// AgainstAs names the dependencies of Against for policies of the scenario, in place
	// of As: two dependencies of one file are compared by it. Nil means As.
	AgainstAs map[string]string

	// Theirs are another system's policies in place of Config, and AgainstTheirs in place of
	// Against. As and AgainstAs name their routes for policies of the scenario. Nil means none.
	Theirs, AgainstTheirs *Foreign

	// Rival is the name of one of Opponents. Empty means what the scenario says, if
	// Against is nil too.
	Rival string

	// Alone runs one side, whatever the scenario says.
	Alone bool

	// Seed is what all randomness comes from. Zero means the scenario's.
	Seed uint64

	// Replications is how often it is run. Zero means as often as the scenario says.
	Replications int

	// Workers is how many runs there are at once. Zero means GOMAXPROCS. It changes
	// nothing but the time that it takes.
	Workers int

	// Map looks also where runs stay down, over load and trigger.
	Map bool

	// Watch names a fleet of which one client's calls are written down, decision by
	// decision. Empty means none.
	Watch string

	// Client is the number of the client that is watched.
	Client int

	// Record says what of the first replication is recorded, event by event. Nil means
	// nothing.
	Record *Recording

	// Command is what reproduces the report. Empty means a command that names the
	// scenario, the seed and the replications.
	Command string

	// Progress receives how many runs of how many are done, from one goroutine at a time. Nil means
	// no reports.
	Progress func(done, all int)
}

// Run runs the scenario until all replications are done, or until ctx is. The error
// says that a policy is missing or not possible, or it is ctx's.
func (s *Scenario) Run(ctx context.Context, o Options) (*Report, error) {
	options, err := o.options()
	if err != nil {
		return nil, err
	}
	study, err := s.file.Run(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &Report{study}, nil
}

func (o *Options) options() (made scenario.Options, err error) {
	made = scenario.Options{
		Alone: o.Alone, Seed: o.Seed, Replications: o.Replications, Workers: o.Workers, Map: o.Map,
		Watch: o.Watch, WatchClient: o.Client, Command: o.Command, Progress: o.Progress,
	}
	if o.Record != nil {
		if o.Record.Open == nil {
			return made, errors.New("lab: nothing says where the recording goes: Recording.Open is nil")
		}
		made.Record = (*scenario.Recording)(o.Record)
	}
	if made.Policies, err = o.first(); err != nil {
		return made, err
	}
	if !o.Alone {
		made.Against, err = o.other(&made.Policies)
	} else if len(o.AgainstAs) > 0 {
		err = errNoAgainst
	}
	return made, err
}

// Report is what the runs of a scenario came to. It is not changed once it is made,
// and safe for concurrent use.
type Report struct{ study *scenario.Study }

// Interval is an estimate and where the truth lies with 95 % confidence. What is not
// bounded is infinite.
type Interval struct{ Value, Low, High float64 }

// Assertion is a line of the scenario, and what the runs say of it.
type Assertion struct {
	Text     string   // as the file says it
	Measured Interval // in seconds, as a share of one, or as a number
	Verdict  string   // yes, no, or unresolved when more replications would tell
}

// Assertions returns the scenario's assertions, about the first side.
func (r *Report) Assertions() []Assertion {
	all := make([]Assertion, 0, len(r.study.Sides[0].Asserts))
	for _, v := range r.study.Sides[0].Asserts {
		all = append(all, Assertion{v.Text, Interval(v.Measured.Interval), string(v.Holds)})
	}
	return all
}

// Failed reports whether an assertion does not hold. One that is unresolved has not
// failed, unless every run breaks it, however few they are.
func (r *Report) Failed() bool {
	for _, v := range r.study.Sides[0].Asserts {
		if v.Holds == scenario.No {
			return true
		}
	}
	return len(r.study.Sides[0].Broken) > 0
}

// ErrNoMetric is the error of a metric that a scenario does not have.
var ErrNoMetric = errors.New("lab: no such metric")

// Metric returns a metric by the names that assertions use: its key; the service or
// fleet that it is of, empty for all; and the phase, before, during or after, empty
// for the whole run. Side 0 is the scenario's or Config's, side 1 the other, side 2
// the plain client where it is neither of them. Values are those of the runs, in the order of their seeds; unknown ones are NaN.
func (r *Report) Metric(side int, key, of, phase string) (mean Interval, values []float64, err error) {
	if side < 0 || side >= len(r.study.Sides) {
		return Interval{}, nil, fmt.Errorf("%w: there is no side %d", ErrNoMetric, side)
	}
	metrics := r.study.Sides[side].Metrics
	if phase != "" {
		metrics = nil
		for _, p := range r.study.Sides[side].Phases {
			if p.Name == phase {
				metrics = p.Metrics
			}
		}
	}
	for _, m := range metrics {
		if m.Key != key || m.Of != of {
			continue
		}
		for _, v := range m.Values {
			values = append(values, float64(v))
		}
		return Interval(m.Mean.Interval), values, nil
	}
	return Interval{}, nil, fmt.Errorf("%w: %s of %q in phase %q", ErrNoMetric, key, of, phase)
}

// Sides returns the names of the sides, in the order of their numbers.
func (r *Report) Sides() []string {
	names := make([]string, len(r.study.Sides))
	for i := range names {
		names[i] = r.study.Sides[i].Name
	}
	return names
}

// Judgement says which of two sides wins. It is not changed once it is made.
type Judgement struct {
	A, B     int     // the sides, by their numbers: B is judged against A
	Winner   string  // the name of one; empty when neither wins
	Points   float64 // what B wins by, less what it loses by: one is a call of a hundred that is answered in time
	Sentence string  // who wins, for whom, at what price
}

// Judgements returns who wins of each two sides: the second side against the first,
// then both against the plain client. Of one side there are none.
func (r *Report) Judgements() []Judgement {
	all := make([]Judgement, 0, len(r.study.Judgements))
	for i := range r.study.Judgements {
		j := &r.study.Judgements[i]
		all = append(all, Judgement{j.A, j.B, j.Winner, j.Points, j.Sentence})
	}
	return all
}

// Stuck returns the probability that a run stays down after the trouble is over.
func (r *Report) Stuck(side int) Interval {
	if side < 0 || side >= len(r.study.Sides) {
		return Interval{}
	}
	return Interval(r.study.Sides[side].Stuck.Interval)
}

// Command returns the command that reproduces the report.
func (r *Report) Command() string { return r.study.Command }

// Seed returns the seed that all draws came from.
func (r *Report) Seed() uint64 { return r.study.Seed }

// Replications returns how many runs each side had.
func (r *Report) Replications() int { return r.study.Replications }

// Line is one decision about a call of the client that was watched.
type Line struct {
	Seconds float64 // since the beginning of the run
	Call    uint64  // 1 is the client's first
	Edge    string  // who calls whom
	Text    string  // the decision
	Knows   string  // what was known afterwards: breaker and budget; may be empty
}

// Timeline returns the decisions about the client that was watched, in their order.
func (r *Report) Timeline() []Line {
	lines := make([]Line, 0, len(r.study.Timeline))
	for _, l := range r.study.Timeline {
		lines = append(lines, Line{l.At, l.Call, l.Of, l.Text, l.Knows})
	}
	return lines
}

// Trouble returns when the first fault or spike begins and the last one ends, in
// seconds; without a fault or spike, both are the end of the run.
func (r *Report) Trouble() (from, to float64) { return r.study.During[0], r.study.During[1] }

// WriteJSON writes the report as JSON. Its key version says which keys there are.
func (r *Report) WriteJSON(w io.Writer) error {
	return writeJSON(w, r.study)
}

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(v)
}

// Terminal writes the report as one screen of text, in colours if color is set.
// Width is that of the terminal; less than 1 means 80.
func (r *Report) Terminal(w io.Writer, width int, color bool) error {
	if width < 1 {
		width = 80
	}
	return report.Terminal(w, r.study, report.Options{Width: width, Color: color})
}

// HTML writes the report as one page that asks nothing of a network. Its only script zooms the
// pictures; without it they show the whole run.
func (r *Report) HTML(w io.Writer) error { return report.HTML(w, r.study) }
