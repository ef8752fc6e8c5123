// Package configcmd is what gabion schema and gabion config do.
package configcmd

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gabion-go/gabion/config"
)

// The exit codes of every gabion command.
const (
	exitOK       = 0
	exitFindings = 1 // the file has mistakes
	exitUsage    = 2 // the command was called wrongly
	exitFailure  = 3 // something else went wrong
)

const usage = `usage: gabion config print   -f FILE [--dependency NAME] [--reveal]
       gabion config explain -f FILE [NAME[.PATH]] [--json] [--reveal]

print    writes the effective policies as YAML, every default included
explain  says of every effective value where it comes from

FILE may be - for standard input. Values that come from variables are shown as
the file writes them, unless --reveal is given.
`

// Schema prints the JSON Schema of the configuration file.
func Schema(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gabion schema", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: gabion schema\n\nprints the JSON Schema of gabion's file, for editors")
	}
	words, code := parse(flags, args)
	if code >= 0 {
		return code
	}
	if len(words) > 0 {
		flags.Usage()
		return exitUsage
	}
	return written(stdout.Write(config.Schema()))(stderr)
}

// Config prints or explains the effective policies of a file.
func Config(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "print":
			return printFile(args[1:], stdout, stderr)
		case "explain":
			return explain(args[1:], stdout, stderr)
		case "-h", "-help", "--help", "help":
			fmt.Fprint(stdout, usage)
			return exitOK
		}
		fmt.Fprintf(stderr, "gabion config: unknown command %q\n\n", args[0])
	}
	fmt.Fprint(stderr, usage)
	return exitUsage
}

// request is what both commands are asked.
type request struct {
	flags  *flag.FlagSet
	path   string
	reveal bool
	stderr io.Writer
}

func newRequest(name string, stderr io.Writer) *request {
	r := &request{flags: flag.NewFlagSet(name, flag.ContinueOnError), stderr: stderr}
	r.flags.SetOutput(stderr)
	r.flags.Usage = func() { fmt.Fprint(stderr, usage) }
	r.flags.StringVar(&r.path, "f", "", "the file, - for standard input")
	r.flags.BoolVar(&r.reveal, "reveal", false, "show what variables hold")
	return r
}

// open reads the flags and the file. A code of 0 or more ends the command.
func (r *request) open(args []string, most int) (f *config.File, words []string, code int) {
	words, code = parse(r.flags, args)
	if code >= 0 {
		return nil, nil, code
	}
	if r.path == "" || len(words) > most {
		fmt.Fprint(r.stderr, usage)
		return nil, nil, exitUsage
	}
	f, err := load(r.path)
	var found config.Findings
	switch {
	case errors.As(err, &found):
		fmt.Fprintln(r.stderr, found)
		return nil, nil, exitFindings
	case err != nil:
		fmt.Fprintln(r.stderr, "gabion config:", err)
		return nil, nil, exitFailure
	}
	return f, words, -1
}

func load(path string) (*config.File, error) {
	if path != "-" {
		return config.Load(path)
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, 2<<20)) // Parse refuses more than half of it
	if err != nil {
		return nil, err
	}
	return config.Parse("stdin", data)
}

// parse takes flags before, between and after words. A code of 0 or more ends the
// command.
func parse(flags *flag.FlagSet, args []string) (words []string, code int) {
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, exitOK
		case err != nil:
			return nil, exitUsage
		}
		if flags.NArg() == 0 {
			return words, -1
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}

func printFile(args []string, stdout, stderr io.Writer) int {
	r := newRequest("gabion config print", stderr)
	name := r.flags.String("dependency", "", "print this one only")
	f, _, code := r.open(args, 0)
	if code >= 0 {
		return code
	}
	var names []string
	if *name != "" {
		if f.Explain(*name) == nil {
			return nobody(f, *name, stderr)
		}
		names = []string{*name}
	}
	return written(io.WriteString(stdout, f.YAML(r.reveal, names...)))(stderr)
}

func explain(args []string, stdout, stderr io.Writer) int {
	r := newRequest("gabion config explain", stderr)
	asJSON := r.flags.Bool("json", false, "write JSON")
	f, words, code := r.open(args, 1)
	if code >= 0 {
		return code
	}
	var lines []line
	for _, name := range f.Names() {
		lines = append(lines, linesOf(f, name, r.reveal)...)
	}
	if len(words) > 0 {
		lines = under(lines, words[0])
		if len(lines) == 0 {
			return nobody(f, words[0], stderr)
		}
	}
	if *asJSON {
		return writeJSON(f.Name, lines, stdout, stderr)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tSOURCE")
	for _, l := range lines {
		fmt.Fprintf(table, "%s.%s\t%s\t%s\n", l.Dependency, l.Path, l.Value, l.Source)
	}
	return written(0, table.Flush())(stderr)
}

// line is one setting of one dependency. Its keys are part of the JSON's version.
type line struct {
	Dependency string `json:"dependency"`
	Path       string `json:"path"`
	Value      string `json:"value"`
	Source     string `json:"source"`
}

func linesOf(f *config.File, name string, reveal bool) (lines []line) {
	for _, s := range f.Explain(name) {
		if reveal {
			s.Value = s.Reveal()
		}
		lines = append(lines, line{name, s.Path, s.Value, s.Source})
	}
	return lines
}

// under keeps what a word names: a dependency, a section or a key. A key of a
// section that is off is answered by the section.
func under(lines []line, word string) []line {
	return slices.DeleteFunc(lines, func(l line) bool {
		full := l.Dependency + "." + l.Path
		off := l.Value == "off" && strings.HasPrefix(word, full+".")
		return word != l.Dependency && word != full && !strings.HasPrefix(full, word+".") && !off
	})
}

func writeJSON(file string, lines []line, stdout, stderr io.Writer) int {
	out := json.NewEncoder(stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if lines == nil {
		lines = []line{}
	}
	return written(0, out.Encode(struct {
		Version  int    `json:"version"`
		File     string `json:"file"`
		Settings []line `json:"settings"`
	}{1, file, lines}))(stderr)
}

func nobody(f *config.File, name string, stderr io.Writer) int {
	fmt.Fprintf(stderr, "gabion config: %s has no %q; it has %s\n", f.Name, name, strings.Join(f.Names(), ", "))
	return exitUsage
}

// written turns the outcome of a write into an exit code.
func written(_ int, err error) func(stderr io.Writer) int {
	return func(stderr io.Writer) int {
		if err == nil {
			return exitOK
		}
		fmt.Fprintln(stderr, "gabion:", err)
		return exitFailure
	}
}
