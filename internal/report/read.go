package report

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Sheet is one table of a page.
type Sheet struct {
	Title string // of its section
	Head  []string
	Rows  [][]string
}

var (
	rule   = regexp.MustCompile(`^(\|--[-:])+\|$`)
	figure = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
)

// IsFigure reports whether a cell is a number.
func IsFigure(cell string) bool { return figure.MatchString(cell) }

// Read reads a page back that target of make writes, and finds what can't be: tables that are ragged or
// have no rows, and verdicts in the section Targets that do not follow from their figures.
func Read(text, target string) (sheets []Sheet, err error) {
	if !strings.Contains(text, "Written by `make "+target+"`, never by hand") {
		return nil, errors.New("it does not say that it is written by make " + target)
	}
	section, inside := "", false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			section, inside = strings.TrimPrefix(line, "## "), false
		case !strings.HasPrefix(line, "|"):
			inside = false
		case rule.MatchString(line):
		case !inside:
			sheets, inside = append(sheets, Sheet{Title: section, Head: cellsOf(line)}), true
		default:
			open := &sheets[len(sheets)-1]
			row := cellsOf(line)
			if len(row) != len(open.Head) {
				return nil, fmt.Errorf("line %d: %d cells under %d headings", i+1, len(row), len(open.Head))
			}
			open.Rows = append(open.Rows, row)
		}
	}
	for _, s := range sheets {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Title, err)
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

func (s Sheet) check() error {
	if len(s.Rows) == 0 {
		return errors.New("the table has no rows")
	}
	if s.Title != "Targets" {
		return nil
	}
	// What it is, what was measured, the target and the verdict stand in this order.
	at := slices.IndexFunc(s.Head, func(h string) bool { return strings.EqualFold(h, "target") })
	if at < 2 || at+1 == len(s.Head) {
		return errors.New("there is no column for the targets")
	}
	for _, row := range s.Rows {
		if err := follows(row[at-2], row[at-1], row[at], row[at+1]); err != nil {
			return err
		}
	}
	return nil
}

// follows checks a verdict against its two figures. They are rounded, so equal ones say nothing.
func follows(what, figure, target, verdict string) error {
	if verdict == NotMeasured || verdict == NotKnown {
		return nil
	}
	if verdict != Met && verdict != NotMet {
		return fmt.Errorf("%s: %q is no verdict", what, verdict)
	}
	text, least := strings.CutPrefix(target, "≥ ")
	measured, err1 := leading(figure)
	bound, err2 := leading(strings.TrimPrefix(text, "≤ "))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if measured != bound && verdict != Verdict(measured, least, bound) {
		return fmt.Errorf("%s: %s against %s is not %q", what, figure, target, verdict)
	}
	return nil
}

func leading(text string) (float64, error) {
	number, _, _ := strings.Cut(text, " ")
	if number == "∞" {
		return math.Inf(1), nil
	}
	return strconv.ParseFloat(strings.TrimSuffix(number, "×"), 64)
}
