// Package outboxcmd is gabion outbox: an operator's look at an outbox, and hand on what its relay
// has given up.
package outboxcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/outbox"
)

const help = `usage: gabion outbox <command> --store URL [flags]

  ls        list messages that the relay has given up
  retry     have them published again, and what is behind them
  discard   remove them for good, and let go what is behind them
  stats     how many messages wait, rest and are parked

URL is one of
  sqlite:PATH      a database of SQLite, which has to be there
  postgres://...   a database of PostgreSQL
and is taken from GABION_OUTBOX where --store is missing. --table names the
table if it is not outbox.

Payloads and the values of headers are never printed.

gabion outbox <command> -h says more.

Exit codes: 0 done, 1 refused, 2 called wrongly, 3 failed, 130 interrupted.
`

const storeHelp = `  --json           print JSON
  --table NAME     of the messages, if it is not outbox
`

type verb struct {
	name  string
	says  string
	help  string
	flags func(*pflag.FlagSet, *options)
	check func(*options) error // before the database is opened
	run   func(context.Context, *call) error
}

var verbs = []verb{
	{"ls", "list messages that the relay has given up", listHelp, listFlags, checkList, list},
	{"retry", "have them published again, and what is behind them", retryHelp, retryFlags, checkSome, retry},
	{"discard", "remove them for good, and let go what is behind them", discardHelp, discardFlags, checkSome, discard},
	{"stats", "how many messages wait, rest and are parked", statsHelp, func(*pflag.FlagSet, *options) {}, noWords, stats},
}

// options are the flags of all verbs.
type options struct {
	store, table string
	json         bool
	words        []string

	topic, after string
	limit        int
	all, yes     bool
}

// A call is one use of the command.
type call struct {
	*options
	box    *outbox.Outbox
	stdout io.Writer
	stderr io.Writer
}

// Command is gabion outbox.
func Command() *cobra.Command {
	var commands []*cobra.Command
	for _, v := range verbs {
		commands = append(commands, v.command())
	}
	return cli.Group("outbox", "list, retry and discard the messages that a relay has given up", help, commands...)
}

func (v verb) command() *cobra.Command {
	o := &options{}
	c := cli.Command(v.name, v.says, v.help, func(c *cobra.Command, words []string) int {
		o.words, o.store = words, cmp.Or(o.store, os.Getenv("GABION_OUTBOX"))
		return v.main(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
	})
	c.Flags().StringVar(&o.store, "store", "", "the store's URL; left out, it is taken from GABION_OUTBOX")
	c.Flags().StringVar(&o.table, "table", "outbox", "")
	c.Flags().BoolVar(&o.json, "json", false, "")
	v.flags(c.Flags(), o)
	return c
}

func (v *verb) main(ctx context.Context, o *options, stdout, stderr io.Writer) int {
	err := v.check(o)
	if err == nil && o.store == "" {
		err = operator.Wrongf("--store is missing, such as --store sqlite:shop.db: see gabion outbox -h")
	}
	if err == nil {
		err = v.with(ctx, o, stdout, stderr)
	}
	if err == nil {
		return cli.ExitOK
	}
	fmt.Fprintf(stderr, "gabion outbox %s: %s\n", v.name, operator.Text(err.Error()))
	return codeOf(ctx, err)
}

func (v *verb) with(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	box, closeBox, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer closeBox()
	return v.run(ctx, &call{o, box, stdout, stderr})
}

func codeOf(ctx context.Context, err error) int {
	if _, is := errors.AsType[operator.Wrong](err); is {
		return cli.ExitUsage
	}
	if _, is := errors.AsType[operator.Refusal](err); is || errors.Is(err, outbox.ErrNotParked) {
		return cli.ExitFindings // a message is not parked
	}
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	return cli.ExitFailure
}

func noWords(o *options) error {
	if len(o.words) > 0 {
		return operator.Wrongf("%q is not expected", o.words[0])
	}
	return nil
}
