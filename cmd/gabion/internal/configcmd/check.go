package configcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/theirs"
	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/foreign/formats"
)

func checkCommand() *cobra.Command {
	r := &request{}
	return r.command("check", "say what is wrong with the file, and nothing else", r.check)
}

// check reads a file and says what is wrong with it. The file is named by itself or
// with -f, as for the other commands.
func (r *request) check(c *cobra.Command, words []string) int {
	switch {
	case r.path == "" && len(words) == 1:
		r.path, words = words[0], nil
	case len(words) > 0:
		return cli.Wrongly(c, fmt.Sprintf("%q is not expected: one file at a time", words[len(words)-1]))
	}
	if foreign, err := theirs.Seem(r.path); foreign != nil || err != nil {
		return r.checkTheirs(foreign, err)
	}
	f, code := r.open(c, words, 0)
	if code >= 0 {
		return code
	}
	return written(fmt.Fprintf(r.stdout, "%s: %s, no mistakes\n", f.Name, cli.Count(len(f.Names()), "dependency")))(r.stderr)
}

// checkTheirs says what is wrong with a file of another system.
func (r *request) checkTheirs(f *formats.Reading, err error) int {
	var found finding.Findings
	switch {
	case errors.As(err, &found):
		fmt.Fprintln(r.stderr, fold.Lines(found.Error()))
		return cli.ExitFindings
	case err != nil:
		fmt.Fprintln(r.stderr, "gabion config check:", err)
		return cli.ExitFailure
	}
	return written(fmt.Fprint(r.stdout, fold.Lines(fmt.Sprintf("%s: %d routes, no mistakes\n%s", f.Sources[0].Name, len(f.Routes), theirs.Count(f)))))(r.stderr)
}
