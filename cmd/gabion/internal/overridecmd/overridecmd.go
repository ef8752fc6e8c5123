// Package overridecmd is gabion override: an operator's hand in all processes of a fleet.
package overridecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetstore"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/fleet"
)

const help = `usage: gabion override DEPENDENCY ACTION --for 5m --why TEXT --store URL
                    [--fleet NAME] [flags]
       gabion override kill --for 5m --why TEXT --store URL [flags]
       gabion override list --store URL [flags]
       gabion override lift ID --why TEXT --store URL [flags]

Makes all processes of a fleet do something for a time, also those that start
later. They follow at their next renewal, which is a second away at most. It
ends by itself, in each of them, also if the store is gone by then.

DEPENDENCY is a name as the program gives it, which stands for its instances
too; '*' is all of them. ACTION is one of

  force-open       its breakers refuse every call
  disable          its breakers let every call through and count nothing
  observe          its breakers count and report, and refuse nothing
  retries-off      no retries and no hedges
  rate 50/s        all processes together start no more attempts

  kill             retries-off for all dependencies: the kill switch
  list             what is in force, and what was: by whom, and why
  lift             end one before its time; list shows its ID

  --for DURATION   how long, at most 24h; it has to be given
  --why TEXT       a reason or a ticket, for the audit; it has to be given
  --who NAME       who does so (default: the user and the machine)
  --all            in all processes of the fleet, which is the default
` + fleetstore.Usage + `  --json           print JSON

Exit codes: 0 done, 1 refused: the store does not let the user do so, or nothing
of that ID is in force; 2 called wrongly, 3 failed, 130 interrupted.
`

// options are the flags of all verbs.
type options struct {
	fleetstore.Options
	lasts    time.Duration
	why, who string
	json     bool
	all      bool
	words    []string
}

// A call is one use of the command.
type call struct {
	*options
	store          fleet.Store
	stdout, stderr io.Writer
}

type verb struct {
	name, says string
	check      func(*options) error // before the store is opened
	run        func(context.Context, *call) error
}

// Command is gabion override.
func Command() *cobra.Command {
	c := verb{"override", "steer all processes of a fleet for a time", checkSet, set}.command()
	c.AddCommand(
		verb{"kill", "retries off for all dependencies: the kill switch", checkKill, kill}.command(),
		verb{"list", "what is in force, and what was", checkNone, list}.command(),
		verb{"lift", "end an override before its time", checkLift, lift}.command(),
	)
	return c
}

func (v verb) command() *cobra.Command {
	o := &options{}
	c := cli.Command(v.name, v.says, help, func(c *cobra.Command, words []string) int {
		o.words, o.who = words, operator.Who(o.who)
		err := v.with(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		if err == nil {
			return cli.ExitOK
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", c.CommandPath(), v.said(err))
		return codeOf(c.Context(), err)
	})
	flags := c.Flags()
	flags.DurationVar(&o.lasts, "for", 0, "")
	flags.StringVar(&o.why, "why", "", "")
	flags.StringVar(&o.who, "who", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.BoolVar(&o.all, "all", true, "")
	o.Flags(flags)
	return c
}

func (v *verb) with(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	if err := errors.Join(v.check(o), o.Check()); err != nil {
		return err
	}
	store, closeStore, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	return v.run(ctx, &call{o, store, stdout, stderr})
}

// said is an error's text as a terminal may have it. What follows its first line is indented.
func (v *verb) said(err error) string {
	if refused, is := errors.AsType[fleetstore.Refusal](err); is {
		err = refused // what is around it speaks of stores that failed in between
		if v.name != "list" {
			err = fmt.Errorf("the store refuses, and nothing was changed: %w", refused)
		}
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, operator.Text(strings.TrimSpace(line)))
	}
	return strings.Join(lines, "\n  ")
}

func codeOf(ctx context.Context, err error) int {
	_, wrong := errors.AsType[operator.Wrong](err)
	_, refused := errors.AsType[fleetstore.Refusal](err)
	switch {
	case wrong:
		return cli.ExitUsage
	case refused, errors.Is(err, fleet.ErrNotInForce), errors.Is(err, fleet.ErrTooMany):
		return cli.ExitFindings
	case ctx.Err() != nil:
		return cli.ExitInterrupted
	}
	return cli.ExitFailure
}
