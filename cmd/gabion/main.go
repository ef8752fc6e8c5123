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

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/checklistcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/configcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/demo"
	"github.com/gabion-go/gabion/cmd/gabion/internal/explaincmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/exportcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/flakycmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/idemcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/importcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/lettercmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/lintcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/outboxcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/overridecmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/pagecmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/playcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/proxycmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/stormcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/tunecmd"
)

// about is what help begins with, and codes is what it ends with.
const (
	about = "gabion calls dependencies that fail."
	codes = `
Exit codes: 0 all is well, 1 findings, 2 called wrongly, 3 any other failure,
130 interrupted.
`
)

// root are all commands, in the order in which help lists them.
func root() *cobra.Command {
	groups := []*cobra.Group{
		{ID: "see", Title: "See what it does:"},
		{ID: "policy", Title: "Write a policy, and judge it:"},
		{ID: "happened", Title: "Understand what happened:"},
		{ID: "serve", Title: "For programs that are not written in Go:"},
		{ID: "fail", Title: "Test your own program:"},
		{ID: "stores", Title: "Operate what is stored:"},
		{ID: "fleet", Title: "Operate many processes as one:"},
	}
	return cli.Root(about, codes, groups,
		in("see", demo.Command()), in("see", labGroup()), in("see", playcmd.Command()),
		in("policy", configcmd.Command()), in("policy", lintcmd.Command()), in("policy", checklistcmd.Command()),
		in("policy", importcmd.Command()), in("policy", exportcmd.Command()), in("policy", tunecmd.Command()), in("policy", configcmd.Schema()),
		in("happened", explaincmd.Command()), in("happened", lintcmd.Doctor()), in("happened", pagecmd.Command()),
		in("serve", proxycmd.Command()),
		in("fail", flakycmd.Command()), in("fail", stormcmd.Command()),
		in("stores", idemcmd.Command()), in("stores", lettercmd.Command()), in("stores", outboxcmd.Command()),
		in("fleet", fleetcmd.Command()), in("fleet", overridecmd.Command()),
		versionCommand(), completionCommand(), manCommand(),
	)
}

func in(group string, c *cobra.Command) *cobra.Command {
	c.GroupID = group
	return c
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { <-ctx.Done(); stop() }() // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run finds the command and runs it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	top := root()
	if len(args) == 0 {
		fmt.Fprint(stderr, cli.Help(top))
		return cli.ExitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help":
		args = slices.Concat([]string{"help"}, args[1:]) // --help demo is help demo
	case "-v", "-version", "--version":
		args = slices.Concat([]string{"version"}, args[1:])
	}
	return cli.Execute(ctx, top, args, stdout, stderr)
}

const versionUsage = "usage: gabion version\n\nprints what this binary is made of\n"

func versionCommand() *cobra.Command {
	return cli.Command("version", "what this binary is made of", versionUsage, func(c *cobra.Command, words []string) int {
		if len(words) > 0 {
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[0]))
		}
		fmt.Fprintln(c.OutOrStdout(), version())
		return 0
	})
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "gabion (unknown) " + runtime.Version()
	}
	return fmt.Sprintf("gabion %s, %s, %s/%s", versionOf(info), info.GoVersion, runtime.GOOS, runtime.GOARCH)
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
