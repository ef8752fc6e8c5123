package lab

import (
	"context"
	"io"

	"github.com/gabion-go/gabion/lab/internal/anchor"
)

// An Anchor is a published result that the lab reproduces, with its settings.
type Anchor = anchor.Description

// AnchorFigure is one number that an anchor measures.
type AnchorFigure = anchor.Figure

// AnchorCase is a figure beside what was published, and whether it agrees.
type AnchorCase = anchor.Case

// AnchorError says that an anchor, a setting or its value does not exist.
type AnchorError = anchor.SettingError

// Anchors returns all anchors, in the order in which to show them.
func Anchors() []Anchor { return anchor.Anchors() }

// RunAnchor runs one anchor with the settings given, the others at their defaults.
// The error is an [*AnchorError] where the name or a setting is wrong, or the context's.
func RunAnchor(ctx context.Context, name string, settings map[string]string) ([]AnchorFigure, error) {
	return anchor.Run(ctx, name, settings)
}

// VerifyAnchors runs all anchors and compares them with what was published. Progress, if it
// is not nil, is called before each from the same goroutine.
func VerifyAnchors(ctx context.Context, progress func(done, of int, name string)) ([]AnchorCase, error) {
	return anchor.Verify(ctx, progress)
}

// AnchorsMarkdown writes the cases as a table in Markdown.
func AnchorsMarkdown(w io.Writer, cases []AnchorCase) error { return anchor.Markdown(w, cases) }

// AnchorsJUnit writes the cases as a JUnit report.
func AnchorsJUnit(w io.Writer, cases []AnchorCase) error { return anchor.JUnit(w, cases) }
