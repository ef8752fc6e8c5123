package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help is what -h prints.
func Help(c *cobra.Command) string {
	if !c.HasSubCommands() || strings.HasPrefix(c.Long, "usage: ") {
		return c.Long
	}
	var b strings.Builder
	if c.Long != "" {
		b.WriteString(c.Long + "\n\n")
	}
	fmt.Fprintf(&b, "usage: %s <command> [flags]\n", c.CommandPath())
	width := 0
	for _, name := range names(c) {
		width = max(width, len(name))
	}
	list := func(group string) {
		for _, next := range c.Commands() {
			if next.GroupID == group && !next.Hidden {
				fmt.Fprintf(&b, "  %-*s  %s\n", width, next.Name(), next.Short)
			}
		}
	}
	for _, g := range c.Groups() {
		fmt.Fprintf(&b, "\n%s\n", g.Title)
		list(g.ID)
	}
	b.WriteString("\n")
	list("")
	fmt.Fprintf(&b, "\n%s <command> -h says more.\n%s", c.CommandPath(), c.Annotations["after"])
	return b.String()
}

// describe gives each flag what the help says of it, for completions. The help stays the only
// place where that is written.
func describe(c *cobra.Command) {
	c.Flags().SortFlags = false
	about := described(c.Long)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			f.Usage = about["--"+f.Name]
		}
		if f.Usage == "" && f.Shorthand != "" {
			f.Usage = about["-"+f.Shorthand]
		}
	})
}

// described reads from a help what it says of each flag: a line that begins with it, and those
// that go on below.
func described(help string) map[string]string {
	about := map[string]string{}
	var flags []string
	for line := range strings.Lines(help) {
		bare := strings.TrimSpace(line)
		switch {
		case bare == "" || !strings.HasPrefix(line, "  "):
			flags = nil
			continue
		case strings.HasPrefix(bare, "-"):
			head, rest, _ := strings.Cut(bare, "  ")
			flags, bare = nil, strings.TrimSpace(rest)
			for word := range strings.FieldsSeq(strings.ReplaceAll(head, ",", " ")) {
				if strings.HasPrefix(word, "-") {
					flags = append(flags, word)
				}
			}
		}
		for _, f := range flags {
			about[f] = strings.TrimSpace(about[f] + " " + bare)
		}
	}
	return about
}
