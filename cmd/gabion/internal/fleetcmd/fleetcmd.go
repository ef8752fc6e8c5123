// Package fleetcmd is gabion fleet: an operator's look at all processes of a fleet.
package fleetcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetstore"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetview"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/internal/fleetlook"
)

const help = `usage: gabion fleet status --store URL [--fleet NAME] [flags]

Shows what the processes of a fleet report: who is a member, versions and
policies that differ, what each dependency comes to for all of them, members
that are unlike the others, limits and how they are shared, overrides in force,
and how old all of that is by the store's clock.

` + fleetstore.Usage + `  --members        each member in a line of its own
  --json           print JSON, with all that the members report

Counts are since each process began. A member that was killed is shown until its
report has lasted its time.

Exit codes: 0 shown, 1 the fleet has no members, 2 called wrongly, 3 any other
failure, 130 interrupted.
`

// request is what the command line asks for.
type request struct {
	fleetstore.Options
	members, json bool
}

// Command is gabion fleet.
func Command() *cobra.Command {
	r := &request{}
	status := cli.Command("status", "members, versions that differ, shares, outliers and overrides", help, r.main)
	flags := status.Flags()
	r.Flags(flags)
	flags.BoolVar(&r.members, "members", false, "")
	flags.BoolVar(&r.json, "json", false, "")
	return cli.Group("fleet", "what the processes of a fleet report", help, status)
}

// errNone is the error of a fleet without members.
var errNone = errors.New("no members")

func (r *request) main(c *cobra.Command, words []string) int {
	err := r.run(c.Context(), words, c.OutOrStdout())
	_, wrong := errors.AsType[operator.Wrong](err)
	if err != nil {
		var lines []string
		for line := range strings.Lines(err.Error()) {
			lines = append(lines, operator.Text(strings.TrimSpace(line)))
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", c.CommandPath(), strings.Join(lines, "\n  "))
	}
	switch {
	case err == nil:
		return cli.ExitOK
	case wrong:
		return cli.ExitUsage
	case errors.Is(err, errNone):
		return cli.ExitFindings
	case c.Context().Err() != nil:
		return cli.ExitInterrupted
	}
	return cli.ExitFailure
}

func (r *request) run(ctx context.Context, words []string, stdout io.Writer) error {
	if len(words) > 0 {
		return operator.Wrongf("%q is not expected", words[0])
	}
	if err := r.Check(); err != nil {
		return err
	}
	store, closeStore, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	v, err := fleetlook.Look(ctx, store, r.Fleet)
	if err != nil {
		return err
	}
	s := fleetview.Of(v)
	switch {
	case r.json:
		err = operator.PrintJSON(stdout, recordOf(r.Fleet, v))
	default:
		err = r.print(stdout, v, s)
	}
	if err == nil && s.Members == 0 {
		elsewhere := cmp.Or(fleetstore.Elsewhere(ctx, store, r.Fleet), "is it the store and the fleet that the program gives to fleet.Join?")
		err = fmt.Errorf("the fleet %s has %w: %s", r.Fleet, errNone, elsewhere)
	}
	return err
}
