package main

import (
	"fmt"
	"slices"

	"github.com/gabion-go/gabion/internal/report"
)

// parse reads a report back and finds what can't be: see report.Read, and tables that are missing.
func parse(text string) error {
	sheets, err := report.Read(text, "overload")
	if err != nil {
		return err
	}
	for _, section := range []string{"Targets", "What the lab said", "How it is measured"} {
		if !slices.ContainsFunc(sheets, func(s report.Sheet) bool { return s.Title == section }) {
			return fmt.Errorf("there is nothing in %q", section)
		}
	}
	return nil
}
