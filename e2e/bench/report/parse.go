package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/gabion-go/gabion/internal/report"
)

// parse reads a report back and finds what can't be: see report.Read, and invalid figures.
func parse(text string) ([]report.Sheet, error) {
	sheets, err := report.Read(text, "bench")
	if err != nil {
		return nil, err
	}
	for _, s := range sheets {
		for _, row := range s.Rows {
			for i, head := range s.Head {
				known := head == "B" || head == "allocs" || strings.HasPrefix(head, "ns ")
				if known && row[i] != "–" && !report.IsFigure(row[i]) {
					return nil, fmt.Errorf("%s: %s: %q is no figure", s.Title, row[0], row[i])
				}
			}
		}
	}
	return sheets, nil
}

// block returns what stands between the marks.
func block(text string) (string, bool) {
	_, after, found := strings.Cut(text, openMark)
	inside, _, closed := strings.Cut(after, closeMark)
	return strings.TrimSpace(inside), found && closed
}

// intoReadme puts the headline table between the marks of README, or behind a
// mark that stands alone. A README without a mark is left as it is.
func intoReadme(page string) error {
	if *readme == "" {
		return nil
	}
	text, err := os.ReadFile(*readme)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), openMark)
	if !found {
		return nil
	}
	if _, rest, closed := strings.Cut(after, closeMark); closed {
		after = rest
	}
	table, _ := block(page)
	text = []byte(before + openMark + "\n" + table + "\n" + closeMark + after)
	return os.WriteFile(*readme, text, 0o644)
}
