// Package measured reads what was measured of dependencies, from a recording, from metrics or
// from a live page, and says what a policy file and the measurement do not agree on.
package measured

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fetch"
	"github.com/gabion-go/gabion/cmd/gabion/internal/recorded"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/recording"
)

// A Source is what was measured. The same attempts and calls give the same findings, whichever
// kind of source tells them.
type Source struct {
	Name string
	Cut  error // why it was read only so far; what stands before it is used

	all map[string]*vitals
}

// Dependency is what was measured of one, for people.
type Dependency struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Kept string `json:"kept,omitempty"` // why nothing is shortened
}

const whatToName = "name a page of package dashboard, whose address ends in a slash, or the address of metrics"

// Read reads a source: a recording, the text of metrics, or the address of metrics or of a
// live page. If only is not empty, no other dependency is looked at.
func Read(ctx context.Context, name, only string) (*Source, error) {
	all, err := measure(ctx, name)
	if len(all) == 0 {
		return nil, err
	}
	s := &Source{name, err, all}
	if only != "" {
		v := all[only]
		if v == nil {
			return nil, fmt.Errorf("%s says nothing of %q: it has %s", name, only, strings.Join(s.names(), ", "))
		}
		s.all = map[string]*vitals{only: v}
	}
	return s, nil
}

func measure(ctx context.Context, name string) (map[string]*vitals, error) {
	if !strings.HasPrefix(name, "http://") && !strings.HasPrefix(name, "https://") {
		return measureFile(name)
	}
	address, err := url.Parse(name)
	if err != nil {
		return nil, err
	}
	page := strings.HasSuffix(address.Path, "/") // a page's address ends in a slash
	if page {
		address = address.JoinPath("api/v1/measured")
	}
	body, err := fetch.Get(ctx, address.String(), whatToName)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if page {
		return readPage(body)
	}
	return readMetrics(body, time.Now())
}

func measureFile(name string) (map[string]*vitals, error) {
	f, err := recorded.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [1]byte
	n, _ := f.ReadAt(head[:], 0)
	if n == 1 && head[0] != '{' { // no line of a recording begins otherwise
		at := time.Now()
		if info, err := f.Stat(); err == nil {
			at = info.ModTime()
		}
		all, err := readMetrics(io.LimitReader(f, fetch.MaxBytes), at)
		if errors.Is(err, errNoSeries) && ofPolicies(f) {
			return nil, fmt.Errorf("%s has policies, and nothing that was measured: a source is %s", name, sources)
		}
		return all, err
	}
	all, events, err := readRecording(recording.Entries(f))
	if problem := recorded.Problem(name, err, events); problem != nil && events == 0 {
		return nil, problem
	}
	return all, err
}

const sources = "a recording, a text of metrics, or the address of metrics or of a live page"

// ofPolicies reports whether a file looks like one of policies.
func ofPolicies(f io.ReaderAt) bool {
	var head [4096]byte
	n, _ := f.ReadAt(head[:], 0)
	for line := range strings.Lines(string(head[:n])) {
		if strings.HasPrefix(line, "dependencies:") || strings.HasPrefix(line, "version:") {
			return true
		}
	}
	return false
}

// InForceName stands for the name of a file where the source itself says the policies.
const InForceName = "in-force.yaml"

// InForce is a file of the settings that the source says are in force.
func (s *Source) InForce() ([]byte, error) {
	var b strings.Builder
	b.WriteString("version: 1\ndependencies:\n")
	known := false
	for _, name := range s.names() {
		if s.all[name].hasPolicy {
			known = true
			fmt.Fprintf(&b, "  %q: {}\n", name)
		}
	}
	if !known {
		return nil, errors.New("the source does not say which policies are in force: name their file")
	}
	text := []byte(b.String())
	for _, name := range s.names() {
		for _, c := range s.all[name].settings {
			if next, err := policyfile.Edit(InForceName, text, []policyfile.Change{c}); err == nil { // a value such as none is no value of a file
				text = next
			}
		}
	}
	return text, nil
}

// names are the dependencies in alphabetical order.
func (s *Source) names() []string { return slices.Sorted(maps.Keys(s.all)) }

// Dependencies are what was measured, for people.
func (s *Source) Dependencies() (all []Dependency) {
	for _, n := range s.names() {
		v := s.all[n]
		all = append(all, Dependency{n, v.sentence(), formulas.KeepTimes(v.sample())})
	}
	return all
}

// Missing are the dependencies that no file has.
func (s *Source) Missing(files []*config.File) []string {
	return slices.DeleteFunc(s.names(), func(name string) bool {
		return slices.ContainsFunc(files, func(f *config.File) bool { _, has := f.Policies[name]; return has })
	})
}

// Facts are what the linter's rules can calculate with.
func (s *Source) Facts() map[string]facts.Facts {
	facts := map[string]facts.Facts{}
	for name, v := range s.all {
		facts[name] = v.facts()
	}
	return facts
}

// Findings are what a file and the measurement do not agree on.
func (s *Source) Findings(f *config.File) (all []lint.Finding) {
	for _, name := range f.Names() {
		if v := s.all[name]; v != nil {
			all = append(all, judged(v, f)...)
		}
	}
	return all
}

// Said reports whether a finding is of the measurement itself.
func (s *Source) Said(f lint.Finding) bool {
	return strings.HasPrefix(f.Reason, f.Dependency+": measured: ")
}

// Knows reports whether a finding is of the measurement, or of a rule that calculated with it.
func (s *Source) Knows(f lint.Finding) bool {
	v := s.all[f.Dependency]
	return v != nil && (s.Said(f) || slices.ContainsFunc(f.Rule.Needs, v.facts().Has))
}

// Settle says what becomes of a finding in the light of all that were found in a file: whether
// it stays, and without its change if that would shorten something on too little evidence. How
// long attempts take is judged by one rule: the linter's own, which knows no intervals, judges
// only by what the file says.
func (s *Source) Settle(f *lint.Finding, all []lint.Finding, file *config.File, text []byte) (stays bool) {
	v := s.all[f.Dependency]
	if v == nil || !s.Knows(*f) {
		return true
	}
	said := facts.Of(file).Facts[v.name]
	switch {
	case s.Said(*f):
	case f.Rule.ID == ruleFar && said.P999 == 0, f.Rule.ID == ruleTimeout && said.P99 == 0:
		return false
	case slices.ContainsFunc(all, func(o lint.Finding) bool {
		return o.Dependency == v.name && o.Rule.ID == f.Rule.ID && s.Said(o)
	}):
		return false
	}
	if why := formulas.KeepTimes(v.sample()); why != "" && shortens(file, text, f.Fix) {
		f.Proposal, f.Fix = "nothing is shortened: "+why, nil
	}
	return true
}
