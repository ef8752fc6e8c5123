// Package playground is the lab in a browser: a page on which an outage, its clients and
// their policy can be changed with sliders, while four clients run side by side.
//
// The page is static. It runs the lab's own code, compiled to WebAssembly, and asks nothing
// of a network but its own files: [Page] and what [Build] makes. The command
// gabion playground serves both.
package playground

import (
	"context"
	"embed"
	"io/fs"

	"github.com/gabion-go/gabion/lab/internal/play"
)

//go:embed page
var page embed.FS

// The files that [Build] makes, and that [Page] does not have.
const (
	Program = "lab.wasm.gz"  // the lab, for browsers
	Loader  = "wasm_exec.js" // what starts it: a file of the Go distribution that compiled it
)

// Policy is the Content-Security-Policy to serve the page's files with. Nothing else than
// they is loaded, and no script is inline.
const Policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page returns the files of the page but for the program and its loader. Its first is
// index.html; they name each other relatively.
func Page() fs.FS {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the name is a valid one
	}
	return files
}

// Answer answers a question of the page, as the program in the browser does: digit by digit
// the same. Both are JSON; what is wrong with a question is in the answer's key problem. It
// is safe for concurrent use.
func Answer(ctx context.Context, question []byte) []byte { return play.Answer(ctx, question) }
