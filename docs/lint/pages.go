// Package lintpages holds the pages about the linter's rules, so that programs can show
// them without a network. They stand beside it, in docs/lint.
package lintpages

import "embed"

// FS has one file for each rule, such as G010.md. It is read only, and safe for concurrent
// use.
//
//go:embed G*.md
var FS embed.FS
