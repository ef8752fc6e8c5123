// Package replaycmd is what gabion lab replay does: it makes a scenario of what happened.
package replaycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/labcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
)

const usage = `usage: gabion lab replay RECORDING|SPANS|METRICS [--dependency NAME]
                         [--config FILE] [--against FILE|NAME]...
                         [--from TIME] [--for DURATION]
                         [--out FILE.yaml] [--force] [--policy NAME]
                         [--requests SERIES] [--durations SERIES]
                         [--status LABEL] [--by LABEL]

Makes a scenario of what happened, and says what would have happened with other
policies. The file is a recording of gabion's, spans in OTLP JSON (one object a
line), or what Prometheus answers to /api/v1/query_range.

First it runs the scenario with the policy that was in force. If the outcome is
not what happened, the exit code is 1, and nothing else is said: calls that were
answered within 5 points, p50 and p99 within 15 %, in bins with 90 % of the
calls and in the whole. Then it runs it with the defaults, with the presets and
with the plain client, and shows all side by side.

Attempts meet what attempts met then, however many are sent. So a policy that
sends more looks better than it is where the dependency was short of capacity,
and its row is marked.

  --dependency NAME  which, if the file is about several
  --config FILE      the policies that were in force; usual is what a recording
                     says of its own
  --against WHAT     compare with another file as well, or with an opponent by
                     its name (gabion lab opponents shows them); may be given
                     several times
  --from TIME        begin there: a duration since the beginning, such as 10m,
                     or a time, such as 2026-11-21T10:00:00Z
  --for DURATION     and end that much later; usual is the end
  --out FILE.yaml    write the scenario, for gabion lab run and gabion tune; the
                     calls are beside it in FILE.calls.csv
  --policy NAME      whose policy of --config was in force, if the dependency
                     has another name there, as in metrics of others
  --requests SERIES  a counter of requests, where metrics are not those of
  --durations SERIES gabionprom, OpenTelemetry, go-grpc-middleware or Istio; and
                     a histogram of how long they took
  --status LABEL     the label that says how requests ended; usual is code
  --by LABEL         the label that names the dependency
  --force            go on if the replay does not agree with what happened
`

// request is what the command line asks for.
type request struct {
	stdout, stderr io.Writer

	read        past.Options
	config, out string
	policy      string
	against     []string
	force       bool
}

// Command is gabion lab replay.
func Command() *cobra.Command {
	r := new(request)
	c := cli.Command("replay", "what happened to you, with other policies", usage, func(c *cobra.Command, words []string) int {
		r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
		switch {
		case len(words) == 0:
			return cli.Wrongly(c, "no file is named: a recording, spans or metrics")
		case len(words) > 1:
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[1]))
		case r.read.For < 0:
			return cli.Wrongly(c, "--for is not negative")
		case r.out != "" && filepath.Ext(r.out) != ".yaml" && filepath.Ext(r.out) != ".yml":
			return cli.Wrongly(c, "--out "+r.out+": the name of a scenario ends in .yaml")
		case strings.Contains(filepath.Base(r.out), ","):
			return cli.Wrongly(c, "--out "+r.out+": the name of a scenario has no comma")
		}
		return r.main(c.Context(), words[0])
	})
	flags := c.Flags()
	flags.StringVar(&r.read.Dependency, "dependency", "", "")
	flags.StringVar(&r.config, "config", "", "")
	flags.StringArrayVar(&r.against, "against", nil, "")
	flags.StringVar(&r.read.From, "from", "", "")
	flags.DurationVar(&r.read.For, "for", 0, "")
	flags.StringVar(&r.out, "out", "", "")
	flags.BoolVar(&r.force, "force", false, "")
	flags.StringVar(&r.policy, "policy", "", "")
	flags.StringVar(&r.read.Naming.Requests, "requests", "", "")
	flags.StringVar(&r.read.Naming.Durations, "durations", "", "")
	flags.StringVar(&r.read.Naming.Status, "status", "", "")
	flags.StringVar(&r.read.Naming.By, "by", "", "")
	return c
}

func (r *request) main(ctx context.Context, name string) int {
	w, err := r.world(name)
	if err != nil {
		return r.failed(err)
	}
	a, s, err := r.fit(ctx, w)
	if err != nil {
		return r.failed(err)
	}
	sides, err := w.sides(r.against)
	if err != nil {
		return r.failed(err)
	}
	if r.out != "" {
		fmt.Fprintf(r.stderr, "scenario written to %s, its calls beside it\n", r.out)
	}
	if err := errors.Join(a.write(r.stdout), r.said(w)); err != nil {
		return r.failed(err)
	}
	if !a.holds() && !r.force {
		fmt.Fprintln(r.stderr, "gabion lab replay: what other policies would do can't be told from this; --force tells it all the same")
		return cli.ExitFindings
	}
	for i := range sides {
		if err := sides[i].run(ctx, s); err != nil {
			return r.failed(fmt.Errorf("%s: %w", sides[i].name, err))
		}
	}
	fmt.Fprintln(r.stdout, "\nThe same with other policies:")
	fmt.Fprintln(r.stdout)
	if err := table(r.stdout, sides); err != nil {
		return r.failed(err)
	}
	return cli.ExitOK
}

