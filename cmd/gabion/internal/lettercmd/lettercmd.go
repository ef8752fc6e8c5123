// Package lettercmd is gabion deadletter: an operator's look at a store of dead letters, and
// hand in it.
package lettercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const help = `usage: gabion deadletter <command> --store URL [flags]

  ls        list letters
  show      one letter in full, with each of its failures
  redrive   order that consumers run letters again, at a bounded rate
  redrives  the last redrive of each group
  stop      end a redrive: what it had not taken waits on
  resolve   say what became of work whose outcome is unknown
  drop      give letters up for good: their payloads are erased
  export    write letters as JSON, one on a line
  stats     how many letters there are, by group

URL is one of
  sqlite:PATH      the file of sqliteletters, which has to be there
  postgres://...   sqlletters in PostgreSQL
and is taken from GABION_DEADLETTERS where --store is missing. --table names its
tables if they are not dead_letters.

An ID may be cut after its first 6 digits, if no other letter begins so.
Payloads and the values of headers are printed only where a flag asks for them.

gabion deadletter <command> -h says more.

Exit codes: 0 done, 1 refused, or a redrive that letters failed in, 2 called
wrongly, 3 failed, 130 interrupted.
`

type verb struct {
	name  string
	help  string
	flags func(*flag.FlagSet, *options)
	check func(*options) error // before the store is opened
	run   func(context.Context, *call) error
}

var verbs = []verb{
	{"ls", listHelp, listFlags, checkList, list},
	{"show", showHelp, showFlags, checkShow, show},
	{"redrive", redriveHelp, redriveFlags, checkRedrive, redrive},
	{"redrives", redrivesHelp, redrivesFlags, noWords, redrives},
	{"stop", stopHelp, stopFlags, checkStop, stop},
	{"resolve", resolveHelp, resolveFlags, checkResolve, resolve},
	{"drop", dropHelp, dropFlags, checkDrop, drop},
	{"export", exportHelp, exportFlags, noWords, export},
	{"stats", statsHelp, statsFlags, noWords, stats},
}

// options are the flags of all verbs.
type options struct {
	store, table, keyFile string
	json                  bool
	filter                filter
	words                 []string

	limit            int
	every            bool
	after            string
	payload          string
	headers, with    bool
	rateText         string
	rate             float64
	dry, follow, yes bool
	all, force       bool
	by, note, as     string
	group            string
}

// A call is one use of the command.
type call struct {
	*options
	letters deadletter.Store
	stdout  *output
	stderr  io.Writer
}

// Command is gabion deadletter.
func Command() *cobra.Command { return command{open}.group() }

// A command knows how stores are opened.
type command struct {
	open func(context.Context, *options) (deadletter.Store, func(), error)
}

func (c command) group() *cobra.Command {
	var commands []*cobra.Command
	for _, v := range verbs {
		commands = append(commands, c.verb(&v))
	}
	return cli.Group("deadletter", "list, show, redrive, resolve, drop and export dead letters", help, commands...)
}

func (c command) verb(v *verb) *cobra.Command {
	o := &options{}
	made := cli.Command(v.name, v.says(), v.help, func(made *cobra.Command, words []string) int {
		return c.run(made.Context(), v, o, words, made.OutOrStdout(), made.ErrOrStderr())
	})
	flags := made.Flags()
	flags.StringVar(&o.store, "store", "", "the store's URL; left out, it is taken from GABION_DEADLETTERS")
	flags.StringVar(&o.table, "table", "dead_letters", "")
	flags.BoolVar(&o.json, "json", false, "")
	v.flags(flags, o)
	return made
}

// says is the line of the help that is about the command.
func (v *verb) says() string {
	for line := range strings.Lines(help) {
		if about, is := strings.CutPrefix(line, "  "+v.name+" "); is {
			return strings.TrimSpace(about)
		}
	}
	return ""
}

func (c command) run(ctx context.Context, v *verb, o *options, words []string, stdout, stderr io.Writer) int {
	if o.words = words; o.store == "" {
		o.store = os.Getenv("GABION_DEADLETTERS")
	}
	err := v.check(o)
	if err == nil && o.store == "" {
		err = operator.Wrongf("--store is missing, such as --store sqlite:letters.db: see gabion deadletter -h")
	}
	if err == nil {
		err = c.with(ctx, v, o, stdout, stderr)
	}
	if err == nil {
		return cli.ExitOK
	}
	fmt.Fprintf(stderr, "gabion deadletter %s: %s\n", v.name, said(err))
	return codeOf(ctx, err)
}

// said is an error's text as a terminal may have it: what follows its first line is indented.
func said(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = text(strings.TrimSpace(line))
	}
	said := strings.Join(lines, "\n  ")
	if errors.Is(err, context.Canceled) {
		said = strings.ReplaceAll(said, context.Canceled.Error(), "interrupted")
	}
	return said
}

func (c command) with(ctx context.Context, v *verb, o *options, stdout, stderr io.Writer) error {
	letters, closeStore, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer closeStore()
	if o.keyFile != "" {
		if letters, err = unsealed(letters, o.keyFile); err != nil {
			return err
		}
	}
	out := &output{Writer: stdout}
	return explained(cmp.Or(v.run(ctx, &call{o, letters, out, stderr}), out.failed))
}

// An output remembers that it could not be written, which is a failure of every verb: a payload
// that was to be saved on a full disk is not.
type output struct {
	io.Writer
	failed error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}

// terminal is true if it is one.
func (o *output) terminal() bool {
	f, is := o.Writer.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

func codeOf(ctx context.Context, err error) int {
	var w operator.Wrong
	var r operator.Refusal
	switch {
	case errors.As(err, &w):
		return cli.ExitUsage
	case errors.As(err, &r), errors.Is(err, deadletter.ErrState), errors.Is(err, deadletter.ErrUnresolved), errors.Is(err, deadletter.ErrBusy):
		return cli.ExitFindings // a letter's state does not allow it, or a redrive went badly
	case ctx.Err() != nil:
		return cli.ExitInterrupted
	}
	return cli.ExitFailure
}

func noWords(o *options) error {
	if len(o.words) > 0 {
		return operator.Wrongf("%q is not expected", o.words[0])
	}
	return o.filter.check()
}
