package report

import "github.com/gabion-go/gabion/lab/internal/scenario"

// Value writes a value in a metric's unit, as the report does: 0.5 of unit Share is
// "50 %". What is infinite is "never", and what is unknown a dash.
func Value(x float64, unit string) string { return measure(x, unit) }

// Interval writes where the truth lies, and nothing where that is not bounded or no wider
// than the value as it is written. Nothing that is measured is below zero.
func Interval(e scenario.Estimate, unit string) string { return interval(e, unit) }

// HeadName is what a headline is called where there is little room.
func HeadName(h *scenario.Headline) string { return headName(h) }
