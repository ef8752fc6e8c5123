// Command gabion shows, checks and explains what the gabion library does.
//
// Exit codes: 0 all is well, 1 findings, 2 called wrongly, 3 any other failure,
// 130 interrupted.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/gabion-go/gabion/cmd/gabion/internal/checklistcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/configcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/demo"
	"github.com/gabion-go/gabion/cmd/gabion/internal/doctorcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/explaincmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/flakycmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/idemcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/importcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/lettercmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/lintcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/outboxcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/pagecmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/stormcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/tunecmd"
	"github.com/gabion-go/gabion/internal/suggest"
)

const exitUsage = 2

// command is one thing that gabion can do.
type command struct {
	name  string
	says  string
	begin func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

// commands are all of them, in the order in which help lists them.
var commands = []command{
	{"demo", "one outage, four clients: see what gabion does", demo.Main},
	{"config", "what a configuration file means, and where each value comes from", configcmd.Config},
	{"lint", "what the policies in files will do in trouble, before merge", lintcmd.Main},
	{"checklist", "what has to be so before a policy ships, and who said that it is", checklistcmd.Main},
	{"import", "policies from the retry rules of others: gRPC service configs", withoutContext(importcmd.Main)},
	{"explain", "what a reason means, and why a recorded call went as it did", withoutContext(explaincmd.Main)},
	{"doctor", "compare a policy with what was measured, and say what to change", doctorcmd.Main},
	{"page", "play a recording on the live page", pagecmd.Main},
	{"schema", "the JSON Schema of the configuration file", withoutContext(configcmd.Schema)},
	{"lab", "see the outage before production does, in virtual time", runLab},
	{"tune", "search a policy's numbers in the lab, and prove what is better", tunecmd.Main},
	{"flaky", "a server that fails by plan, for the test of your own client", flakycmd.Main},
	{"storm", "load at a constant rate, with thresholds, against your own service", stormcmd.Main},
	{"idempotency", "list, show, resolve and forget the records of a store of keys", idemcmd.Main},
	{"deadletter", "list, show, redrive, resolve, drop and export dead letters", deadletters},
	{"outbox", "list, retry and discard the messages that a relay has given up", outboxcmd.Main},
	{"version", "what this binary is made of", version},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { <-ctx.Done(); stop() }() // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run finds the command and runs it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		help(stderr)
		return exitUsage
	}
	switch {
	case asksHelp(args[0]):
		if len(args) > 1 && !asksHelp(args[1]) { // help demo is demo -h
			return run(ctx, append(slices.Clone(args[1:]), "-h"), stdout, stderr)
		}
		help(stdout)
		return 0
	case slices.Contains([]string{"-v", "-version", "--version"}, args[0]):
		return version(ctx, args[1:], stdout, stderr)
	}
	return dispatch(ctx, "gabion", commands, help, args, stdout, stderr)
}

// dispatch runs the command that args begin with, or says which one was meant.
func dispatch(ctx context.Context, program string, of []command, help func(io.Writer), args []string, stdout, stderr io.Writer) int {
	known := []string{"help"}
	for _, c := range of {
		if c.name == args[0] {
			return c.begin(ctx, args[1:], stdout, stderr)
		}
		known = append(known, c.name)
	}
	fmt.Fprintf(stderr, "%s: unknown command %q", program, args[0])
	if near := suggest.Nearest(args[0], known); near != "" {
		fmt.Fprintf(stderr, "; did you mean %q?", near)
	}
	fmt.Fprint(stderr, "\n\n")
	help(stderr)
	return exitUsage
}

func asksHelp(word string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, word)
}

func help(w io.Writer) {
	fmt.Fprint(w, "gabion calls dependencies that fail.\n\nusage: gabion <command> [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.says)
	}
	fmt.Fprintf(w, "  %-11s %s\n", "help", "this, or more on a command")
	fmt.Fprint(w, "\ngabion <command> -h says more.\n\nExit codes: 0 all is well, 1 findings, 2 called wrongly, 3 any other failure,\n130 interrupted.\n")
}

// withoutContext is for commands that are over before anybody could interrupt
// them.
func withoutContext(begin func(args []string, stdout, stderr io.Writer) int) func(context.Context, []string, io.Writer, io.Writer) int {
	return func(_ context.Context, args []string, stdout, stderr io.Writer) int {
		return begin(args, stdout, stderr)
	}
}

func version(_ context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && asksHelp(args[0]) {
		fmt.Fprint(stdout, "usage: gabion version\n\nprints what this binary is made of\n")
		return 0
	}
	if len(args) > 0 {
		fmt.Fprintf(stderr, "gabion version: %q is not expected\n", args[0])
		return exitUsage
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		fmt.Fprintln(stdout, "gabion (unknown)", runtime.Version())
		return 0
	}
	fmt.Fprintf(stdout, "gabion %s, %s, %s/%s\n", versionOf(info), info.GoVersion, runtime.GOOS, runtime.GOARCH)
	return 0
}

// versionOf is the module's version, or the commit when it was built in a checkout.
func versionOf(info *debug.BuildInfo) string {
	text := info.Main.Version
	if text == "" {
		text = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && text == "(devel)" {
			text += " " + s.Value
		}
	}
	return text
}

func deadletters(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, lettercmd.Command(), args, stdout, stderr)
}
