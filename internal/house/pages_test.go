package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// index is the page from which a reader gets to all others.
const index = "docs/README.md"

// unreached finds pages of docs that no link leads to, from the index on. A link to a
// directory leads to the pages in it, which a forge lists.
func unreached(fsys fs.FS) (found []string, err error) {
	pages := map[string]markdown{}
	err = walk(fsys, func(name string) error {
		if path.Ext(name) != ".md" || !strings.HasPrefix(name, "docs/") {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		pages[name] = parseMarkdown(string(text))
		return err
	})
	if err != nil {
		return nil, err
	}
	reached := map[string]bool{index: true}
	for next := []string{index}; len(next) > 0; {
		page := next[0]
		next = next[1:]
		for _, to := range linked(pages, page) {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for name := range pages {
		if !reached[name] {
			found = append(found, name+": no link leads to it")
		}
	}
	return found, nil
}

// linked are the pages that one links to.
func linked(pages map[string]markdown, from string) (to []string) {
	for _, l := range pages[from].links {
		target, _, _ := strings.Cut(l.target, "#")
		if target == "" || strings.Contains(target, ":") {
			continue
		}
		target = path.Join(path.Dir(from), target)
		if _, ok := pages[target]; ok {
			to = append(to, target)
			continue
		}
		for name := range pages {
			if path.Dir(name) == target {
				to = append(to, name)
			}
		}
	}
	return to
}

func TestEveryPageIsReached(t *testing.T) {
	keep(t, unreached, `Add a line for the page to docs/README.md, or link to it from a page that belongs to it.`)

	prove(t, unreached, []specimen{
		{"by a link, by a link of a page, and by one to a directory", map[string]string{
			"docs/README.md": "[a](a.md#x) [lint](lint) [web](https://example.com/e.md)\n", "docs/a.md": "# X\n[b](p/b.md)\n",
			"docs/p/b.md": "[up](../a.md)\n", "docs/lint/G1.md": "", "docs/lint/G2.md": "", "README.md": "",
		}, nil},
		{"pages that only link to others", map[string]string{
			"docs/README.md": "[a](a.md)\n", "docs/a.md": "", "docs/b.md": "[a](a.md)\n", "docs/lint/G1.md": "`[b](b.md)`",
		}, []string{"docs/b.md: no link", "docs/lint/G1.md: no link"}},
	})
}

const metricsPage = "docs/metrics.md"

// A metric in prose or in a table: `gabion_calls_total`. Recordings have colons.
var metricName = regexp.MustCompile("`(gabion_[a-z_]+)[`{]")

// plannedMetric is the line of one that is not there yet.
var plannedMetric = regexp.MustCompile("(?m)^\\| `.*\\*\\*Planned.*$")

// unknownMetrics finds names of metrics, in any document, that the page of metrics does
// not have, or has as planned.
func unknownMetrics(fsys fs.FS) (found []string, err error) {
	text, err := fs.ReadFile(fsys, metricsPage)
	if err != nil {
		return []string{metricsPage + " is missing"}, nil //nolint:nilerr // that is the finding
	}
	exposed := plannedMetric.ReplaceAllString(string(text), "")
	err = walk(fsys, func(name string) error {
		if path.Ext(name) != ".md" || dated.MatchString(name) || name == metricsPage {
			return nil
		}
		page, err := fs.ReadFile(fsys, name)
		for i, line := range strings.Split(string(page), "\n") {
			for _, m := range metricName.FindAllStringSubmatch(line, -1) {
				if !strings.Contains(exposed, "\n| `"+m[1]+"` |") {
					found = append(found, fmt.Sprintf("%s:%d: no metric is called %s", name, i+1, m[1]))
				}
			}
		}
		return err
	})
	return found, err
}

func TestMetricsOfThePagesExist(t *testing.T) {
	keep(t, unknownMetrics, `docs/metrics.md has all metrics.`)

	metrics := "| metric |\n| `gabion_calls_total` | counter |\n| `gabion_some_day` | gauge | **Planned, not exposed yet.** X |\n"
	prove(t, unknownMetrics, []specimen{
		{"one that is there", map[string]string{
			metricsPage: metrics, "docs/a.md": "`gabion_calls_total` and `gabion_calls_total{outcome=\"ok\"}`, `gabion lint`\n",
		}, nil},
		{"one that is not, in any document", map[string]string{
			metricsPage: metrics, "docs/p/a.md": "x\n`gabion_calls`\n", "README.md": "`gabion_retries_total`\n`gabion_some_day`\n",
		}, []string{"README.md:1: no metric", "README.md:2: no metric", "docs/p/a.md:2: no metric"}},
	})
}

// sections are what each page of a pattern has, in this order.
var sections = []string{"What", "When", "When not", "How", "Defaults", "What shows it", "Pitfalls"}

var patternPage = regexp.MustCompile(`^docs/patterns/[^/]+\.md$`)

// unlikePatterns finds pages of patterns that lack a section, or a link of a pitfall, or
// are too long for one sitting.
func unlikePatterns(fsys fs.FS) (found []string, err error) {
	err = walk(fsys, func(name string) error {
		if !patternPage.MatchString(name) {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		found = append(found, unlike(name, strings.Split(string(text), "\n"))...)
		return err
	})
	return found, err
}

func unlike(name string, lines []string) (found []string) {
	var has []string
	snippet, pitfalls := false, 0
	for i, line := range lines {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			has = append(has, title)
		}
		snippet = snippet || strings.HasPrefix(line, "```")
		if len(has) > 0 && has[len(has)-1] == "Pitfalls" && strings.HasPrefix(line, "* ") {
			pitfalls++
			if bullet, _, _ := strings.Cut(strings.Join(lines[i+1:], "\n"), "\n* "); !strings.Contains(line+bullet, "](") {
				found = append(found, fmt.Sprintf("%s:%d: a pitfall without a link", name, i+1))
			}
		}
	}
	if got := strings.Join(has, ", "); got != strings.Join(sections, ", ") {
		found = append(found, fmt.Sprintf("%s: it has the sections %s", name, got))
	}
	if pitfalls == 0 || !snippet || len(lines) > 121 {
		found = append(found, fmt.Sprintf("%s: %d pitfalls, a snippet: %v, %d lines", name, pitfalls, snippet, len(lines)-1))
	}
	return found
}

func TestPatternsHaveTheSameSections(t *testing.T) {
	keep(t, unlikePatterns, `A page of a pattern has the sections `+strings.Join(sections, ", ")+`; a snippet; for each pitfall a link to its rule
or to the page that has more; and at most 120 lines.`)

	page := "# A\n## " + strings.Join(sections, "\n## ") + "\n* one, of two lines:\n  [G001](../lint/G001.md)\n* [two](b.md)\n```yaml\n```\n"
	prove(t, unlikePatterns, []specimen{
		{"a whole page, and others", map[string]string{"docs/patterns/a.md": page, "docs/b.md": ""}, nil},
		{"a section is missing, and a link", map[string]string{
			"docs/patterns/a.md": strings.Replace(strings.Replace(page, "## When not\n", "", 1), "[two](b.md)", "two", 1),
		}, []string{"docs/patterns/a.md: it has the sections What, When, How", "docs/patterns/a.md:10: a pitfall without"}},
		{"no snippet, and too long", map[string]string{"docs/patterns/a.md": strings.ReplaceAll(page, "```", strings.Repeat("\n", 60))}, []string{"docs/patterns/a.md: 2 pitfalls, a snippet: false"}},
	})
}
