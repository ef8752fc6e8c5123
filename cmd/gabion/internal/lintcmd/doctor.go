package lintcmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

const doctorUsage = `usage: gabion doctor SOURCE [--config FILE] [--dependency NAME]
                     [--json] [--write]

compares a policy with what was measured, and says what to change. It is

  gabion lint --measured SOURCE [--dependency NAME] [--fix] FILE

without what the linter finds that has nothing to do with the measurement.

  --config FILE      the file to compare with and to change. Without it the
                     settings that a recording or a page tells are used
  --dependency NAME  only this one
  --json             write JSON
  --write            write the changes into FILE; without it they are shown

Exit codes: 0 nothing to change, 1 there are warnings, 2 called wrongly, 3 any
other failure.
`

// Doctor is gabion doctor: gabion lint --measured by its older name.
func Doctor() *cobra.Command {
	r := &request{stdin: os.Stdin, format: "text", doctor: true}
	var file string
	var asJSON bool
	c := cli.Command("doctor", "compare a policy with what was measured, and say what to change", doctorUsage, func(c *cobra.Command, words []string) int {
		switch {
		case len(words) == 0:
			return cli.Wrongly(c, "no source is named: gabion doctor SOURCE")
		case len(words) > 1:
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[1]))
		case r.mend && file == "":
			return cli.Wrongly(c, "--write needs --config FILE")
		}
		if asJSON {
			r.format = "json"
		}
		if r.from, words = words[0], nil; file != "" {
			words = []string{file}
		}
		return r.main(c, words)
	})
	flags := c.Flags()
	flags.StringVar(&file, "config", "", "")
	flags.StringVar(&r.only, "dependency", "", "")
	flags.BoolVar(&asJSON, "json", false, "")
	flags.BoolVar(&r.mend, "write", false, "")
	return c
}
