// Package docs holds the page about the reasons for which calls end, so that programs can show it
// without a network. It stands beside it, in docs.
package docs

import _ "embed" // for reasons.md

// Reasons is docs/reasons.md.
//
//go:embed reasons.md
var Reasons string
