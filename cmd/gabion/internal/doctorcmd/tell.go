package doctorcmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lint"
)

// diagnosis is all that is said.
type diagnosis struct {
	Version      int       `json:"version"`
	Source       string    `json:"source"`
	File         string    `json:"file"`
	Dependencies []patient `json:"dependencies"`
	Lines        []line    `json:"findings"`
	Unknown      []unknown `json:"unknown"` // rules that could not be evaluated
	Left         []string  `json:"unchanged,omitempty"`
	Diff         string    `json:"diff,omitempty"`
	text, after  []byte
}

// patient is what was measured of one dependency, in a sentence.
type patient struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Kept string `json:"kept,omitempty"` // why nothing is shortened
}

type unknown struct {
	Rule       string `json:"rule"`
	Dependency string `json:"dependency"`
	Missing    string `json:"missing"`
	Why        string `json:"why"`
}

// diagnose compares a file's text with what was measured.
func diagnose(name string, text []byte, all map[string]*vitals) *diagnosis {
	d := &diagnosis{Version: 1, File: name, text: text, Lines: []line{}, Unknown: []unknown{}}
	file, broken := config.Read(name, text)
	measured := map[string]config.Facts{}
	for _, n := range names(all) {
		d.Dependencies = append(d.Dependencies, patient{Name: n, Text: all[n].sentence()})
		if _, has := file.Policies[n]; !has {
			d.Unknown = append(d.Unknown, unknown{"", n, "dependencies." + n, name + " does not have it"})
			continue
		}
		measured[n] = all[n].facts()
	}
	report := lint.Run([]*config.File{file}, lint.Options{Broken: []config.Findings{broken}, Measured: measured})
	for _, n := range names(all) {
		if _, has := file.Policies[n]; has {
			d.Lines = append(d.Lines, judge(all[n], file)...)
		}
	}
	d.lint(report, measured)
	d.keep(name, all)
	d.propose(name)
	return d
}

// missing are the dependencies that were measured and that the file does not have.
func (d *diagnosis) missing() (names []string) {
	for _, u := range d.Unknown {
		if u.Missing == "dependencies."+u.Dependency {
			names = append(names, u.Dependency)
		}
	}
	return names
}

// lint adds what the linter finds with the measured facts.
func (d *diagnosis) lint(report lint.Report, measured map[string]config.Facts) {
	for _, f := range report.Findings {
		_, ours := measured[f.Dependency]
		said := slices.ContainsFunc(d.Lines, func(l line) bool { return l.Dependency == f.Dependency && l.Rule == f.Rule.ID })
		if f.Rule.ID == "G000" || ours && !said && slices.ContainsFunc(f.Rule.Needs, measured[f.Dependency].Has) {
			d.Lines = append(d.Lines, line{f.Dependency, f.Rule.ID, f.Rule.Page(), f.Severity, strings.TrimPrefix(f.Reason, f.Dependency+": "), f.Proposal, f.Fix})
		}
	}
	for _, u := range report.Unknown {
		if _, ours := measured[u.Dependency]; ours {
			d.Unknown = append(d.Unknown, unknown{u.Rule.ID, u.Dependency, u.Missing, u.Why})
		}
	}
	slices.SortStableFunc(d.Lines, func(a, b line) int { return strings.Compare(a.Dependency, b.Dependency) })
}

// propose makes the changes, one at a time: what can't be made by itself is left.
func (d *diagnosis) propose(name string) {
	d.after = d.text
	for _, l := range d.Lines {
		next, err := config.Edit(name, d.after, l.Changes)
		if err != nil {
			d.Left = append(d.Left, err.Error())
			continue
		}
		d.after = next
	}
	d.Diff = string(diff.Diff(name, d.text, name+" (proposed)", d.after))
}

