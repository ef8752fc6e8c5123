package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parse reads a report back and finds what can't be: tables that are ragged or missing,
// verdicts that do not follow from their figures.
func parse(text string) error {
	if !strings.Contains(text, "Written by `make overload`, never by hand") {
		return errors.New("it does not say what it is written by")
	}
	section, columns, rows := "", 0, map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			section, columns = strings.TrimPrefix(line, "## "), 0
		case !strings.HasPrefix(line, "|"), strings.HasPrefix(line, "|--"):
		case columns == 0:
			columns = len(cellsOf(line))
		default:
			row := cellsOf(line)
			if len(row) != columns {
				return fmt.Errorf("line %d: %d cells under %d headings", i+1, len(row), columns)
			}
			rows[section]++
			if section == "Targets" {
				if err := follows(row); err != nil {
					return fmt.Errorf("line %d: %w", i+1, err)
				}
			}
		}
	}
	for _, section := range []string{"Targets", "What the lab said", "How it is measured"} {
		if rows[section] == 0 {
			return fmt.Errorf("there is nothing in %q", section)
		}
	}
	return nil
}

func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// follows checks a verdict against its two figures. They are rounded, so equal ones say
// nothing.
func follows(row []string) error {
	verdict := row[3]
	if verdict != yes && verdict != no {
		return fmt.Errorf("%s: %q is no verdict", row[0], verdict)
	}
	text, least := strings.CutPrefix(row[2], "≥ ")
	measured, err1 := leading(row[1])
	bound, err2 := leading(strings.TrimPrefix(text, "≤ "))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if measured != bound && (verdict == yes) != (least == (measured > bound)) {
		return fmt.Errorf("%s: %s against %s is not %q", row[0], row[1], row[2], verdict)
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
