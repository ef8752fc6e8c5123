// Package labtest asserts in a go test how a policy does in an outage.
//
//	storm := labtest.Run(t, labtest.Case{
//		Scenario: "error-storm",
//		Config:   "gabion.yaml",
//		As:       map[string]string{"db": "payments"}, // the scenario calls a db, the file has payments
//	})
//	storm.Amplification(t, 1.2)
//	storm.Recovery(t, 30*time.Second)
//
// An assertion must hold for the whole 95 % interval of the measured values. If more
// replications could decide it, it also fails, and says so. The same case gives the same
// numbers on every machine, so these tests are not flaky.
package labtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

// Case is a scenario, and the policies that are tried in it. It needs a Scenario; the
// policies are those of Config, or Policies, or neither, which leaves the scenario's.
type Case struct {
	// Scenario is the name of one that comes with gabion, or the path of a file, with
	// a slash or an ending.
	Scenario string

	// Policies replace those of the scenario, by its names of dependencies. The test
	// fails if the scenario calls nothing by one of the names. Nil means Config.
	Policies map[string]policy.Policy

	// Config is the path of a policy file, the one that production runs. Its policies
	// replace those of the scenario that have the same names. The test fails if none
	// has. Empty means none.
	Config string

	// As names dependencies of Config for policies of the scenario: {"db": "payments"}
	// makes db be called by the policy of payments.
	As map[string]string

	// Seed is what all randomness comes from. Zero means the scenario's.
	Seed uint64

	// Replications is how often the scenario is run. Zero means as often as it says.
	Replications int
}

// Result is what the runs of a case came to. It is safe for concurrent use.
type Result struct {
	name   string
	report *lab.Report
	again  string // the command that shows it outside of the test
	file   string // its policies, if they are in no file

	shown atomic.Bool // file was printed
}

// Run runs a case, and ends the test if that is not possible.
func Run(t testing.TB, c Case) *Result {
	t.Helper()
	r, err := c.run(t)
	if err != nil {
		t.Fatalf("labtest: %v", err)
	}
	return r
}

func (c *Case) run(t testing.TB) (*Result, error) {
	s, err := lab.Load(c.Scenario)
	if err != nil {
		return nil, err
	}
	file, err := c.file()
	if err != nil {
		return nil, err
	}
	report, err := s.Run(t.Context(), lab.Options{
		Config: file, As: c.As, Alone: true, Seed: c.Seed, Replications: c.Replications,
	})
	if err != nil {
		return nil, err
	}
	if err := c.used(report, file); err != nil {
		return nil, err
	}
	r := &Result{name: c.Scenario, report: report, again: c.command(report)}
	if c.Policies != nil {
		r.file = policyfile.Of(file).YAML(true)
	}
	return r, nil
}

// file returns the policies to try, or nil for the scenario's.
func (c *Case) file() (*config.File, error) {
	switch {
	case c.Policies != nil && c.Config != "":
		return nil, errors.New("the Case has Policies and a Config: only one of them can be meant")
	case c.Config != "":
		return config.Load(c.Config)
	case c.Policies != nil:
		return &config.File{Name: "Case.Policies", Policies: maps.Clone(c.Policies)}, nil
	}
	return nil, nil
}

// used returns an error if policies were given that no call of the scenario went by:
// a name that is spelt wrong must not test the scenario's own policy.
func (c *Case) used(report *lab.Report, file *config.File) error {
	if file == nil {
		return nil
	}
	all, own, err := policiesOf(report, file.Name)
	if err != nil {
		return err
	}
	for i, name := range own {
		if as, ok := c.As[name]; ok {
			own[i] = as
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		if !slices.Contains(own, name) {
			return fmt.Errorf("nothing in %s is called by the policy %q: its own are %s", c.Scenario, name, strings.Join(all, ", "))
		}
	}
	return nil
}

// policiesOf returns the names of the policies that the scenario calls by, and of
// those the ones that came from a source.
func policiesOf(report *lab.Report, source string) (all, own []string, err error) {
	var text bytes.Buffer
	if err := report.WriteJSON(&text); err != nil {
		return nil, nil, err
	}
	var study struct {
		Sides []struct {
			Policies []struct{ Name, Source string }
		}
	}
	if err := json.Unmarshal(text.Bytes(), &study); err != nil {
		return nil, nil, err
	}
	for _, p := range study.Sides[0].Policies {
		all = append(all, p.Name)
		if p.Source == source {
			own = append(own, p.Name)
		}
	}
	return all, own, nil
}

// command is what reproduces the runs outside of the test.
func (c *Case) command(report *lab.Report) string {
	words := []string{"gabion lab run", c.Scenario, "--against off"}
	switch {
	case c.Config != "":
		words = append(words, "--config", c.Config)
	case c.Policies != nil:
		words = append(words, "--config gabion.yaml")
	}
	for _, name := range slices.Sorted(maps.Keys(c.As)) {
		words = append(words, "--as", name+"="+c.As[name])
	}
	return strings.Join(append(words, fmt.Sprintf("--seed %d --replications %d", report.Seed(), report.Replications())), " ")
}
