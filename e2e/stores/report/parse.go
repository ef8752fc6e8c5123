package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parse reads a report back and finds what can't be: tables that are ragged or missing, invalid
// figures, verdicts that do not follow from their figures.
func parse(text string) error {
	if !strings.Contains(text, "Written by `make bench`, never by hand") {
		return errors.New("it does not say that it is written by make bench")
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
			rows[section]++
			if err := checkRow(section, cellsOf(line), columns); err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
		}
	}
	if rows["Pairs"] < len(twins) || rows["Targets"] != len(targets()) {
		return fmt.Errorf("%d contestants and %d targets", rows["Pairs"], rows["Targets"])
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

func checkRow(section string, row []string, columns int) error {
	if len(row) != columns {
		return fmt.Errorf("%d cells under %d headings", len(row), columns)
	}
	if section == "Targets" {
		return follows(row)
	}
	if row[1] == none {
		return nil
	}
	for _, cell := range row[1:5] {
		if _, err := strconv.ParseFloat(cell, 64); err != nil {
			return fmt.Errorf("%s: %q is no figure", row[0], cell)
		}
	}
	return nil
}

// follows checks a verdict against its two figures. They are rounded, so equal ones say
// nothing.
func follows(row []string) error {
	verdict := row[3]
	if verdict == none {
		return nil
	}
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
	return strconv.ParseFloat(strings.TrimSuffix(number, "×"), 64)
}
