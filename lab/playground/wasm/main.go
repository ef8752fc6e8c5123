//go:build js && wasm

// Command wasm is the lab in a browser: it gives the page the function gabionLab, which takes
// a question and returns an answer, both JSON.
package main

import (
	"context"
	"runtime/debug"
	"syscall/js"

	"github.com/gabion-go/gabion/lab/internal/play"
)

func main() {
	debug.SetGCPercent(400) // one thread does all: a fifth to a third less time for some MB more
	js.Global().Set("gabionLab", js.FuncOf(func(_ js.Value, args []js.Value) any {
		return string(play.Answer(context.Background(), []byte(args[0].String())))
	}))
	select {} // the function is called as long as the page is there
}
