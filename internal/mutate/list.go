package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A listed change stands in a page, with the test that has to notice it.
type listed struct {
	change
	line string // as it is written
	pkg  string // whose tests run
	run  string // which of them; "" means all
}

// fence begins the lines of a list in a page.
const fence = "```mutants"

// readList reads the changes that a page lists between fences, one in a line:
//
//	internal/bulkhead/bulkhead.go: b.released(w) -> @ ./internal/bulkhead TestAllSlotsComeBack
//	internal/machine/open.go Call.Strike: c.whenIdle(now) -> @ ./internal/machine TestAWholeCallsSlot
//
// The code on the left has to be there exactly once, in the function if one is named. Files are
// relative to the current directory.
func readList(page string) (list []listed, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	inside := false
	for n, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside && line == fence
		case inside && strings.TrimSpace(line) != "":
			l, err := parseListed(line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", page, n+1, err)
			}
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s lists no changes between %s and ```", page, fence)
	}
	return list, nil
}

func parseListed(line string) (l listed, err error) {
	l.line = line
	file, rest, ok1 := strings.Cut(line, ": ")
	code, rest, ok2 := strings.Cut(rest, " -> ")
	text, test, ok3 := strings.Cut(" "+rest, " @ ")
	l.pkg, l.run, _ = strings.Cut(strings.TrimSpace(test), " ")
	if !ok1 || !ok2 || !ok3 || l.pkg == "" {
		return l, fmt.Errorf("want FILE: CODE -> CODE @ PACKAGE TEST, not %q", line)
	}
	file, in, _ := strings.Cut(file, " ")
	src, err := os.ReadFile(file)
	if err != nil {
		return l, err
	}
	begin, end := 0, len(src)
	if in != "" {
		if begin, end, err = span(file, src, in); err != nil {
			return l, err
		}
	}
	if times := bytes.Count(src[begin:end], []byte(code)); times != 1 {
		return l, fmt.Errorf("%s has %q %d times, want once: write more or less of the line, or the function's name; or the code no longer gives it back", file, code, times)
	}
	if l.file, err = filepath.Abs(file); err != nil {
		return l, err
	}
	l.from = begin + bytes.Index(src[begin:end], []byte(code))
	l.to, l.text = l.from+len(code), strings.TrimSpace(text)
	return l, nil
}

// playList runs the test of each listed change. A change that its test lets pass is an error,
// as is one that does not compile.
func playList(ctx context.Context, o *options, page string, out io.Writer) error {
	list, err := readList(page)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	j, err := buildJoint(ctx, work, list)
	if err != nil {
		return err
	}
	if err := j.unchanged(ctx, o, list); err != nil {
		return err
	}
	bad := 0
	for i := range list {
		text, err := j.test(ctx, o, &list[i], i)
		f := fateOf(text, err)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d were tried: the time is over", i, len(list))
		}
		if o.tell {
			fmt.Fprintf(out, "%s: noticed by %s\n", list[i].line, strings.Join(failed(text), ", "))
		}
		if f == survived {
			bad++
			fmt.Fprintf(out, "SURVIVED: %s\n", list[i].line)
		}
	}
	fmt.Fprintf(out, "%d changes, %d survived\n", len(list), bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d changes are noticed by no test", bad, len(list))
	}
	return nil
}

// unchanged runs the named tests without any change. They have to pass, and to be there.
func (j *joint) unchanged(ctx context.Context, o *options, list []listed) error {
	for i := range list {
		l := &list[i]
		name := l.pkg + " " + l.run
		if j.took[name] > 0 {
			continue
		}
		begun := time.Now()
		text, err := j.test(ctx, o, l, -1)
		j.took[name] = time.Since(begun)
		if err == nil && bytes.Contains(text, []byte("no tests to run")) {
			err = fmt.Errorf("there is no such test")
		}
		if err != nil {
			return fmt.Errorf("%s, without any change: %w\n%s", name, err, text)
		}
	}
	return nil
}

// failed returns the tests that did not pass, by what they printed.
func failed(text []byte) (names []string) {
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
