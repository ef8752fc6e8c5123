package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/labcmd"
	"github.com/gabion-go/gabion/lab"
)

const labVerifyUsage = `usage: gabion lab verify [--json] [--markdown FILE.md] [--junit FILE.xml]

reproduces published results about retries, queues and load, and compares:
exit code 1 if one is off by more than its tolerance

  --json           print one JSON object on stdout
  --markdown FILE  write what does not hold as Markdown
  --junit FILE     write all results as JUnit XML, for a CI server
`

// labVerify is gabion lab verify: it runs every anchor and says which don't hold.
func labVerify() *cobra.Command {
	var asJSON bool
	var markdown, junit string
	c := cli.Command("verify", "reproduce published results and compare", labVerifyUsage, func(c *cobra.Command, words []string) int {
		if len(words) > 0 {
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[0]))
		}
		return verify(c.Context(), asJSON, markdown, junit, c.OutOrStdout(), c.ErrOrStderr())
	})
	c.Flags().BoolVar(&asJSON, "json", false, "")
	c.Flags().StringVar(&markdown, "markdown", "", "")
	c.Flags().StringVar(&junit, "junit", "", "")
	return c
}

func verify(ctx context.Context, asJSON bool, markdown, junit string, stdout, stderr io.Writer) int {
	cases, err := lab.VerifyAnchors(ctx, verifyProgress(stderr))
	if err != nil {
		return labFailed(ctx, err, stderr)
	}
	code, err := tellCases(stdout, cases, asJSON)
	if err := errors.Join(err, keepCases(markdown, lab.AnchorsMarkdown, cases), keepCases(junit, lab.AnchorsJUnit, cases)); err != nil {
		return labFailed(ctx, err, stderr)
	}
	return code
}

// keepCases writes cases into a file, if one is named.
func keepCases(name string, write func(io.Writer, []lab.AnchorCase) error, cases []lab.AnchorCase) error {
	if name == "" {
		return nil
	}
	return labcmd.WriteFile(name, func(w io.Writer) error { return write(w, cases) })
}

// tellCases writes the cases and returns the exit code that they mean.
func tellCases(w io.Writer, cases []lab.AnchorCase, asJSON bool) (code int, err error) {
	if failing(cases) > 0 {
		code = cli.ExitFindings
	}
	if asJSON {
		return code, writeCases(w, cases)
	}
	return code, writeVerdicts(w, cases)
}

// verifyProgress redraws one line on a terminal, and is nil elsewhere.
func verifyProgress(w io.Writer) func(done, of int, name string) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return func(done, of int, name string) {
		const wipe = "\r\x1b[K"
		fmt.Fprintf(f, "%s%d of %d: %.60s", wipe, done+1, of, name)
		if done+1 == of {
			fmt.Fprint(f, wipe)
		}
	}
}

func failing(cases []lab.AnchorCase) (n int) {
	for _, c := range cases {
		if !c.Pass {
			n++
		}
	}
	return n
}

func writeVerdicts(w io.Writer, cases []lab.AnchorCase) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "anchor\tmeasured\texpected\ttolerance\tverdict")
	for _, c := range cases {
		verdict := "pass"
		if !c.Pass {
			verdict = "FAIL"
		}
		bound := ""
		if c.Bound != "" {
			bound = string(c.Bound) + " "
		}
		fmt.Fprintf(table, "%s\t%.5g\t%s%.5g\t%.3g\t%s\n", c.Name, c.Measured, bound, c.Expected, c.Tolerance, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	n := failing(cases)
	if n == 0 {
		_, err := fmt.Fprintf(w, "\nall %d hold\n", len(cases))
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %d don't hold\n", n, len(cases))
	return err
}

// writeCases writes cases, or bare figures, as JSON.
func writeCases[T lab.AnchorCase | lab.AnchorFigure](w io.Writer, cases []T) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Cases []T `json:"cases"`
	}{cases})
}

const labAnchorUsage = `usage: gabion lab anchor NAME [--set KEY=VALUE]... [--json]
       gabion lab anchor NAME -h

runs one published experiment at settings of your choice and says what came out
`

// labAnchor is gabion lab anchor: it runs one anchor. Its help is about the one that is named.
func labAnchor() *cobra.Command {
	var asJSON bool
	set := settings{}
	c := cli.Command("anchor", "run one of the published experiments at your settings", fold.Lines(labAnchorHelp(nil)), func(c *cobra.Command, words []string) int {
		if len(words) != 1 {
			return cli.Wrongly(c, "name one anchor")
		}
		return anchor(c.Context(), words[0], set, asJSON, c.OutOrStdout(), c.ErrOrStderr())
	})
	c.Flags().Var(set, "set", "KEY=VALUE, once for each setting")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.SetHelpFunc(func(c *cobra.Command, args []string) { fmt.Fprint(c.OutOrStdout(), fold.Lines(labAnchorHelp(args))) })
	return c
}

func anchor(ctx context.Context, name string, set settings, asJSON bool, stdout, stderr io.Writer) int {
	figures, err := lab.RunAnchor(ctx, name, set)
	if err != nil {
		return labFailed(ctx, err, stderr)
	}
	if asJSON {
		err = writeCases(stdout, figures)
	} else {
		err = writeFigures(stdout, figures)
	}
	if err != nil {
		return labFailed(ctx, err, stderr)
	}
	return 0
}

func writeFigures(w io.Writer, figures []lab.AnchorFigure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range figures {
		fmt.Fprintf(table, "%s\t%.6g\n", f.Name, f.Measured)
	}
	return table.Flush()
}

// labAnchorHelp lists the anchors, or the settings of the one that is named.
func labAnchorHelp(args []string) string {
	var text strings.Builder
	fmt.Fprint(&text, labAnchorUsage, "\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	all := lab.Anchors()
	for _, a := range all {
		for _, word := range args {
			if word == a.Name {
				fmt.Fprintf(&text, "%s: %s\n\n", a.Name, a.Says)
				for _, s := range a.Settings {
					fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Key, s.Default, s.Says)
				}
				table.Flush()
				return text.String()
			}
		}
	}
	for _, a := range all {
		fmt.Fprintf(table, "  %s\t%s\n", a.Name, a.Says)
	}
	table.Flush()
	return text.String()
}

// settings collects KEY=VALUE.
type settings map[string]string

func (s settings) String() string { return "" }

func (s settings) Type() string { return "KEY=VALUE" }

func (s settings) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("want KEY=VALUE")
	}
	if _, twice := s[key]; twice {
		return fmt.Errorf("%s is set twice", key)
	}
	s[key] = value
	return nil
}

// labFailed says what went wrong and returns the exit code for it.
func labFailed(ctx context.Context, err error, stderr io.Writer) int {
	var wrong *lab.AnchorError
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "gabion lab: interrupted")
		return cli.ExitInterrupted
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "gabion lab:", err)
		return cli.ExitUsage
	}
	fmt.Fprintln(stderr, "gabion lab:", err)
	return cli.ExitFailure
}
