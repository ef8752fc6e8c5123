package lettercmd

import (
	"context"
	"io"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// Main runs gabion deadletter.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command{open}.main(ctx, args, stdout, stderr)
}

func (c command) main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, c.group(), args, stdout, stderr)
}

const (
	fine        = cli.ExitOK
	refused     = cli.ExitFindings
	usage       = cli.ExitUsage
	failed      = cli.ExitFailure
	interrupted = cli.ExitInterrupted
)
