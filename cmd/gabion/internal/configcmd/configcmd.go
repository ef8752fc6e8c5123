// Package configcmd is what gabion schema and gabion config do.
package configcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

const schemaUsage = `usage: gabion schema

prints the JSON Schema of gabion's file, for editors
`

const usage = `usage: gabion config check   FILE
       gabion config print   -f FILE [--dependency NAME] [--reveal]
       gabion config explain -f FILE [NAME[.PATH]] [--why] [--live URL] [--json]
                             [--reveal]

check    says what is wrong with the file, and nothing else
print    writes the effective policies as YAML, every default included
explain  says of every effective value where it comes from, and what follows

  -f FILE            the file, - for standard input
  --dependency NAME  only this one
  --why              explain also why each default is what it is; usual where
                     a NAME is given
  --live URL         show also what a running program's page says of the budget
                     for retries now: how many are left, and how many of the
                     last 50 helped. It says too how many calls may be out at
                     once, how many found no slot, and whether the breaker
                     opens at another row of failures than the file says. URL
                     is the page's, such as http://127.0.0.1:8080/debug/gabion/
  --json             write JSON
  --reveal           show what variables hold, not how the file writes it

Exit codes: 0 the file is fine, 1 it has mistakes, 2 called wrongly, 3 any
other failure.
`

// Schema is gabion schema: it prints the JSON Schema of the configuration file.
func Schema() *cobra.Command {
	return cli.Command("schema", "the JSON Schema of the configuration file", schemaUsage, func(c *cobra.Command, words []string) int {
		if len(words) > 0 {
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[0]))
		}
		return written(c.OutOrStdout().Write(config.Schema()))(c.ErrOrStderr())
	})
}

// Command is gabion config: it checks, prints or explains the effective policies of a file.
func Command() *cobra.Command {
	return cli.Group("config", "what a configuration file means, and where each value comes from", usage,
		checkCommand(), printCommand(), explainCommand())
}

// request is what the commands are asked.
type request struct {
	path, dependency, live string
	reveal, asJSON, whys   bool
	stdout, stderr         io.Writer
}

// command is one of the three.
func (r *request) command(name, says string, run func(c *cobra.Command, words []string) int) *cobra.Command {
	c := cli.Command(name, says, usage, func(c *cobra.Command, words []string) int {
		r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
		return run(c, words)
	})
	c.Flags().StringVarP(&r.path, "file", "f", "", "")
	c.Flags().BoolVar(&r.reveal, "reveal", false, "")
	return c
}

// open reads the file, after it was asked whether there are more words than that. A code of 0
// or more ends the command.
func (r *request) open(c *cobra.Command, words []string, most int) (f *config.File, code int) {
	if problem := r.problem(words, most); problem != "" {
		return nil, cli.Wrongly(c, problem)
	}
	f, err := Load(r.path)
	var found config.Findings
	switch {
	case errors.As(err, &found):
		fmt.Fprintln(r.stderr, fold.Lines(found.Error()))
		return nil, cli.ExitFindings
	case err != nil:
		fmt.Fprintln(r.stderr, "gabion config:", err)
		return nil, cli.ExitFailure
	}
	return f, -1
}

// problem says what is missing of a request, or too much.
func (r *request) problem(words []string, most int) string {
	switch {
	case r.path == "" && len(words) > 0:
		return fmt.Sprintf("no file is named: -f FILE is missing; if %q is the file, write -f %s", words[0], words[0])
	case r.path == "":
		return "no file is named: -f FILE is missing"
	case len(words) > most:
		return fmt.Sprintf("%q is not expected", words[most])
	}
	return ""
}

// Load reads a file of policies, or standard input for -.
func Load(path string) (*config.File, error) {
	if path != "-" {
		return config.Load(path)
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, 2<<20)) // Parse refuses more than half of it
	if err != nil {
		return nil, err
	}
	return config.Parse("stdin", data)
}

func printCommand() *cobra.Command {
	r := &request{}
	c := r.command("print", "write the effective policies as YAML, every default included", r.print)
	c.Flags().StringVar(&r.dependency, "dependency", "", "")
	return c
}

func (r *request) print(c *cobra.Command, words []string) int {
	f, code := r.open(c, words, 0)
	if code >= 0 {
		return code
	}
	var names []string
	if r.dependency != "" {
		if f.Explain(r.dependency) == nil {
			return unknown(f, r.dependency, r.stderr)
		}
		names = []string{r.dependency}
	}
	return written(io.WriteString(r.stdout, policyfile.Of(f).YAML(r.reveal, names...)))(r.stderr)
}

func explainCommand() *cobra.Command {
	r := &request{}
	c := r.command("explain", "say of every effective value where it comes from", r.explain)
	c.Flags().BoolVar(&r.whys, "why", false, "")
	c.Flags().StringVar(&r.live, "live", "", "")
	c.Flags().BoolVar(&r.asJSON, "json", false, "")
	return c
}

