package labcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab"
)

// OpponentsUsage is the help of gabion lab opponents.
const OpponentsUsage = `usage: gabion lab opponents

lists what gabion lab run --against NAME compares with: what it is, where its
numbers are from, and what of it the lab cannot express. Each has the timeouts
of the policy that it is compared with, and sends the keys that callers give.
`

// Opponents lists the opponents with their sources.
func Opponents() *cobra.Command {
	r := newRequest()
	return r.command("opponents", "what a policy can be compared with, and where it is from", OpponentsUsage, 0, r.opponents)
}

func (r *request) opponents([]string) int {
	var text strings.Builder
	for i, o := range lab.Opponents() {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, "%s\n", strings.Join(append([]string{o.Name}, o.Aliases...), ", "))
		for _, line := range []string{o.Title, "source: " + o.Source, "differs: " + o.Lacks} {
			text.WriteString(indented(line, 4, 80))
		}
	}
	if _, err := io.WriteString(r.stdout, text.String()); err != nil {
		return r.failed(err)
	}
	return cli.ExitOK
}

// indented breaks a text into lines of at most width columns. A word that is longer, as an address
// may be, has a line of its own.
func indented(text string, by, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
			b.WriteString(strings.Repeat(" ", by))
			column = by
		case column+1+len(word) > width:
			b.WriteString("\n" + strings.Repeat(" ", by+2))
			column = by + 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}
