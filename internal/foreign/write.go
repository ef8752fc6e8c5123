package foreign

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/spelled"
	"github.com/gabion-go/gabion/policy"
)

// Write writes policies as gabion's file. Above is written at its top, as a comment. Place says
// where a line of what was read stands, such as vs.yaml:12; each written line ends with that of
// its key. If exact is set the file does what the other system does, and not the nearest that
// keeps gabion's defaults.
func Write(above string, routes []Route, exact bool, place func(line int) string) string {
	var b strings.Builder
	if above != "" {
		fmt.Fprintf(&b, "# %s\n", finding.Printable(above))
	}
	b.WriteString("version: 1\ndependencies:\n")
	if len(routes) == 0 {
		b.WriteString("  {}\n")
	}
	for i := range routes {
		r := &routes[i]
		p := r.Policy
		if exact {
			p = r.Plays
		}
		fmt.Fprintf(&b, "  # %s\n  %s:%s", finding.Printable(r.Title), strconv.Quote(r.Dependency), comment(place, r.Line))
		writePolicy(&b, p, r, place)
	}
	return b.String()
}

func writePolicy(b *strings.Builder, p policy.Policy, r *Route, place func(line int) string) {
	settings := spelled.Written(p)
	if len(settings) == 0 {
		b.WriteString("    {}\n")
	}
	var open []string
	for _, s := range settings {
		path := strings.Split(s.Path, ".")
		sections, key := path[:len(path)-1], path[len(path)-1]
		for i, section := range sections {
			if i < len(open) && open[i] == section {
				continue
			}
			fmt.Fprintf(b, "%s%s:\n", strings.Repeat("  ", i+2), section)
			open = append(open[:i:i], section)
		}
		open = open[:min(len(open), len(sections))]
		fmt.Fprintf(b, "%s%s: %s%s", strings.Repeat("  ", len(path)+1), key, s.Value, comment(place, r.line(s.Path)))
	}
}

// line is where a written key comes from: its own line, that of the section around it, or the
// route's.
func (r *Route) line(path string) int {
	for {
		if line := r.From[path]; line > 0 {
			return line
		}
		dot := strings.LastIndexByte(path, '.')
		if dot < 0 {
			return r.Line
		}
		path = path[:dot]
	}
}

func comment(place func(line int) string, line int) string {
	if line == 0 {
		return "\n"
	}
	return " # " + finding.Printable(place(line)) + "\n"
}
