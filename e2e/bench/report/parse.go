package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// sheet is one table of the report.
type sheet struct {
	title string // of its section
	head  []string
	rows  [][]string
}

var (
	rule   = regexp.MustCompile(`^(\|--[-:])+\|$`)
	figure = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
)

// parse reads a report back and finds what can't be: ragged tables, invalid figures, verdicts
// that do not follow from their figures.
func parse(text string) (sheets []sheet, err error) {
	section := ""
	var open *sheet
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			section, open = strings.TrimPrefix(line, "## "), nil
		case !strings.HasPrefix(line, "|"):
			open = nil
		case rule.MatchString(line):
		case open == nil:
			sheets = append(sheets, sheet{title: section, head: cellsOf(line)})
			open = &sheets[len(sheets)-1]
		default:
			row := cellsOf(line)
			if len(row) != len(open.head) {
				return nil, fmt.Errorf("line %d: %d cells under %d headings", i+1, len(row), len(open.head))
			}
			open.rows = append(open.rows, row)
		}
	}
	for _, s := range sheets {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.title, err)
		}
	}
	return sheets, nil
}

func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func (s sheet) check() error {
	if len(s.rows) == 0 {
		return fmt.Errorf("the table has no rows")
	}
	for _, row := range s.rows {
		for i, head := range s.head {
			known := head == "B" || head == "allocs" || strings.HasPrefix(head, "ns ")
			if known && row[i] != "–" && !figure.MatchString(row[i]) {
				return fmt.Errorf("%s: %q is no figure", row[0], row[i])
			}
		}
		if s.title == "Targets" {
			if err := follows(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// follows checks a target's verdict against its two figures. They are rounded, so
// equal ones say nothing.
func follows(row []string) error {
	verdict := row[4]
	if verdict == "not measured" {
		return nil
	}
	if verdict != yes && verdict != no {
		return fmt.Errorf("%s: %q is no verdict", row[1], verdict)
	}
	measured, err := leading(row[2])
	if err != nil {
		return err
	}
	least, limit := strings.CutPrefix(row[3], "≥ ")
	if !limit {
		least = strings.TrimPrefix(row[3], "≤ ")
	}
	bound, err := leading(least)
	if err != nil {
		return err
	}
	if measured != bound && (verdict == yes) != (limit == (measured > bound)) {
		return fmt.Errorf("%s: %s against %s is not %q", row[1], row[2], row[3], verdict)
	}
	return nil
}

func leading(text string) (float64, error) {
	number, _, _ := strings.Cut(text, " ")
	return strconv.ParseFloat(strings.TrimSuffix(number, "×"), 64)
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
