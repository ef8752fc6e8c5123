// Command build makes the playground's program for browsers of a checkout and puts it into
// the directory that it is given, from where gabion embeds it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gabion-go/gabion/lab/playground"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build DIR")
		os.Exit(2)
	}
	if err := playground.Build(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(3)
	}
}
