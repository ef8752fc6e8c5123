package main

import (
	"fmt"

	"github.com/gabion-go/gabion/internal/report"
)

// parse reads a report back and finds what can't be: see report.Read, invalid figures, and rows that are missing.
func parse(text string) error {
	sheets, err := report.Read(text, "bench")
	if err != nil {
		return err
	}
	rows := map[string]int{}
	for _, s := range sheets {
		rows[s.Title] = len(s.Rows)
		if s.Title != "Pairs" {
			continue
		}
		for _, row := range s.Rows {
			for _, cell := range row[1:5] {
				if row[1] != report.NotMeasured && !report.IsFigure(cell) {
					return fmt.Errorf("%s: %q is no figure", row[0], cell)
				}
			}
		}
	}
	if rows["Pairs"] < len(twins) || rows["Targets"] != len(targets()) {
		return fmt.Errorf("%d contestants and %d targets", rows["Pairs"], rows["Targets"])
	}
	return nil
}
