package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Man returns the manual page of gabion and of all its commands, gabion(1), in roff.
func Man(root *cobra.Command, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH GABION 1 \"\" %q \"User Commands\"\n", "gabion "+version)
	b.WriteString(`.SH NAME
gabion \- call dependencies that fail
.SH SYNOPSIS
.B gabion
.I command
.RI [ flags ]
.SH DESCRIPTION
gabion checks and explains the configuration of the gabion library, shows what it
does in an outage, and plays outages in virtual time.
.SH COMMANDS
`)
	seen := map[string]bool{}
	Walk(root, func(c *cobra.Command) {
		text := Help(c)
		if c == root || c.Name() == "help" || seen[text] {
			return // what several commands share is shown once
		}
		seen[text] = true
		fmt.Fprintf(&b, ".SS %s\n.nf\n%s.fi\n", c.CommandPath(), verbatim(text))
	})
	b.WriteString(`.SH EXIT STATUS
.TP
.B 0
all is well
.TP
.B 1
findings: a file has mistakes, or an assertion does not hold
.TP
.B 2
called wrongly
.TP
.B 3
any other failure
.TP
.B 130
interrupted
.SH SEE ALSO
https://github.com/gabion\-go/gabion
`)
	return b.String()
}

// verbatim writes text so that roff shows it as it is.
func verbatim(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line)
	}
	return b.String()
}