// sentence says what was measured.
func (v *vitals) sentence() string {
	parts := []string{number(v.calls) + " calls"}
	if v.span > 0 {
		parts[0] += " in " + text(v.span)
	}
	if v.calls > 0 {
		parts = append(parts, percent(v.succeeded/v.calls)+" succeeded", fmt.Sprintf("%.2f attempts a call", v.attempts/v.calls))
	}
	for _, p := range []struct {
		name string
		took string
		has  bool
	}{{"p50", text(v.latency.P50), v.latency.P50 > 0}, {"p99", text(v.latency.P99), v.latency.P99 > 0}, {"p99.9", text(v.latency.P999), v.latency.P999 > 0}} {
		if p.has {
			parts = append(parts, p.name+" "+p.took)
		}
	}
	if v.latency.P999 == 0 {
		parts = append(parts, fmt.Sprintf("p99.9 unknown with %d samples", v.latency.Samples))
	}
	return strings.Join(parts, ", ")
}

// tell writes the diagnosis, and the file if that is wanted.
func (r *request) tell(d *diagnosis) int {
	d.Source = r.source
	if r.json {
		out := json.NewEncoder(r.stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if err := out.Encode(d); err != nil {
			return r.failed(err)
		}
	} else {
		r.print(d)
	}
	if r.write && d.Diff != "" {
		if err := overwrite(r.file, d.after); err != nil {
			return r.failed(err)
		}
		fmt.Fprintf(r.stderr, "%s was written\n", r.file)
	}
	if slices.ContainsFunc(d.Lines, func(l line) bool { return l.Severity >= lint.Warning }) {
		return exitFindings
	}
	return exitOK
}

func (r *request) print(d *diagnosis) {
	for _, p := range d.Dependencies {
		fmt.Fprintf(r.stdout, "%s: %s\n", p.Name, p.Text)
		if p.Kept != "" {
			fmt.Fprintf(r.stdout, "  nothing is shortened: %s\n", p.Kept)
		}
		for _, l := range d.Lines {
			if l.Dependency != p.Name {
				continue
			}
			fmt.Fprintf(r.stdout, "  %s %s: %s\n", l.Severity, l.Rule, l.Text)
			if l.Proposal != "" {
				fmt.Fprintf(r.stdout, "    %s\n", l.Proposal)
			}
			fmt.Fprintf(r.stdout, "    %s\n", l.Page)
		}
	}
	for _, l := range d.Lines {
		if l.Dependency == "" {
			fmt.Fprintf(r.stdout, "%s %s: %s\n", l.Severity, l.Rule, l.Text)
		}
	}
	r.printUnknown(d)
	for _, why := range d.Left {
		fmt.Fprintf(r.stdout, "\nnot changed: %s\n", why)
	}
	if d.Diff != "" {
		fmt.Fprintf(r.stdout, "\n%s", d.Diff)
	}
	switch gone := d.missing(); {
	case len(d.Lines) == 0 && len(gone) == 0:
		fmt.Fprintln(r.stdout, "\nThe policies agree with what was measured.")
	case len(d.Lines) == 0:
		fmt.Fprintf(r.stdout, "\nThe policies that were examined agree with what was measured; %s was not examined.\n", strings.Join(gone, ", "))
	}
}

// printUnknown says in a line for each fact what could not be evaluated without it.
func (r *request) printUnknown(d *diagnosis) {
	rules, order := map[string][]string{}, []string{}
	for _, u := range d.Unknown {
		if u.Rule == "" {
			fmt.Fprintf(r.stdout, "%s: not examined: %s\n", u.Dependency, u.Why)
			continue
		}
		if rules[u.Missing] == nil {
			order = append(order, u.Missing)
		}
		if !slices.Contains(rules[u.Missing], u.Rule) {
			rules[u.Missing] = append(rules[u.Missing], u.Rule)
		}
	}
	for _, missing := range order {
		fmt.Fprintf(r.stdout, "not evaluated without %s: %s\n", missing, strings.Join(rules[missing], ", "))
	}
}

// overwrite puts a file in another's place, whole or not at all.
func overwrite(name string, text []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".gabion-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then if all went well
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
