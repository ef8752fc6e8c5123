package lintcmd

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	lintpages "github.com/gabion-go/gabion/docs/lint"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/suggest"
)

// ruleOf returns the rule with an id or a name.
func ruleOf(word string) (lint.Rule, error) {
	var known []string
	for _, rule := range lint.Rules() {
		if strings.EqualFold(word, rule.ID) || word == rule.Name {
			return rule, nil
		}
		known = append(known, rule.ID, rule.Name)
	}
	return lint.Rule{}, fmt.Errorf("there is no rule %.40q: %s", word, suggest.For(word, known, "gabion lint --list lists them"))
}

// ruleLine is a rule in JSON. Its keys are part of the JSON's version.
type ruleLine struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Severity lint.Severity `json:"severity"`
	Title    string        `json:"title"`
	Needs    []string      `json:"needs,omitempty"` // facts
	Page     string        `json:"page"`
	Text     string        `json:"text,omitempty"` // the page, as Markdown
}

func lineOf(rule lint.Rule) ruleLine {
	return ruleLine{ID: rule.ID, Name: rule.Name, Severity: rule.Severity, Title: rule.Title, Needs: rule.Needs, Page: rule.Page()}
}

// listRules lists the rules.
func (r *request) listRules() error {
	var b strings.Builder
	var all []ruleLine
	for _, rule := range lint.Rules() {
		all = append(all, lineOf(rule))
		b.WriteString(fold.Hang(fmt.Sprintf("%s %-7s %s: %s", rule.ID, rule.Severity, rule.Name, rule.Title), 13) + "\n")
	}
	if r.format == "json" {
		return cli.WriteJSON(r.stdout, struct {
			Version int        `json:"version"`
			Rules   []ruleLine `json:"rules"`
		}{1, all})
	}
	b.WriteString("\ngabion lint --explain ID says more.\n")
	return r.print(b.String())
}

// explainRule shows the page of a rule.
func (r *request) explainRule() error {
	rule, err := ruleOf(r.explain)
	if err != nil {
		return wrong{fmt.Errorf("--explain: %w", err)}
	}
	page, err := lintpages.FS.ReadFile(rule.ID + ".md")
	if err != nil {
		return err
	}
	if r.format == "json" {
		line := lineOf(rule)
		line.Text = string(page)
		return cli.WriteJSON(r.stdout, struct {
			Version int `json:"version"`
			ruleLine
		}{1, line})
	}
	return r.print(plain(string(page)))
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain is a page as a terminal shows it: paragraphs are folded, and blocks of code are
// indented.
func plain(page string) string {
	var b, paragraph strings.Builder
	flush := func() {
		if paragraph.Len() > 0 {
			text := link.ReplaceAllString(paragraph.String(), "$1")
			b.WriteString(fold.Hang(strings.Join(strings.Fields(text), " "), 0) + "\n")
			paragraph.Reset()
		}
	}
	code := false
	for line := range strings.Lines(page) {
		bare := strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(bare, "```"):
			flush()
			code = !code
		case code:
			b.WriteString("    " + bare + "\n")
		case bare == "" || strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, "|") || strings.HasPrefix(bare, "- "):
			flush()
			if bare = strings.TrimLeft(bare, "# "); bare == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") {
				b.WriteString(bare + "\n")
			} else {
				paragraph.WriteString(line)
			}
		default:
			paragraph.WriteString(line)
		}
	}
	flush()
	return b.String()
}

func (r *request) print(text string) error {
	_, err := io.WriteString(r.stdout, text)
	return err
}
