// Instructions counts what calls cost: the instructions that the processor executes for one call, and
// how many of them lock a cache line. It runs each call one instruction at a time, so that the
// figures repeat whatever else the machine does. Then it compares them with table.txt.
//
//	go run ./instructions          # as make instructions does
//	go run ./instructions -write   # writes table.txt
//	go run ./instructions -of do   # says in which functions the instructions of one call are, and those that lock
//	go run ./instructions -of do -lines   # says in which lines
//
// Counted is what the thread of the caller executes, the Go runtime included. Not counted are the
// kernel, the kernel's code in the process that reads the clock, and other threads. The clock stands still
// while a call is counted.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// child names, in the environment of a child, the call that it makes.
const child = "GABION_INSTRUCTIONS_OF"

// errUnavailable says that this system does not let a process step through another one.
var errUnavailable = errors.New("not available")

func init() { runtime.LockOSThread() } // one thread steps, and one is stepped through

func main() {
	if name := os.Getenv(child); name != "" {
		repeat(find(name))
		return
	}
	write := flag.Bool("write", false, "write the table instead of comparing with it")
	file := flag.String("table", filepath.Join("instructions", "table.txt"), "the `file` of the table")
	of := flag.String("of", "", "the `name` of one call, of which the functions are printed in which its instructions are")
	lines := flag.Bool("lines", false, "with -of: print lines instead of functions")
	flag.Parse()
	err := run(*file, *write, *of, *lines)
	switch {
	case errors.Is(err, errUnavailable):
		fmt.Println("SKIP: instructions:", err)
	case err != nil:
		fmt.Println("FAIL: instructions:", err)
		os.Exit(1)
	}
}

func run(file string, write bool, of string, lines bool) error {
	if of != "" {
		c, err := typical(find(of))
		fmt.Print(c.places(lines))
		return err
	}
	now, err := measure()
	if err != nil {
		return err
	}
	if write {
		return os.WriteFile(file, []byte(now.String()), 0o644)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	why := before.differs(now)
	if why == "" {
		if err := now.again(before); err != nil {
			return err
		}
	}
	fmt.Print(now)
	if why != "" {
		fmt.Println("NOT COMPARED:", why)
		return nil
	}
	for _, s := range before.better(now) {
		fmt.Println("Fewer than the table says:", s)
	}
	if worse := before.worse(now); len(worse) > 0 {
		for _, s := range worse {
			fmt.Println(s)
		}
		return errors.New("calls cost more than 2 % more than the table says. If the change is worth that, say so in its commit, with the table written by make instructions ARGS=-write")
	}
	fmt.Println("PASS: instructions")
	return nil
}

// measure counts every call. What counting itself adds is taken off.
func measure() (*table, error) {
	t := &table{system: system()}
	none, err := typical(find(empty))
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		if c.name == empty {
			continue
		}
		n, err := typical(&c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		t.rows = append(t.rows, row{c.name, cost{instructions: n.instructions - none.instructions, locked: n.locked - none.locked}, c.about})
	}
	return t, nil
}

// again counts calls that cost more than before says twice more, in other children, and keeps the least: the seed of a map's
// hash is another in each child, and in one of dozens a call costs two per cent more by it.
func (t *table) again(before *table) error {
	for i := range t.rows {
		r := &t.rows[i]
		was := before.find(r.name)
		for range 2 {
			if was == nil || !worse(was.cost, r.cost) {
				break
			}
			none, err := typical(find(empty))
			if err != nil {
				return err
			}
			n, err := typical(find(r.name))
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.instructions, r.locked = min(r.instructions, n.instructions-none.instructions), min(r.locked, n.locked-none.locked)
		}
	}
	return nil
}

// typical counts a call. A child whose other threads were stopped while one of them held a lock of
// the runtime's does not come to its end, and is replaced.
func typical(c *kase) (n cost, err error) {
	for range 3 {
		if n, err = count(c.name); err == nil || errors.Is(err, errUnavailable) {
			break
		}
	}
	return n, err
}
