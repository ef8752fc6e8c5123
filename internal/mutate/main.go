// Mutate changes a package in one place at a time and runs its tests on each change. A
// change that all tests let pass, a survivor, is printed with its place: it is equivalent to
// what was there, or does not matter, or wants a test. See docs/mutation.md.
//
//	go run ./internal/mutate -n 50 -seed 1 ./budget
//
// With -list it tries the changes that a page lists, each with the test that has to notice it:
//
//	go run ./internal/mutate -list docs/mutation.md
//
// Nothing in the tree is written: changes are given to the go command as an overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// options say what is run.
type options struct {
	dirs  []string      // the packages that are changed
	with  string        // more packages whose tests are run, separated by spaces
	at    string        // only changes in these files or lines, as they were printed, separated by spaces
	n     int           // how many changes of each package are tried; 0 means all
	seed  uint64        // which ones
	limit time.Duration // how long the tests of one change may run
	total time.Duration // how long all may take; 0 means as long as it takes
	run   string        // only these tests, as for go test -run
	tell  bool          // say which tests notice a listed change
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := Main(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// Main runs the command. Survivors are an error only if a list says that a test notices them.
func Main(ctx context.Context, args []string, out io.Writer) error {
	var o options
	set := flag.NewFlagSet("mutate", flag.ContinueOnError)
	set.StringVar(&o.with, "with", "", "more `packages` whose tests are run, separated by spaces")
	set.StringVar(&o.at, "at", "", "try only the changes of `places`, files or lines such as budget.go or budget.go:77, separated by spaces")
	set.IntVar(&o.n, "n", 50, "how `many` changes of each package are tried; 0 means all")
	set.Uint64Var(&o.seed, "seed", 1, "which changes are tried")
	set.DurationVar(&o.limit, "limit", 30*time.Second, "how `long` the tests of one change may run")
	set.DurationVar(&o.total, "for", 0, "how `long` all may take; 0 means as long as it takes")
	set.BoolVar(&o.tell, "v", false, "with -list: say which tests notice each change")
	list := set.String("list", "", "try the changes that a `page` lists")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	o.dirs = set.Args()
	switch {
	case *list != "" && len(o.dirs) > 0:
		return errors.New("-list takes no packages: the page names them")
	case len(o.dirs) == 0 && *list == "":
		return errors.New("which package? Name its directory, such as ./budget")
	case o.n < 0, o.limit <= 0, o.total < 0:
		return errors.New("-n and -for can't be negative, and -limit has to be more than 0")
	}
	if o.total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.total)
		defer cancel()
	}
	if *list != "" {
		return playList(ctx, &o, *list, out)
	}
	for _, dir := range o.dirs {
		if ctx.Err() != nil {
			fmt.Fprintf(out, "%s: not begun: the time is over\n", dir)
			continue
		}
		if err := mutate(ctx, &o, dir, out); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}
