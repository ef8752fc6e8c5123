package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/shell"
)

// What is written from all the commands can't stand in their list at first.
func init() {
	commands = append(commands,
		command{"completion", "a script that completes commands and flags in your shell", completion},
		command{"man", "the manual page", manual},
	)
}

const completionUsage = `usage: gabion completion bash|fish|powershell|zsh

prints a script that completes gabion's commands and flags:

  bash        source <(gabion completion bash)
  fish        gabion completion fish | source
  powershell  gabion completion powershell | Out-String | Invoke-Expression
  zsh         source <(gabion completion zsh)
`

func completion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	switch {
	case slices.ContainsFunc(args, asksHelp):
		fmt.Fprint(stdout, completionUsage)
		return 0
	case len(args) != 1 || !slices.Contains(shell.Shells, args[0]):
		fmt.Fprintf(stderr, "gabion completion: name one shell: %s\n\n%s", strings.Join(shell.Shells, ", "), completionUsage)
		return exitUsage
	}
	return printed(io.WriteString(stdout, tree().Completion(args[0])))(stderr)
}

const manUsage = `usage: gabion man

prints the manual page, made of what the commands say of themselves:

  gabion man > gabion.1 && man ./gabion.1
`

func manual(_ context.Context, args []string, stdout, stderr io.Writer) int {
	switch {
	case slices.ContainsFunc(args, asksHelp):
		fmt.Fprint(stdout, manUsage)
		return 0
	case len(args) > 0:
		fmt.Fprintf(stderr, "gabion man: %q is not expected\n", args[0])
		return exitUsage
	}
	release := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		release = versionOf(info)
	}
	return printed(io.WriteString(stdout, tree().Man(release)))(stderr)
}

// tree asks every command for its help, as a user would.
func tree() shell.Tree {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.name
	}
	return shell.Read(names, func(words ...string) string {
		var stdout bytes.Buffer
		if run(context.Background(), append(words[:len(words):len(words)], "-h"), &stdout, io.Discard) != 0 {
			return ""
		}
		return stdout.String()
	})
}

// printed turns the outcome of a write into an exit code.
func printed(_ int, err error) func(stderr io.Writer) int {
	return func(stderr io.Writer) int {
		if err == nil {
			return 0
		}
		fmt.Fprintln(stderr, "gabion:", err)
		return 3
	}
}
