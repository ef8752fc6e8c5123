package lintcmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/wholefile"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// change is what one finding's fix changed in a file, or why it was left.
type change struct {
	finding lint.Finding
	why     string // it was left; empty means that it was made
}

// fixer applies fixes, one finding after the other.
type fixer struct {
	look  func([]input) outcome   // with all rules
	shows func(lint.Finding) bool // whether a finding is one that was asked for

	before []input // as they were read
	in     []input // with the changes
	done   []change
	tried  map[string]bool
}

// fix applies every fix that is safe to what was read, and notes what became of each.
func (r *request) fix(in []input) *fixer {
	all := *r
	all.ids, all.least, all.doctor = nil, lint.Note, false
	f := &fixer{look: all.look, shows: r.shows, before: in}
	f.run()
	return f
}

// shows reports whether a finding is among those that were asked for.
func (r *request) shows(f lint.Finding) bool {
	return f.Severity >= r.least && (len(r.ids) == 0 || slices.Contains(r.ids, f.Rule.ID)) && (!r.doctor || r.source.Knows(f))
}

func (f *fixer) run() {
	f.in, f.tried = slices.Clone(f.before), map[string]bool{}
	out := f.look(f.in)
	for {
		next := slices.IndexFunc(out.Findings, func(found lint.Finding) bool {
			return len(found.Fix) > 0 && f.shows(found) && !f.tried[key(found)]
		})
		if next < 0 {
			return
		}
		out = f.apply(out, out.Findings[next])
	}
}

// key is what stays of a finding when the numbers of a file change.
func key(f lint.Finding) string {
	return strings.Join([]string{f.Rule.ID, f.File, f.Dependency, f.Path}, "\x00")
}

// apply makes one change if it is safe: the finding goes away, and none as bad comes. It
// returns what is found then.
func (f *fixer) apply(before outcome, found lint.Finding) outcome {
	f.tried[key(found)] = true
	at := slices.IndexFunc(f.in, func(in input) bool { return in.name == found.File })
	if at < 0 {
		return before
	}
	was := f.in[at].text
	text, err := policyfile.Edit(found.File, was, found.Fix)
	if err != nil {
		f.done = append(f.done, change{found, reasonOf(err)})
		return before
	}
	f.in[at].text = text
	after := f.look(f.in)
	why := worse(before, after, found)
	f.done = append(f.done, change{found, why})
	if why != "" {
		f.in[at].text = was
		return before
	}
	return after
}

// reasonOf is an error in one line.
func reasonOf(err error) string {
	if f, is := errors.AsType[config.Finding](err); is {
		return f.Reason
	}
	if cause := errors.Unwrap(err); cause != nil { // what is around it names the change again
		err = cause
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// worse says why a change is not safe, or nothing. In place of what is worse a note may come.
func worse(before, after outcome, found lint.Finding) string {
	had := map[string]lint.Severity{}
	for _, f := range before.Findings {
		had[key(f)] = max(had[key(f)], f.Severity)
	}
	unknown := map[string]bool{}
	for _, u := range before.Unknown {
		unknown[u.Rule.ID+"\x00"+u.File+"\x00"+u.Dependency] = true
	}
	for _, f := range after.Findings {
		how, ok := had[key(f)]
		milder := f.Severity == lint.Note && found.Severity > lint.Note
		switch {
		case key(f) == key(found) && !milder && (after.source == nil || !after.source.Said(f) || len(f.Fix) > 0): // what was measured stays so
			return "it would not be gone"
		case !ok && !milder:
			return fmt.Sprintf("it would lead to %s: %s", f.Rule.ID, f.Reason)
		case ok && f.Severity > how:
			return fmt.Sprintf("%s would become worse: %s", f.Rule.ID, f.Reason)
		}
	}
	for _, u := range after.Unknown {
		// A rule that begins to apply may lack a fact: that is no harm that the change did.
		if !strings.HasPrefix(u.Missing, "facts.") && !unknown[u.Rule.ID+"\x00"+u.File+"\x00"+u.Dependency] {
			return u.Rule.ID + " could not be evaluated any more: " + u.Missing
		}
	}
	return ""
}

// diff is what the fixes change, as a patch.
func (f *fixer) diff() string {
	var b bytes.Buffer
	for i, in := range f.in {
		if patch := diff.Diff(in.name, f.before[i].text, in.name, in.text); len(patch) > 0 {
			_, rest, _ := bytes.Cut(patch, []byte("\n")) // its first line is "diff name name"
			b.Write(rest)
		}
	}
	return b.String()
}

// told says what was changed, and what was left and why.
func (f *fixer) told(verb string) string {
	var b strings.Builder
	for _, c := range f.done {
		var texts []string
		for _, one := range c.finding.Fix {
			texts = append(texts, one.Dependency+": "+one.Path+": "+one.Value)
		}
		line := fmt.Sprintf("%s: %s: %s for %s", c.finding.File, verb, strings.Join(texts, ", "), c.finding.Rule.ID)
		if c.why != "" {
			line = fmt.Sprintf("%s: left: %s for %s: %s", c.finding.File, strings.Join(texts, ", "), c.finding.Rule.ID, c.why)
		}
		b.WriteString(fold.Lines(line + "\n"))
	}
	return b.String()
}

// write writes the files that were changed: all of them, or none if one can't be.
func (f *fixer) write() error {
	var made []string // files beside those that they will replace
	defer func() {
		for _, name := range made {
			_ = os.Remove(name) // those that were renamed are not there
		}
	}()
	var targets []string
	for i, in := range f.in {
		if bytes.Equal(in.text, f.before[i].text) {
			continue
		}
		target, name, err := beside(in, f.before[i].text)
		if err != nil {
			return err
		}
		targets, made = append(targets, target), append(made, name)
	}
	for i, target := range targets {
		if err := os.Rename(made[i], target); err != nil {
			return err
		}
	}
	return nil
}

// beside writes the new text of a file into another file in its folder, with its mode. A
// link stays one: what it leads to is the target.
func beside(in input, before []byte) (target, name string, err error) {
	if target, err = filepath.EvalSymlinks(in.path); err != nil {
		return "", "", err
	}
	now, info, err := readFile(target)
	switch {
	case err != nil:
		return "", "", err
	case !bytes.Equal(now, before):
		return "", "", fmt.Errorf("another program changed %s since it was read, so nothing is written", in.path)
	}
	name, err = wholefile.Beside(target, in.text, info.Mode())
	return target, name, err
}