// fit makes the scenario. Where attempts were answered 429, that is a rate limit, unless the
// replay agrees better if it is not.
func (r *request) fit(ctx context.Context, w *world) (*agreement, *lab.Scenario, error) {
	a, s, err := r.try(ctx, w)
	if err != nil || w.p.Limit == nil {
		return a, s, err
	}
	w.limited = true
	limited, t, err := r.try(ctx, w)
	if err != nil || limited.share >= a.share && (limited.holds() || !a.holds()) {
		return limited, t, err
	}
	w.limited = false
	return r.try(ctx, w)
}

// try makes a scenario, and holds it against what happened.
func (r *request) try(ctx context.Context, w *world) (*agreement, *lab.Scenario, error) {
	s, err := r.scenario(w)
	if err != nil {
		return nil, nil, err
	}
	report, err := s.Run(ctx, lab.Options{Alone: true})
	if err != nil {
		return nil, nil, err
	}
	a, err := compare(w.p, report)
	return a, s, err
}

// world reads what happened, and the policy.
func (r *request) world(name string) (*world, error) {
	var f *config.File
	if r.config != "" {
		var err error
		if f, err = config.Load(r.config); err != nil {
			return nil, err
		}
	}
	p, err := past.Read(name, r.read)
	if err != nil {
		return nil, err
	}
	changes := p.Policy
	switch {
	case f != nil:
		of := cmp.Or(r.policy, p.Dependency)
		if _, ok := f.Policies[of]; !ok {
			return nil, fmt.Errorf("%s has no policy of %s: it has %s; say which it is with --policy", r.config, of, strings.Join(f.Names(), ", "))
		}
		p.Policed = of
		changes = changesOf(f, of)
	case !p.HasPolicy:
		return nil, fmt.Errorf("%s does not say which policy was in force: name its file with --config", name)
	}
	return newWorld(p, changes)
}

// changesOf is what a file says of a dependency that is not the default.
func changesOf(f *config.File, dependency string) (changes []policyfile.Change) {
	for _, s := range policyfile.Of(f).Reveal(dependency) {
		if s.Source != "default" {
			changes = append(changes, past.Change(s))
		}
	}
	return changes
}

// scenario writes the files of the scenario and loads it.
func (r *request) scenario(w *world) (*lab.Scenario, error) {
	out := r.out
	if out == "" {
		folder, err := os.MkdirTemp("", "gabion-replay-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		out = filepath.Join(folder, "replay.yaml")
	}
	calls := strings.TrimSuffix(out, filepath.Ext(out)) + ".calls.csv"
	if err := labcmd.WriteFile(calls, w.writeCalls); err != nil {
		return nil, err
	}
	text := w.scenario(filepath.Base(calls))
	if err := labcmd.WriteFile(out, func(to io.Writer) error { _, err := io.WriteString(to, text); return err }); err != nil {
		return nil, err
	}
	return lab.Load(out)
}

// said says what the scenario takes for granted.
func (r *request) said(w *world) error {
	p := w.p
	var b strings.Builder
	b.WriteString("\nTaken for granted:\n")
	item := func(format string, args ...any) {
		for i, line := range strings.Split(wrapped(fmt.Sprintf(format, args...), 76), "\n") {
			b.WriteString([2]string{"  ", "* "}[map[bool]int{true: 1}[i == 0]] + line + "\n")
		}
	}
	item("%s", assumption)
	if w.limited {
		item("From %s to %s the dependency lets %.3g attempts a second through and answers 429 to the others, a tenth of a second's at once: so it was then on average.", p.Limit.At.Round(time.Second), (p.Limit.At + p.Limit.For).Round(time.Second), p.Limit.Rate)
	}
	if 2000*p.Hung > len(p.Rows) {
		item("%s of the attempts were cut off, and no other shows what they would have met: they count as never answered, so longer timeouts look no better than they are.", percent(p.Hung, len(p.Rows)))
	}
	if 2000*p.Guessed > len(p.Rows) {
		item("%s of the calls have no attempt that tells, as where a breaker was open: they meet what the nearest attempts met.", percent(p.Guessed, len(p.Rows)))
	}
	if p.Left > 0 {
		item("%s of the calls were given up by their callers: they are left out of what happened, but not of the load.", percent(p.Left, len(p.Rows)))
	}
	for _, note := range p.Notes {
		item("%s.", note)
	}
	_, err := io.WriteString(r.stdout, b.String())
	return err
}

func percent(n, of int) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(of, 1))) }

// wrapped breaks a text into lines.
func wrapped(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		if column > 0 && column+1+len(word) > width {
			b.WriteByte('\n')
			column = 0
		} else if column > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// failed says what went wrong.
func (r *request) failed(err error) int {
	code := labcmd.Failed(r.stderr, "gabion lab replay", err)
	if code == cli.ExitFailure && errors.Is(err, lab.ErrNoOpponent) {
		return cli.ExitUsage
	}
	return code
}
