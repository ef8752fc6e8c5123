package main

import (
	"context"
	"fmt"
	"io"

	"github.com/gabion-go/gabion/cmd/gabion/internal/labcmd"
)

// labCommands are the words after gabion lab.
var labCommands = []command{
	{"run", "run a scenario, and say what the runs came to", labcmd.Run},
	{"list", "the scenarios that come with gabion", labcmd.List},
	{"show", "a scenario's file, or the schema of such files", labcmd.Show},
	{"explain", "each decision about one client's calls", labcmd.Explain},
	{"tournament", "play the defaults against others, and say who is better at what", labcmd.RunTournament},
	{"opponents", "what a policy can be compared with, and where it is from", labcmd.Opponents},
	{"verify", "reproduce published results and compare", labVerify},
	{"anchor", "run one of the published experiments at your settings", labAnchor},
}

// runLab finds the word and runs it.
func runLab(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		labHelp(stderr)
		return exitUsage
	case asksHelp(args[0]):
		labHelp(stdout)
		return 0
	}
	return dispatch(ctx, "gabion lab", labCommands, labHelp, args, stdout, stderr)
}

func labHelp(w io.Writer) {
	fmt.Fprint(w, "usage: gabion lab <command> [flags]\n\n")
	for _, c := range labCommands {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.says)
	}
	fmt.Fprint(w, "\ngabion lab <command> -h says more.\n")
}
