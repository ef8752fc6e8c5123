// Package idemcmd is gabion idempotency: an operator's look at a store of idempotency keys,
// and hand in it.
package idemcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/idempotency"
)

type verb struct {
	name  string
	words string // what names the record
	says  string
	flags func(*pflag.FlagSet, *options)
	run   func(context.Context, idempotency.Store, *options, io.Writer) error
}

var verbs = []verb{
	{"ls", "", "list records, by state or for the keys of a scope", listFlags, list},
	{"show", " ID", "one record in full", showFlags, show},
	{"resolve", " ID", "say what became of a run whose outcome is unknown", resolveFlags, resolve},
	{"forget", " ID", "delete a record, so that its key runs as new", forgetFlags, forget},
}

// options are the flags of all verbs.
type options struct {
	store, table, prefix, bucket string
	json                         bool
	scope, key                   string
	hasScope                     bool
	args                         []string

	states, keys, after string
	limit               int
	body                bool
	done, nothing, yes  bool
	status              int
	file                string
}

// Command is gabion idempotency.
func Command() *cobra.Command {
	var commands []*cobra.Command
	for _, v := range verbs {
		commands = append(commands, v.command())
	}
	return cli.Group("idempotency", "list, show, resolve and forget the records of a store of keys", help, commands...)
}

const help = `usage: gabion idempotency <command> --store URL [flags]

  ls        list records, by state or for the keys of a scope
  show      one record in full
  resolve   say what became of a run whose outcome is unknown
  forget    delete a record, so that its key runs as new

URL is one of
  bolt:PATH                 a file of boltstore that no process has open
  sqlite:PATH               a file of sqlitestore         (--table)
  postgres://...            pgxstore or sqlstore          (--table)
  mysql://...               mysqlstore, MariaDB, too      (--table)
  redis://..., rediss://... redisstore                    (--prefix)
  nats://...                natsstore                     (--bucket)
and is taken from GABION_STORE where --store is missing.

A record is named by its ID, as ls prints it, or by --scope and --key. Neither
is in the store, only their hash: records can't be listed by scope, but ls
--scope S --keys FILE looks up the keys in a file, one a line. The scope is what
the service's scope function returns: for idempotency.Global it is '*'.

Sealed results can't be read, nor made: show prints the status and says that the
rest is sealed, and resolve --done is refused where results are.

Exit codes: 0 done, 1 refused (the record says why), 2 called wrongly, 3 failed.
`

func (v verb) command() *cobra.Command {
	o := &options{}
	c := cli.Command(v.name, v.says, "", func(c *cobra.Command, words []string) int {
		o.args, o.hasScope = words, c.Flags().Changed("scope")
		if !c.Flags().Changed("store") { // not as the flag's default, which help would print, with its password
			o.store = os.Getenv("GABION_STORE")
		}
		err := v.with(c.Context(), o, c.OutOrStdout())
		if err == nil {
			return cli.ExitOK
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", c.CommandPath(), err)
		return codeOf(err)
	})
	set := c.Flags()
	set.SortFlags = false
	set.StringVar(&o.store, "store", "", "the store's `URL`; left out, it is taken from GABION_STORE")
	set.StringVar(&o.table, "table", "idempotency_records", "the `name` of the SQL table")
	set.StringVar(&o.prefix, "prefix", "", "what Redis keys begin with, if not the default")
	set.StringVar(&o.bucket, "bucket", "", "the `name` of the NATS bucket")
	set.BoolVar(&o.json, "json", false, "print JSON")
	set.StringVar(&o.scope, "scope", "", "the `scope` of a key; may be empty")
	v.flags(set, o)
	c.Long = fmt.Sprintf("usage: gabion idempotency %s%s --store URL [flags]\n\n%s\n\n%s\ngabion idempotency -h says what URL is.\n", v.name, v.words, v.says, set.FlagUsagesWrapped(fold.Width))
	return c
}

func (v verb) with(ctx context.Context, o *options, stdout io.Writer) error {
	if err := o.check(v.name); err != nil {
		return err
	}
	store, closeStore, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer closeStore()
	return v.run(ctx, store, o, stdout)
}

func codeOf(err error) int {
	if _, is := errors.AsType[operator.Wrong](err); is {
		return cli.ExitUsage
	}
	if errors.Is(err, idempotency.ErrRefused) {
		return cli.ExitFindings // the record is not one with which that may be done
	}
	return cli.ExitFailure
}

// check finds what is wrong with the flags before the store is opened.
func (o *options) check(verb string) error {
	switch {
	case o.store == "":
		return operator.Wrongf("--store is missing: see gabion idempotency -h")
	case verb == "ls":
		return o.checkList()
	}
	if _, err := o.id(); err != nil {
		return err
	}
	switch {
	case verb == "forget" && !o.yes:
		return operator.Wrongf("the key will run as new, and what its first run did will be done again: say --yes if that is meant")
	case verb == "resolve" && o.done == o.nothing:
		return operator.Wrongf("say either --done or --nothing: what became of the run")
	case verb == "resolve" && o.nothing && (o.status != 0 || o.file != ""):
		return operator.Wrongf("--status and --body-file describe a result, and --nothing means no result")
	case verb == "resolve" && o.status != 0 && (o.status < 200 || o.status > 599):
		return operator.Wrongf("--status %d is no final status", o.status)
	}
	return nil
}

// id is the record that the arguments name.
func (o *options) id() (id idempotency.ID, err error) {
	switch {
	case len(o.args) > 1 || len(o.args) == 1 && (o.hasScope || o.key != ""):
		return id, operator.Wrongf("one record at a time: its ID, or --scope and --key")
	case len(o.args) == 1:
		if id, err = idempotency.ParseID(o.args[0]); err != nil {
			return id, operator.Call(err)
		}
		return id, nil
	case !o.hasScope || o.key == "":
		return id, operator.Wrongf("which record? Give its ID, or --scope and --key (the scope of idempotency.Global is '*')")
	}
	key, err := idempotency.ParseKey(o.key)
	if err != nil {
		return id, operator.Call(err)
	}
	return idempotency.IDOf(o.scope, key), nil
}
