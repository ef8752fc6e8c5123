package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

const completionUsage = `usage: gabion completion bash|fish|powershell|zsh

prints a script that completes gabion's commands and flags:

  bash        source <(gabion completion bash), with the package bash-completion
  fish        gabion completion fish | source
  powershell  gabion completion powershell | Out-String | Invoke-Expression
  zsh         source <(gabion completion zsh)
`

var shells = []string{"bash", "fish", "powershell", "zsh"}

func completionCommand() *cobra.Command {
	c := cli.Command("completion", "a script that completes commands and flags in your shell", completionUsage, func(c *cobra.Command, words []string) int {
		if len(words) != 1 {
			words = []string{""}
		}
		root, stdout := c.Root(), c.OutOrStdout()
		var err error
		switch words[0] {
		case "bash":
			err = root.GenBashCompletionV2(stdout, true)
		case "fish":
			err = root.GenFishCompletion(stdout, true)
		case "powershell":
			err = root.GenPowerShellCompletionWithDesc(stdout)
		case "zsh":
			err = root.GenZshCompletion(stdout)
		default:
			return cli.Wrongly(c, "name one shell: "+strings.Join(shells, ", "))
		}
		return printed(err, c.ErrOrStderr())
	})
	c.ValidArgsFunction = cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp)
	return c
}

const manUsage = `usage: gabion man

prints the manual page, made of what the commands say of themselves:

  gabion man > gabion.1 && man ./gabion.1
`

func manCommand() *cobra.Command {
	return cli.Command("man", "the manual page", manUsage, func(c *cobra.Command, words []string) int {
		if len(words) > 0 {
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[0]))
		}
		release := "(unknown)"
		if info, ok := debug.ReadBuildInfo(); ok {
			release = versionOf(info)
		}
		_, err := io.WriteString(c.OutOrStdout(), cli.Man(c.Root(), release))
		return printed(err, c.ErrOrStderr())
	})
}

// printed turns the outcome of a write into an exit code.
func printed(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "gabion:", err)
	return cli.ExitFailure
}
