package replaycmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

// side is a policy that the same happens to.
type side struct {
	name    string
	options lab.Options

	good, during float64 // shares of calls that were answered in time
	sent         float64 // attempts, for each call
	p99          time.Duration
	recovery     float64 // seconds; infinite if never
}

// facts are the settings that say what the dependency and its callers are.
var facts = []string{"trust", "key", "safe", "http", "grpc", "partitions", "timeout.call"}

// sides are today's policy, the defaults, the presets, and what the command line names.
func (w *world) sides(against []string) ([]side, error) {
	all := []side{{name: "today", options: lab.Options{Alone: true}}}
	add := func(name, text string) error {
		f, err := parse(name, text)
		if err == nil {
			all = append(all, side{name: name, options: lab.Options{Config: f, Alone: true}})
		}
		return err
	}
	var same []policyfile.Change
	call := policy.FormatDuration(w.file.Policies[w.name].Resolved().Timeout.Call)
	for _, s := range w.file.Explain(w.name) {
		for _, fact := range facts {
			if s.Source != "default" && (s.Path == fact || strings.HasPrefix(s.Path, fact+".")) && s.Path != "timeout.call" {
				same = append(same, past.Change(s))
			}
		}
	}
	if w.file.Policies[w.name].Resolved().Timeout.Call > 0 {
		same = append(same, policyfile.Change{Path: "timeout.call", Value: call})
	}
	if err := add("defaults", section(w.name, same)); err != nil {
		return nil, err
	}
	for _, preset := range policy.PresetNames() {
		changes := append([]policyfile.Change{{Path: "preset", Value: preset}}, same...)
		if f, err := parse(preset, section(w.name, changes)); err == nil { // some have other facts
			all = append(all, side{name: "preset " + preset, options: lab.Options{Config: f, Alone: true}})
		}
	}
	all = append(all, side{name: lab.Plain, options: lab.Options{Rival: lab.Plain}})
	for _, name := range against {
		s, err := w.against(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// against is a side that the command line names.
func (w *world) against(name string) (side, error) {
	if !strings.ContainsAny(name, `/\.`) {
		if _, err := os.Stat(name); err != nil {
			return side{name: name, options: lab.Options{Rival: name}}, nil //nolint:nilerr // no file of that name: it is a rival's
		}
	}
	f, err := config.Load(name)
	if err != nil {
		return side{}, err
	}
	of := cmp.Or(w.p.Policed, w.p.Dependency)
	if _, ok := f.Policies[of]; !ok {
		if len(f.Policies) != 1 {
			return side{}, fmt.Errorf("%s has no policy of %s: it has %s", name, of, strings.Join(f.Names(), ", "))
		}
		of = f.Names()[0]
	}
	return side{name: name, options: lab.Options{Config: f, Alone: true, As: map[string]string{w.name: of}}}, nil
}

// run runs the scenario with a side's policy.
func (s *side) run(ctx context.Context, of *lab.Scenario) error {
	r, err := of.Run(ctx, s.options)
	if err != nil {
		return err
	}
	k := 0
	if s.options.Rival != "" {
		k = 1
	}
	read, err := replayed(r)
	if err != nil {
		return err
	}
	number := func(key, phase string) float64 {
		mean, _, err := r.Metric(k, key, "", phase)
		if err != nil {
			return math.NaN()
		}
		return mean.Value
	}
	s.good, s.during, s.recovery = number("goodput", ""), number("goodput", "during"), number("recovery", "")
	s.p99 = seconds(number("p99", ""))
	for _, x := range read.Sides[k].Series.Attempts.Mid {
		s.sent += x
	}
	return nil
}

// table writes the sides below each other. Attempts are those of the first side's as one.
func table(w io.Writer, all []side) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\tin time\tin trouble\tload\tp99\trecovery\t")
	more := false
	for i := range all {
		s := &all[i]
		load, mark := s.sent/all[0].sent, ""
		if load > 1.1 {
			mark, more = "*", true
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f%s\t%s\t%s\t\n", s.name, share(s.good), share(s.during), load, mark, latency(s.p99, s.p99 > 0), after(s.recovery))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nload: attempts, to those of today's policy.")
	if more {
		fmt.Fprintln(w, "*     more than a tenth above: if that load would have made it slower, as it does\n      where capacity is short, the row is too good.")
	}
	return nil
}

func share(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

func after(s float64) string {
	switch {
	case math.IsNaN(s):
		return "-"
	case math.IsInf(s, 1):
		return "never"
	}
	return seconds(s).Round(time.Second).String()
}
