// Command grpcgo runs the test suites of grpc-go twice: as they are, and with gabion put in
// between. It compares which tests pass. A difference that the suite here does not list with its
// reason is a failure, and so is one that is listed and does not occur.
//
// Nothing of theirs is in this repository: a suite is a module of the version that go.mod names,
// copied into a temporary directory and changed there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// suites are all that are run, in the order of the table.
var suites = []Suite{grpcGo, grpcInterop}

func main() {
	only := flag.String("suite", "", "run only the suite of that name")
	write := flag.String("write", "", "write the table into this file")
	flag.Parse()
	if err := run(*only, *write); err != nil {
		fmt.Fprintln(os.Stderr, "grpcgo:", err)
		os.Exit(1)
	}
}

func run(only, write string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	var all []Result
	for _, s := range suites {
		if only != "" && s.Name != only {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s\n", s.Name)
		r, err := s.Compare(root)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no suite %q", only)
	}
	table := Table(all)
	fmt.Print(table)
	if write != "" {
		if err := os.WriteFile(write, []byte(page+table), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
	}
	var bad []string
	for _, r := range all {
		bad = append(bad, r.Problems()...)
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}

const page = `# The suites of grpc-go

` + "`make upstream-grpc`" + ` runs the tests of grpc-go twice: as they are, and with gabion in between, under a policy that limits nothing and repeats
nothing. The table says how many tests passed. A test that passes without gabion and fails with it must be in the list below, with its reason. Any
other difference is a failure. Tests that only have such tests below them are counted, and not listed. The program writes this page.

`
