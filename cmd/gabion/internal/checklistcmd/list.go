package checklistcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
)

// list is a checklist. Its keys are part of the JSON's version.
type list struct {
	Version int      `json:"version"`
	File    string   `json:"file"`
	Answers string   `json:"answers"`           // the file of answers
	Asked   int      `json:"asked"`             // questions
	Open    int      `json:"open"`              // open, stale, or answered with no
	Items   []item   `json:"items"`             // all, or those that are open
	Orphans []string `json:"orphans,omitempty"` // dependencies with answers that the file does not have
}

func (l *list) write(w io.Writer, format string) (err error) {
	switch format {
	case "json":
		if l.Items == nil {
			l.Items = []item{}
		}
		return cli.WriteJSON(w, l)
	case "markdown":
		_, err = io.WriteString(w, l.markdown())
	default:
		_, err = io.WriteString(w, l.text())
	}
	return err
}

// heading is what items are shown under.
func (i item) heading() string {
	if i.Dependency == "" {
		return "the program"
	}
	return i.Dependency
}

// who says who answered, when, and how that was found out.
func (i item) who() string {
	if i.State == isOpen || i.State == isStale {
		return i.Note
	}
	text := i.By
	if i.At != "" {
		text += ", " + string(i.At)
	}
	if i.Note != "" {
		text += ": " + i.Note
	}
	return text
}

func (l *list) text() string {
	var b strings.Builder
	last := ""
	for _, i := range l.Items {
		if head := i.heading(); head != last {
			if last != "" {
				b.WriteString("\n")
			}
			b.WriteString(head + "\n")
			last = head
		}
		state := cmp.Or(map[string]string{"not-applicable": "n/a"}[i.State], i.State)
		b.WriteString(fold.Hang(fmt.Sprintf("  %s %-5s %s", i.ID, state, i.Question), 12) + "\n")
		for _, more := range []string{i.who(), i.Check} {
			if more == "" || more == i.Check && i.settled() {
				continue
			}
			if more == i.Check {
				more = "to find out: " + more
			}
			b.WriteString(fold.Hang("            "+more, 14) + "\n")
		}
	}
	if len(l.Items) > 0 {
		b.WriteString("\n")
	}
	for _, name := range l.Orphans {
		b.WriteString(fold.Lines(fmt.Sprintf("note: %s has answers for %s, which %s does not have\n", l.Answers, name, l.File)))
	}
	b.WriteString(l.count() + "\n")
	return b.String()
}

func (l *list) count() string {
	if l.Open == 0 {
		return fmt.Sprintf("all of %d questions are answered", l.Asked)
	}
	return fmt.Sprintf("%d of %d questions are open", l.Open, l.Asked)
}

// inMarkdown keeps a text from meaning something in Markdown.
var inMarkdown = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "<", "&lt;", "|", `\|`, "\n", " ", "\r", " ", "@", "&#64;")

func (l *list) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Checklist of %s\n\n%s.\n", inMarkdown.Replace(l.File), l.count())
	last := ""
	for _, i := range l.Items {
		if head := i.heading(); head != last {
			fmt.Fprintf(&b, "\n### %s\n\n", inMarkdown.Replace(head))
			last = head
		}
		box := "[ ]"
		if i.settled() {
			box = "[x]"
		}
		fmt.Fprintf(&b, "- %s **%s** %s: %s", box, i.ID, inMarkdown.Replace(i.Question), i.State)
		if who := i.who(); who != "" {
			fmt.Fprintf(&b, " (%s)", inMarkdown.Replace(who))
		}
		if !i.settled() {
			fmt.Fprintf(&b, "<br>to find out: %s", inMarkdown.Replace(i.Check))
		}
		b.WriteString("\n")
	}
	for _, name := range l.Orphans {
		fmt.Fprintf(&b, "\nThere are answers for %s, which the file does not have.\n", inMarkdown.Replace(name))
	}
	return b.String()
}
