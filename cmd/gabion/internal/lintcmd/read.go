package lintcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/checklistcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/measured"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/lab"
)

// maxSize is one byte more than a file may have: who reads it refuses it with its own words.
const maxSize = 8<<20 + 1

// stdinName is what standard input is called in findings.
const stdinName = "stdin"

// input is a file as it was read.
type input struct {
	path string // as it was named; "-" is standard input
	name string // in findings
	text []byte
	info os.FileInfo // nil for standard input
}

// read reads what is named, each file once. What can't be read is said and leaves the exit
// code of a failure; the others are looked at all the same.
func (r *request) read(ctx context.Context, words []string) (in []input, failed int, err error) {
	if len(words) == 0 {
		return nil, 0, wrong{errors.New("no file is named: gabion lint FILE")}
	}
	for i, word := range words {
		one := input{path: word, name: word}
		switch {
		case word == "-" && has(words[:i], word):
			return nil, 0, wrong{errors.New("standard input is named twice")}
		case word == "-":
			one.name = stdinName
			one.text, err = readStdin(ctx, r.stdin)
		default:
			one.text, one.info, err = readFile(word)
		}
		switch {
		case errors.Is(err, context.Canceled):
			return nil, 0, err
		case err != nil:
			fmt.Fprintln(r.stderr, r.name()+":", err)
			failed = cli.ExitFailure
		case !named(in, one):
			in = append(in, one)
		}
	}
	return in, failed, nil
}

func has(words []string, word string) bool {
	return slices.Contains(words, word)
}

// named reports whether the same file is there already, perhaps by another name.
func named(in []input, one input) bool {
	return slices.ContainsFunc(in, func(have input) bool {
		return have.info != nil && one.info != nil && os.SameFile(have.info, one.info)
	})
}

func readFile(path string) ([]byte, os.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return nil, nil, fmt.Errorf("%s is a folder: name the files in it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize))
	return text, info, err
}

// readStdin reads standard input, unless the command is interrupted first.
func readStdin(ctx context.Context, stdin io.Reader) (text []byte, err error) {
	done := make(chan struct{})
	go func() { // ends with standard input or with the program
		defer close(done)
		text, err = io.ReadAll(io.LimitReader(stdin, maxSize))
	}()
	select {
	case <-ctx.Done():
		return nil, context.Canceled
	case <-done:
		return text, err
	}
}

// outcome is what was found in files.
type outcome struct {
	inputs       []input
	files        []string
	dependencies int
	lint.Report

	source   *measured.Source // nil without --measured
	measured []measured.Dependency
	missing  []string // that were measured and are in no file
}

// scenarioKeys are keys that a scenario of the lab has, and a policy file has not.
var scenarioKeys = regexp.MustCompile(`(?m)^(clients|services):`)

// look runs the rules. Of a scenario of the lab they look at its policies, and at who calls
// whom.
func (r *request) look(in []input) outcome {
	out := outcome{inputs: in}
	var files []*config.File
	o := lint.Options{Rules: r.ids, Graphs: map[*config.File]lint.Graph{}}
	foreigners := map[string]*foreign{}
	for _, one := range in {
		f, broken := one.policies(o.Graphs, foreigners)
		files = append(files, f)
		if len(broken) > 0 {
			o.Broken = append(o.Broken, broken)
		}
		out.files = append(out.files, one.name)
		out.dependencies += len(f.Policies)
	}
	if r.source == nil {
		out.Report = lint.Run(files, o)
	} else {
		r.compare(&out, files, o)
	}
	moved(out.Findings, foreigners)
	out.Findings = keep(out.Findings, func(f lint.Finding) bool { return f.Severity >= r.least })
	out.Ignored = keep(out.Ignored, func(i lint.Ignored) bool { return i.Severity >= r.least })
	return out
}

// ask looks at files, and adds what no rule can answer and nobody has answered.
func (r *request) ask(in []input) (outcome, error) {
	all := *r
	all.ids, all.least = nil, lint.Note // questions are answered by rules that are not shown
	seen, out := all.look(in), r.look(in)
	for _, one := range in {
		if scenarioKeys.Match(one.text) || one.foreign() != nil {
			continue // its policies are for the lab, or have no answers beside them
		}
		f, _ := config.Read(one.name, one.text)
		questions, broken, err := checklistcmd.Findings(one.path, f, seen.Report, time.Now())
		if err != nil {
			return out, err
		}
		out.Findings = append(out.Findings, lint.Run(nil, lint.Options{Broken: []config.Findings{broken}}).Findings...)
		out.Findings = append(out.Findings, keep(questions, func(f lint.Finding) bool { return f.Severity >= r.least })...)
	}
	slices.SortStableFunc(out.Findings, func(a, b lint.Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(out.files, a.File), slices.Index(out.files, b.File)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return out, nil
}

// compare runs the rules over what was measured, too.
func (r *request) compare(out *outcome, files []*config.File, o lint.Options) {
	out.source, out.measured, out.missing = r.source, r.source.Dependencies(), r.source.Missing(files)
	o.Measured = r.source.Facts()
	for _, f := range files {
		o.More = append(o.More, r.source.Findings(f)...)
	}
	out.Report = lint.Run(files, o)
	all := slices.Clone(out.Findings)
	out.Findings = out.Findings[:0]
	for _, f := range all {
		at := slices.IndexFunc(files, func(file *config.File) bool { return file.Name == f.File })
		if at < 0 || r.source.Settle(&f, all, files[at], out.inputs[at].text) {
			out.Findings = append(out.Findings, f)
		}
	}
	if r.doctor {
		out.Findings = keep(out.Findings, func(f lint.Finding) bool { return f.Rule.ID == "G000" || r.source.Knows(f) })
	}
}

// policies reads the policies of a file. Of a scenario it adds who calls whom, and of another
// system's file where they stand in it.
func (one *input) policies(graphs map[*config.File]lint.Graph, foreigners map[string]*foreign) (*config.File, config.Findings) {
	if !scenarioKeys.Match(one.text) {
		if f := one.foreign(); f != nil {
			foreigners[one.name] = f
			return f.policies(one.name)
		}
		return config.Read(one.name, one.text)
	}
	folder := ""
	if one.path != "-" {
		folder = filepath.Dir(one.path)
	}
	f, g, mistakes := lab.Read(folder, one.name, one.text)
	graphs[f] = g
	var broken config.Findings
	for _, m := range mistakes {
		broken = append(broken, config.Finding(m))
	}
	return f, broken
}

func keep[T any](all []T, when func(T) bool) (kept []T) {
	for _, one := range all {
		if when(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// exit is the exit code of findings.
func (o *outcome) exit(fails lint.Severity) int {
	for _, f := range o.Findings {
		if f.Severity >= fails {
			return cli.ExitFindings
		}
	}
	return cli.ExitOK
}
