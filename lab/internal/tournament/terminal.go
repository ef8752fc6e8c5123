package tournament

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// shownLosses is how many losses a terminal shows; the page has all.
const shownLosses = 12

// Terminal writes the tables and the largest losses, at most 80 columns wide but for
// the commands, which are to be copied.
func (r *Result) Terminal(w io.Writer, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d entrants in %d scenarios, about %s calls%s\n", r.Title, len(r.Entrants), len(r.Worlds), r.calls(), r.seed())
	for i := range r.Groups {
		r.table(&b, &r.Groups[i], color)
	}
	b.WriteString("\n" + legend)
	r.kindTable(&b)
	r.losses(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// calls spells how many calls there were.
func (r *Result) calls() string {
	if r.Calls < 1e6 {
		return fixed(r.Calls/1e3, 0) + " thousand"
	}
	return fixed(r.Calls/1e6, 0) + " million"
}

// seed says which seed it was, if it is not that of each scenario.
func (r *Result) seed() string {
	switch r.Seed {
	case 0:
		return ""
	case ValidationSeed:
		return ", on the validation seed"
	}
	return fmt.Sprintf(", on seed %d", r.Seed)
}

const legend = `  load: attempts in the trouble for each call that needs one; dead load: that
  after the first 10 s of a dependency that answers nothing; peak after: the
  busiest second after the trouble, to those before; stay down: % of runs
  *  on the front: no other is better at answers, load or recovery without being
     worse at another of them
  + -  better or worse than the first, resolved in pairs; unmarked is neither
`

func (r *Result) table(b *strings.Builder, g *Group, color bool) {
	fmt.Fprintf(b, "\n%s: %d, %d runs each\n", g.Name, g.Worlds, g.Replications)
	fmt.Fprintf(b, "%-17s%8s%8s%7s%6s%5s%5s%7s%6s%6s%5s\n", "", "in time", "in the", "failed", "load", "", "dead", "recov-", "", "peak", "stay")
	fmt.Fprintf(b, "%-17s%8s%8s%7s%6s%5s%5s%7s%6s%6s%5s\n", "", "all % ", "trouble", "s/call", "mean ", "worst", "load", "ery s ", "worst", "after", "down")
	for e := range g.Rows {
		row, name := &g.Rows[e], r.Entrants[e].Name
		front := " "
		if row.Front {
			front = "*"
		}
		line := fmt.Sprintf("%s%s%s", pad(front+cut(name, 16), 17), marked(row, answered, 8), marked(row, trouble, 8)) +
			marked(row, failing, 7) + marked(row, load, 6) + left(load.show(row.Worst[load]), 5) +
			left(load.show(row.Dead), 5) + marked(row, recovery, 7) + left(recovery.show(row.Worst[recovery]), 6) +
			left(peak.show(row.Worst[peak]), 6) + left(percent(row.StaysDown.Value), 5)
		if color && r.Entrants[e].Judged {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\n")
	}
}

// marked is a mean and whether it is better or worse than the first's.
func marked(row *Row, k column, width int) string {
	return left(k.show(row.Mean[k]), width-1) + sign(row.Verdict[k])
}

// left sets a text against the right edge of width columns.
func left(s string, width int) string {
	return strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0)) + s
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// losses writes the first of them.
func (r *Result) losses(b *strings.Builder) {
	breaks := 0
	for i := range r.Losses {
		if r.Losses[i].Breaks {
			breaks++
		}
	}
	if len(r.Losses) == 0 {
		b.WriteString("\nno loss is resolved\n")
		return
	}
	fmt.Fprintf(b, "\n%d losses are resolved, %d of them of more than a point of answers to the plain\nclient or to one whose load is not higher", len(r.Losses), breaks)
	if len(r.Losses) > shownLosses {
		fmt.Fprintf(b, "; the first %d", shownLosses)
	}
	b.WriteString(":\n")
	for i := range r.Losses[:min(len(r.Losses), shownLosses)] {
		l := &r.Losses[i]
		fmt.Fprintf(b, "  %s\n    %s\n", folded(l.Sentence(), 78), l.Command)
	}
}

// folded breaks a text into lines of width columns, those after the first indented by four.
func folded(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n    ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
