package main

import (
	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/labcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/replaycmd"
)

// labGroup is gabion lab.
func labGroup() *cobra.Command {
	return cli.Group("lab", "see the outage before production does, in virtual time", "",
		labcmd.Run(), labcmd.List(), labcmd.Show(), labcmd.Explain(), labcmd.RunTournament(), labcmd.Opponents(), replaycmd.Command(), labVerify(), labAnchor())
}
