// Package lintcmd is what gabion lint does: it says before merge what a policy will do.
package lintcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/measured"
	"github.com/gabion-go/gabion/cmd/gabion/internal/theirs"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/suggest"
)

const usage = `usage: gabion lint [--format FORMAT] [--severity LEAST] [--rules IDS]
                   [--verbose] [--fix] [--diff] [--questions] FILE...
       gabion lint --measured SOURCE [--dependency NAME] [FLAGS] [FILE...]
       gabion lint --list | --explain ID

says before merge what the policies in files will do: attempts that can't all
fit, writes that may be done twice, breakers that can't open. Each finding
shows the formula with the file's own numbers, its line, what to write instead,
and a page. FILE is a gabion.yaml, a scenario of the lab, or - for standard
input; several files are looked at together.

  --format FORMAT    text, json, sarif, or github for annotations; usual is text
  --severity LEAST   note, warning or error: what is milder is neither shown nor
                     counted. Without it everything is shown, and warnings and
                     errors count
  --rules IDS        only these rules, such as G001,G010
  --verbose          name each case of a rule that could not be evaluated
  --fix              change the files where that is safe: the finding goes away,
                     none as bad comes, and the policy only becomes more careful
  --diff             show what --fix would change, and write nothing
  --questions        ask what no rule can answer, too: each question that is
                     open in the answers beside a file is a warning. gabion
                     checklist writes answers, and shows those that there are
  --measured SOURCE  compare the files with what was measured as well, and show
                     what --fix would change. SOURCE is a recording, the address
                     of metrics or a file of what it answered, or the address of
                     a live page. Without FILE the settings count that a
                     recording or a page says are in force
  --dependency NAME  with --measured: only this one
  --list             list the rules
  --explain ID       show the page of a rule, such as G010

A comment on the line of a finding, or alone above it, ignores it; at the name
of a dependency it is for the whole dependency. It has to say why:

  retry: {attempts: 8}  # gabion:ignore G010 the batch job has the whole night

Some rules need to know what no policy says, such as facts.rate. Where the file
does not say it, the rule is reported as not evaluated.

Exit codes: 0 nothing that counts was found, 1 findings, 2 called wrongly, 3 a
file can't be read, or any other failure.
`

// request is what the command line asks for.
type request struct {
	format, severity, rules, explain string
	verbose, list, mend, diff, asks  bool
	from, only                       string // of --measured
	doctor                           bool   // says only what was measured

	source *measured.Source

	ids   []string      // of --rules
	least lint.Severity // what is milder is not shown
	fails lint.Severity // what is milder does not count

	stdin          io.Reader
	stdout, stderr io.Writer
	color          bool
}

// wrong is a usage error.
type wrong struct{ error }

// Command is gabion lint.
func Command() *cobra.Command { return (&request{stdin: os.Stdin}).command() }

func (r *request) command() *cobra.Command {
	c := cli.Command("lint", "what the policies in files will do in trouble, before merge", usage, r.main)
	flags := c.Flags()
	flags.StringVar(&r.format, "format", "text", "")
	flags.StringVar(&r.severity, "severity", "", "")
	flags.StringVar(&r.rules, "rules", "", "")
	flags.StringVar(&r.explain, "explain", "", "")
	flags.BoolVar(&r.verbose, "verbose", false, "")
	flags.BoolVar(&r.mend, "fix", false, "")
	flags.BoolVar(&r.diff, "diff", false, "")
	flags.BoolVar(&r.list, "list", false, "")
	flags.BoolVar(&r.asks, "questions", false, "")
	flags.StringVar(&r.from, "measured", "", "")
	flags.StringVar(&r.only, "dependency", "", "")
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	r.color = takesColor(r.stdout)
	code, err := r.do(c.Context(), words)
	var caller wrong
	switch {
	case errors.As(err, &caller):
		fmt.Fprintf(r.stderr, "%s: %v\n\n%s", r.name(), err, usage)
		return cli.ExitUsage
	case errors.Is(err, context.Canceled):
		return cli.ExitInterrupted
	case err != nil:
		fmt.Fprintln(r.stderr, r.name()+":", err)
		return cli.ExitFailure
	}
	return code
}

// name is the command's own.
func (r *request) name() string {
	if r.doctor {
		return "gabion doctor"
	}
	return "gabion lint"
}

