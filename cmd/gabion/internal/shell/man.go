package shell

import (
	"fmt"
	"strings"
)

// Man returns the manual page, gabion(1), in roff.
func (t Tree) Man(version string) string {
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
	for _, c := range t {
		if len(c.Words) == 0 || len(c.Words) == 2 && c.Help == t.help(c.Words[0]) {
			continue // what several words share is shown once
		}
		fmt.Fprintf(&b, ".SS gabion %s\n.nf\n%s.fi\n", c.line(), verbatim(c.Help))
	}
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

// help is what a command says of itself.
func (t Tree) help(name string) string {
	for _, c := range t {
		if c.line() == name {
			return c.Help
		}
	}
	return ""
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