func (r *request) explain(c *cobra.Command, words []string) int {
	f, code := r.open(c, words, 1)
	if code >= 0 {
		return code
	}
	stdout, stderr := r.stdout, r.stderr
	var lines []line
	for _, name := range f.Names() {
		lines = append(lines, linesOf(f, name, r.reveal)...)
	}
	if len(words) > 0 {
		lines = under(lines, words[0])
		if len(lines) == 0 {
			return unknown(f, words[0], stderr)
		}
	}
	e := explanation{Version: 1, File: f.Name, Settings: lines, Notes: notesOn(f, lines)}
	if r.live != "" {
		var err error
		if e.Live, err = levelsOf(c.Context(), r.live, lines); err != nil {
			fmt.Fprintln(stderr, "gabion config explain: --live:", err)
			if errors.As(err, new(notAPage)) {
				return cli.ExitUsage
			}
			return cli.ExitFailure
		}
	}
	if r.asJSON {
		return e.writeJSON(stdout, stderr)
	}
	var out strings.Builder
	writeTable(&out, lines)
	if r.whys || len(words) > 0 {
		writeWhys(&out, lines)
	}
	for _, n := range e.Notes {
		out.WriteString(fold.Lines(fmt.Sprintf("note: %s: %s\n", n.Dependency, n.Text)))
	}
	if len(words) == 0 {
		writeProxy(&out, f)
	}
	for _, n := range e.Live {
		out.WriteString(fold.Lines(fmt.Sprintf("now: %s: %s\n", n.Dependency, n.Text)))
	}
	return written(io.WriteString(stdout, out.String()))(stderr)
}

// writeProxy says what gabion proxy would do with requests, by its listeners.
func writeProxy(out *strings.Builder, f *config.File) {
	for _, l := range f.Proxy.Listen {
		for _, says := range gabionproxy.Describe(l) {
			out.WriteString(fold.Lines(fmt.Sprintf("proxy: %s: %s\n", l.Address, says)))
		}
	}
}

// line is one setting of one dependency. Its keys are part of the JSON's version.
type line struct {
	Dependency string `json:"dependency"`
	Path       string `json:"path"`
	Value      string `json:"value"`
	Source     string `json:"source"`
	Why        string `json:"why,omitempty"` // of a default
}

func linesOf(f *config.File, name string, reveal bool) (lines []line) {
	settings := f.Explain
	if reveal {
		settings = policyfile.Of(f).Reveal
	}
	for _, s := range settings(name) {
		lines = append(lines, line{name, s.Path, s.Value, s.Source, s.Why})
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

// explanation is what explain writes as JSON.
type explanation struct {
	Version  int    `json:"version"`
	File     string `json:"file"`
	Settings []line `json:"settings"`
	Notes    []note `json:"notes"`
	Live     []note `json:"live,omitempty"` // what a page says of the budgets and the room
}

func (e explanation) writeJSON(stdout, stderr io.Writer) int {
	out := json.NewEncoder(stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if e.Settings == nil {
		e.Settings = []line{}
	}
	return written(0, out.Encode(e))(stderr)
}

// unknown reports a word that names no dependency, or no key of the dependency that it begins with.
func unknown(f *config.File, word string, stderr io.Writer) int {
	who, what, has := f.Name, word, f.Names()
	for _, name := range f.Names() {
		if path, ok := strings.CutPrefix(word, name+"."); ok {
			who, what, has = name, path, sectionsOf(f, name)
		}
	}
	name, path, dotted := strings.Cut(word, ".")
	near := suggest.Nearest(name, has)
	switch {
	case who != f.Name:
		near = nearest(what, f.Explain(who))
	case near != "" && dotted:
		near += "." + path
	}
	if near != "" {
		near = "; did you mean " + near + "?"
	}
	fmt.Fprintf(stderr, "gabion config: %s has no %q; it has %s%s\n", who, what, strings.Join(has, ", "), near)
	return cli.ExitUsage
}

// nearest is the path that was most likely meant, or "": each word of it is held
// against those that can stand in its place.
func nearest(path string, settings []policy.Setting) string {
	found := ""
	for word := range strings.SplitSeq(path, ".") {
		var words []string
		for _, s := range settings {
			if rest, ok := strings.CutPrefix(s.Path, found); ok {
				next, _, _ := strings.Cut(rest, ".")
				words = append(words, next)
			}
		}
		near := suggest.Nearest(word, words)
		if near == "" {
			return ""
		}
		found += near + "."
	}
	return strings.TrimSuffix(found, ".")
}

// sectionsOf returns the keys of a dependency, in the order in which they are shown.
func sectionsOf(f *config.File, name string) (keys []string) {
	for _, s := range f.Explain(name) {
		key, _, _ := strings.Cut(s.Path, ".")
		keys = append(keys, key)
	}
	return slices.Compact(keys)
}

// written turns the outcome of a write into an exit code.
func written(_ int, err error) func(stderr io.Writer) int {
	return func(stderr io.Writer) int {
		if err == nil {
			return cli.ExitOK
		}
		fmt.Fprintln(stderr, "gabion:", err)
		return cli.ExitFailure
	}
}