// do does what is asked for, and returns the exit code.
func (r *request) do(ctx context.Context, words []string) (code int, err error) {
	switch {
	case (r.list || r.explain != "") && len(words) > 0:
		return 0, wrong{fmt.Errorf("%q is not expected", words[0])}
	case r.list:
		return cli.ExitOK, r.listRules()
	case r.explain != "":
		return cli.ExitOK, r.explainRule()
	}
	if err := r.settle(); err != nil {
		return 0, err
	}
	if r.mend && !r.diff && has(words, "-") {
		return 0, wrong{errors.New("standard input can't be written to: --diff shows what --fix would change")}
	}
	if r.asks && (has(words, "-") || len(words) == 0) {
		return 0, wrong{errors.New("--questions needs the names of files: the answers are beside them")}
	}
	in, failed, err := r.inputs(ctx, words)
	if err != nil {
		return 0, err
	}
	if len(in) == 0 {
		return failed, nil
	}
	out, err := r.mended(in)
	if err != nil {
		return 0, err
	}
	if out.source != nil && len(out.missing) == len(out.measured) {
		return 0, fmt.Errorf("no file has what was measured: %s. Its dependencies have to have the same names", strings.Join(out.missing, ", "))
	}
	if err := r.write(out); err != nil {
		return 0, err
	}
	for i := range in {
		if f := in[i].foreign(); f != nil {
			fmt.Fprint(r.stderr, fold.Lines(theirs.Count(f.Reading)))
		}
	}
	return max(out.exit(r.fails), failed), r.propose(in)
}

// inputs reads what was measured, and the files or what is in force.
func (r *request) inputs(ctx context.Context, words []string) (in []input, failed int, err error) {
	switch {
	case r.from == "" && r.only != "":
		return nil, 0, wrong{errors.New("--dependency is for --measured")}
	case r.from == "":
		return r.read(ctx, words)
	case len(words) == 0 && r.mend:
		return nil, 0, wrong{errors.New("no file is named that could be changed")}
	}
	if r.source, err = measured.Read(ctx, r.from, r.only); err != nil {
		return nil, 0, err
	}
	if r.source.Cut != nil {
		fmt.Fprintf(r.stderr, "%s: %s: %v; what stands before it was used\n", r.name(), r.from, r.source.Cut)
	}
	if len(words) > 0 {
		return r.read(ctx, words)
	}
	text, err := r.source.InForce()
	return []input{{path: "-", name: measured.InForceName, text: text}}, 0, err
}

// propose shows what --fix would change by what was measured.
func (r *request) propose(in []input) error {
	if r.source == nil || r.mend || r.diff || r.format != "text" {
		return nil
	}
	f := r.fix(in)
	text := f.diff()
	for _, c := range f.done {
		if c.why != "" {
			text += fold.Lines(fmt.Sprintf("left: %s for %s: %s\n", c.finding.Proposal, c.finding.Rule.ID, c.why))
		}
	}
	if text == "" {
		return nil
	}
	return r.print("\n" + text)
}

// settle reads the flags that are words.
func (r *request) settle() error {
	if !slices.Contains(formats, r.format) {
		return wrong{fmt.Errorf("--format %.40q is not known: %s", r.format, suggest.For(r.format, formats, "use one of "+strings.Join(formats, ", ")))}
	}
	if r.diff && r.format != "text" {
		return wrong{errors.New("--diff is text: leave --format out")}
	}
	r.fails = lint.Warning
	if r.severity != "" {
		if err := r.least.UnmarshalText([]byte(r.severity)); err != nil {
			return wrong{fmt.Errorf("--severity: %w", err)}
		}
		r.fails = r.least
	}
	for id := range strings.SplitSeq(r.rules, ",") {
		id = strings.TrimSpace(id)
		if id == "" {
			continue
		}
		rule, err := ruleOf(id)
		if err != nil {
			return wrong{fmt.Errorf("--rules: %w", err)}
		}
		r.ids = append(r.ids, rule.ID)
	}
	if r.rules != "" && r.ids == nil {
		return wrong{errors.New("--rules names no rule")}
	}
	return nil
}

// mended looks at files, after it changed them if that is asked for.
func (r *request) mended(in []input) (outcome, error) {
	switch {
	case r.diff:
		f := r.fix(in)
		if err := r.print(f.diff()); err != nil {
			return outcome{}, err
		}
		fmt.Fprint(r.stderr, f.told("not written"))
	case r.mend:
		f := r.fix(in)
		if err := f.write(); err != nil {
			return outcome{}, err
		}
		fmt.Fprint(r.stderr, f.told("written"))
		in = f.in
	}
	if !r.asks {
		return r.look(in), nil
	}
	return r.ask(in)
}
