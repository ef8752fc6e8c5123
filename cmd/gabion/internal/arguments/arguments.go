// Package arguments reads the command lines of gabion's commands.
package arguments

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// The codes with which a command ends that Parse ends.
const (
	exitOK    = 0
	exitUsage = 2
)

// Parse takes flags before, between and after words. Help that was asked for goes to
// stdout, what is wrong to the output of flags. A code of 0 or more ends the command.
func Parse(flags *flag.FlagSet, args []string, usage string, stdout io.Writer) (words []string, code int) {
	flags.Usage = func() {}
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			fmt.Fprint(stdout, usage)
			return nil, exitOK
		case err != nil:
			fmt.Fprint(flags.Output(), "\n"+usage)
			return nil, exitUsage
		}
		if flags.NArg() == 0 {
			return words, -1
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}
