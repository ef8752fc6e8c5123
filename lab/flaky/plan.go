package flaky

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Findings are all mistakes of a file, in the order of their places, each with its line and
// a caret. It is the type of the error of a file with mistakes.
type Findings = scenario.Findings

// Plan is a service and what goes wrong with it. It is not changed once it is made, and safe
// for concurrent use.
type Plan struct {
	file    *scenario.File
	service int
}

// maxFile is the size of the largest file that is read.
const maxFile = 2 << 20

// Load reads a plan's file, or a scenario: a file, or the name of one that comes with
// gabion. What looks like a path is one: with a slash or with an ending. Of a scenario the
// first service is taken that has a fault; see [Plan.Of]. The error is of type [Findings]
// when the file has mistakes.
func Load(name string) (*Plan, error) {
	if !strings.ContainsAny(name, `/\.`) {
		f, err := scenario.Open(name)
		return made(f, err)
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, err // it names the file
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return read(filepath.Dir(name), name, text)
}

// Parse reads the text of a plan or a scenario; name is for messages. It reads no file, so
// what the text takes from one is a mistake: see [Load]. The error is of type [Findings].
func Parse(name string, text []byte) (*Plan, error) { return read("", name, text) }

func read(folder, name string, text []byte) (*Plan, error) {
	switch {
	case scenario.IsPlan(name, text):
		return made(scenario.ParsePlan(folder, name, text))
	case folder == "":
		return made(scenario.Parse(name, text))
	}
	return made(scenario.ParseIn(folder, name, text))
}

func made(f *scenario.File, err error) (*Plan, error) {
	if err != nil {
		return nil, err
	}
	p := &Plan{file: f}
	if marks := f.Marks(); len(marks) > 0 {
		p.service = max(slices.IndexFunc(f.Services(), func(name string) bool {
			return slices.ContainsFunc(marks, func(m scenario.Mark) bool { return m.Of == name })
		}), 0)
	}
	return p, nil
}

// Of returns the plan of another service of the same scenario.
func (p *Plan) Of(service string) (*Plan, error) {
	names := p.file.Services()
	i := slices.Index(names, service)
	if i < 0 {
		return nil, fmt.Errorf("%s has no service %q: there is %s", p.file.Name, service, strings.Join(names, ", "))
	}
	return &Plan{p.file, i}, nil
}

// Name returns the name that it was loaded by.
func (p *Plan) Name() string { return p.file.Name }

// Title returns what happens, in one line. It may be empty.
func (p *Plan) Title() string { return p.file.Title }

// Service returns the name of the service. That of a plan's file is service.
func (p *Plan) Service() string { return p.file.Services()[p.service] }

// Services returns the names of all services of the scenario.
func (p *Plan) Services() []string { return p.file.Services() }

// Duration is how long the plan goes on. Afterwards nothing is wrong.
func (p *Plan) Duration() time.Duration { return p.file.Duration() }

// Capacity is how many requests per second the service can serve when nothing is wrong and
// all of its workers are busy; infinite when nothing bounds them.
func (p *Plan) Capacity() float64 {
	c, err := p.file.Capacity(p.service)
	if err != nil {
		return math.Inf(1) // it can't be played either: see New
	}
	return c
}

// A Fault is one time at which something goes wrong.
type Fault struct {
	From, To time.Duration // since the plan's beginning
	Kind     string        // in the words of the file
	Text     string        // for people
}

// Faults returns what goes wrong with the service, in the order of the times; of what comes
// again, the first thousand times.
func (p *Plan) Faults() (all []Fault) {
	for _, m := range p.file.Marks() {
		if m.Of == p.Service() {
			all = append(all, Fault{seconds(float64(m.From)), seconds(float64(m.To)), m.Kind, m.Text})
		}
	}
	return all
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
