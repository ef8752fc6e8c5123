package explaincmd

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/docs"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// meaning is what is said of a reason. Its keys are part of the JSON's version.
type meaning struct {
	Reason  string `json:"reason"`
	Means   string `json:"means"`             // in a few words
	Refused bool   `json:"refused"`           // without asking the dependency
	Setting string `json:"setting,omitempty"` // the one that rules
	Text    string `json:"text,omitempty"`    // of docs/reasons.md, as Markdown
}

func meaningOf(r policy.Reason) meaning {
	return meaning{
		Reason: r.String(), Means: why.Reason(r), Refused: r.Local(),
		Setting: why.Setting(policy.Event{Kind: policy.KindReturned, Reason: r}),
	}
}

// reasonOf returns the reason that a word names.
func reasonOf(word string) (policy.Reason, bool) {
	for _, r := range policy.Reasons() {
		if r.String() == word {
			return r, true
		}
	}
	return policy.None, false
}

func noReason(word string) error {
	var known []string
	for _, r := range policy.Reasons() {
		known = append(known, r.String())
	}
	for _, e := range endings() {
		known = append(known, e.Reason)
	}
	text := fmt.Sprintf("no reason, and no file, is named %q", word)
	if near := suggest.Nearest(word, known); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	} else {
		text += "; gabion explain lists the reasons"
	}
	return wrong{fmt.Errorf("%s", text), false}
}

func (r *request) listReasons() error {
	var b strings.Builder
	var all []meaning
	for _, reason := range policy.Reasons() {
		m := meaningOf(reason)
		all = append(all, m)
		b.WriteString(fold.Lines(fmt.Sprintf("%-21s %s\n", m.Reason, m.Means)))
	}
	if r.json {
		return cli.WriteJSON(r.stdout, struct {
			Version  int       `json:"version"`
			Reasons  []meaning `json:"reasons"`
			Messages []ending  `json:"messages"`
		}{1, all, endings()})
	}
	b.WriteString("\nMessages and dead letters end for these:\n\n")
	for _, e := range endings() {
		b.WriteString(fold.Lines(fmt.Sprintf("%-21s %s\n", e.Reason, e.Means)))
	}
	b.WriteString("\ngabion explain REASON says more.\n")
	return r.print(b.String())
}

func (r *request) explainReason(reason policy.Reason) error {
	m := meaningOf(reason)
	m.Text = section(reason)
	if r.json {
		return cli.WriteJSON(r.stdout, struct {
			Version int `json:"version"`
			meaning
			Message *ending `json:"message,omitempty"` // where it is a reason of messages, too
		}{1, m, endingOf(m.Reason)})
	}
	text := fold.Hang(m.Reason+": "+m.Means, 4) + "\n\n" + plain(m.Text) + "\n"
	if m.Setting != "" {
		text += "\nsetting: " + m.Setting + "\n"
	}
	if e := endingOf(m.Reason); e != nil {
		text += "\n" + e.text()
	}
	return r.print(text)
}

// section is what docs/reasons.md says of a reason, or "".
func section(reason policy.Reason) string {
	_, text, found := strings.Cut(docs.Reasons, "\n### "+reason.String()+"\n")
	if !found {
		return ""
	}
	for _, next := range []string{"\n### ", "\n## "} {
		text, _, _ = strings.Cut(text, next)
	}
	return strings.TrimSpace(text)
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain is Markdown as a terminal shows it, a paragraph to a line that is folded.
func plain(text string) string {
	text = link.ReplaceAllString(strings.ReplaceAll(text, "**", ""), "$1")
	var paragraphs []string
	for p := range strings.SplitSeq(text, "\n\n") {
		paragraphs = append(paragraphs, fold.Hang(strings.Join(strings.Fields(p), " "), 0))
	}
	return strings.Join(paragraphs, "\n\n")
}
