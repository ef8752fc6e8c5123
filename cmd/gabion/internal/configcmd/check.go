package configcmd

import (
	"fmt"
	"io"

	"github.com/gabion-go/gabion/cmd/gabion/internal/arguments"
)

// check reads a file and says what is wrong with it. The file is named by itself or
// with -f, as for the other words.
func check(args []string, stdout, stderr io.Writer) int {
	r := newRequest("gabion config check", stdout, stderr)
	words, code := arguments.Parse(r.flags, args, usage, stdout)
	switch {
	case code >= 0:
		return code
	case r.path == "" && len(words) == 1:
		args = []string{"-f", words[0]}
	case len(words) > 0:
		return wrongly(stderr, fmt.Sprintf("gabion config check: %q is not expected: one file at a time", words[len(words)-1]), usage)
	}
	r = newRequest("gabion config check", stdout, stderr)
	f, _, code := r.open(args, 0)
	if code >= 0 {
		return code
	}
	count := fmt.Sprintf("%d dependencies", len(f.Names()))
	if len(f.Names()) == 1 {
		count = "1 dependency"
	}
	return written(fmt.Fprintf(stdout, "%s: %s, no mistakes\n", f.Name, count))(stderr)
}
