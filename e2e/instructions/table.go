package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// cost is what one call costs.
type cost struct {
	instructions int
	locked       int // of them, those that lock a cache line

	where map[uint64]cost // the same for each instruction, by its address; of a measured call only
}

func (c cost) plus(d cost) cost {
	return cost{instructions: c.instructions + d.instructions, locked: c.locked + d.locked}
}

func (c cost) same(d cost) bool { return c.instructions == d.instructions && c.locked == d.locked }

// places says in which functions the instructions of a call were, and those that lock, most first. With lines
// it says in which lines of the source.
func (c cost) places(lines bool) string {
	in := map[string]cost{}
	for at, n := range c.where {
		name := "?"
		if f := runtime.FuncForPC(uintptr(at)); f != nil { // the child is the same program
			name = f.Name()
			if lines {
				file, line := f.FileLine(uintptr(at))
				name = fmt.Sprintf("%s:%d %s", filepath.Base(file), line, name)
			}
		}
		in[name] = in[name].plus(n)
	}
	names := slices.SortedFunc(maps.Keys(in), func(a, b string) int {
		return cmp.Or(in[b].instructions-in[a].instructions, strings.Compare(a, b))
	})
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%6d %4d  %s\n", in[name].instructions, in[name].locked, name)
	}
	return b.String()
}

type row struct {
	name string
	cost
	about string
}

type table struct {
	system string // the Go version and what of the processor decides which code runs
	rows   []row
}

// tolerated is how much more than the table says a call may cost.
const tolerated = 0.02

// worse says which calls cost more than t says, or are missing in one of the two.
func (t *table) worse(now *table) (says []string) {
	for _, r := range t.rows {
		n := now.find(r.name)
		if n == nil {
			says = append(says, r.name+": is in the table and is not counted")
			continue
		}
		says = append(says, grew(r.name, "instructions", r.instructions, n.instructions)...)
		says = append(says, grew(r.name, "locked instructions", r.locked, n.locked)...)
	}
	for _, n := range now.rows {
		if t.find(n.name) == nil {
			says = append(says, fmt.Sprintf("%s: is not in the table; it costs %d instructions, %d locked", n.name, n.instructions, n.locked))
		}
	}
	return says
}

// worse reports whether a call costs more than is tolerated.
func worse(was, is cost) bool {
	return len(grew("", "", was.instructions, is.instructions)) > 0 || len(grew("", "", was.locked, is.locked)) > 0
}

func grew(name, what string, was, is int) []string {
	if float64(is) <= float64(was)*(1+tolerated) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d %s, and the table says %d: %+.1f %%", name, is, what, was, 100*(float64(is)/float64(max(was, 1))-1))}
}

// better says which calls cost less than t says, for the table to be written again.
func (t *table) better(now *table) (says []string) {
	for _, n := range now.rows {
		if r := t.find(n.name); r != nil {
			says = append(says, shrank(n.name, "instructions", r.instructions, n.instructions)...)
			says = append(says, shrank(n.name, "locked instructions", r.locked, n.locked)...)
		}
	}
	return says
}

func shrank(name, what string, was, is int) []string {
	if float64(is) >= float64(was)*(1-tolerated) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d %s, %d in the table", name, is, what, was)}
}

// differs says why the two cannot be compared, if they cannot: another minor version of Go
// compiles other code, and another processor runs other code of the standard library.
func (t *table) differs(now *table) string {
	was, wasCPU, _ := strings.Cut(t.system, " ")
	is, isCPU, _ := strings.Cut(now.system, " ")
	if minor(was) != minor(is) {
		return fmt.Sprintf("the table is of %s, and this is %s", was, is)
	}
	if wasCPU != isCPU {
		return fmt.Sprintf("the table is of a processor with %q, and this one has %q", wasCPU, isCPU)
	}
	if was != is {
		fmt.Printf("The table is of %s, and this is %s.\n", was, is)
	}
	return ""
}

// minor is go1.26 of go1.26.8.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

func (t *table) find(name string) *row {
	for i := range t.rows {
		if t.rows[i].name == name {
			return &t.rows[i]
		}
	}
	return nil
}

const heading = `# Instructions and locked instructions of one call, counted one by one.
# Written by make instructions ARGS=-write, never by hand. make instructions compares:
# a call that costs 2 % more fails, and a change that is worth that writes this table.
`

// String writes the table as parse reads it.
func (t *table) String() string {
	var b strings.Builder
	b.WriteString(heading)
	fmt.Fprintf(&b, "system %s\n", t.system)
	for _, r := range t.rows {
		fmt.Fprintf(&b, "%-18s %6d %4d  %s\n", r.name, r.instructions, r.locked, r.about)
	}
	return b.String()
}

func parse(text string) (*table, error) {
	t := new(table)
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		if s, ok := strings.CutPrefix(line, "system "); ok {
			t.system = s
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d: want a name and two numbers: %q", n, line)
		}
		instructions, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		locked, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		t.rows = append(t.rows, row{f[0], cost{instructions: instructions, locked: locked}, strings.Join(f[3:], " ")})
	}
	return t, lines.Err()
}

// system names the Go version and those features of the processor for which the standard library
// has code of its own and which frozen does not switch off.
func system() string {
	s := runtime.Version()
	info, _ := os.ReadFile("/proc/cpuinfo") // without it the system has no features that are known
	for line := range strings.Lines(string(info)) {
		flags, ok := strings.CutPrefix(line, "flags")
		if !ok {
			continue
		}
		for _, want := range []string{"aes", "avx2", "bmi2", "sha_ni"} {
			if strings.Contains(flags+" ", " "+want+" ") || strings.Contains(flags, " "+want+"\n") {
				s += " " + want
			}
		}
		break
	}
	return s
}
