// Package importcmd is what gabion import does.
package importcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/theirs"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/formats"
)

func usage() string {
	var list strings.Builder
	for _, f := range formats.All() {
		fmt.Fprintf(&list, "  %-20s %s\n", f.Name, f.Title)
	}
	return `usage: gabion import [FORMAT] FILE... [--route NAME] [--dependency NAME]
              [--exact] [--verbose]

writes the policies that the files of another system stand for as gabion's file,
one dependency for each route, client or method. Each line says from which line
it comes. What means nearly the same, what is lost and what is not known is said
on standard error.

  FORMAT             what the files are; left out, it is guessed:
` + fold.Lines(indented(list.String())) + `  FILE               one or several that belong together; - for standard input
  --route NAME       only this route, by its dependency's name or its title;
                     --method METHOD is the same, with gRPC's rules:
                     /package.Service/Method
  --dependency NAME  the name of the dependency, where there is one
  --exact            write what the other system does, its defaults included,
                     and not what gabion would add to it
  --verbose          name also what stays where it is, and every place

Exit codes: 0 the policies are written, 1 a FILE has mistakes or no policy,
2 called wrongly, 3 any other failure.
`
}

func indented(list string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(list, "\n"), "\n", "\n  ") + "\n"
}

// request is what is asked of an import.
type request struct {
	route, method, dependency string
	exact, verbose            bool
	stdout, stderr            io.Writer
}

// Command is gabion import: it reads the configuration of another system and writes gabion's file.
func Command() *cobra.Command {
	q := &request{}
	c := cli.Command("import", "policies from the files of others: meshes, libraries, gRPC", usage(), q.main)
	c.Flags().StringVar(&q.route, "route", "", "")
	c.Flags().StringVar(&q.method, "method", "", "")
	c.Flags().StringVar(&q.dependency, "dependency", "", "")
	c.Flags().BoolVar(&q.exact, "exact", false, "")
	c.Flags().BoolVar(&q.verbose, "verbose", false, "")
	return c
}

func (q *request) main(c *cobra.Command, words []string) int {
	q.stdout, q.stderr = c.OutOrStdout(), c.ErrOrStderr()
	format, files, err := formatOf(words)
	if err != nil {
		return cli.Wrongly(c, err.Error())
	}
	r, err := theirs.Open(format, files...)
	if err == nil && len(r.Wrong) > 0 {
		err = r.Wrong
	}
	if err != nil {
		return q.refused(err)
	}
	return q.write(r)
}

// formatOf takes the format from the words of the command line, if the first of them is one.
func formatOf(words []string) (format string, files []string, err error) {
	if len(words) == 0 {
		return "", nil, errors.New("no file is named")
	}
	first := words[0]
	found, err := formats.Find(first)
	switch {
	case err == nil && len(words) == 1:
		return "", nil, errors.New("no file is named after " + first)
	case err == nil:
		return found.Name, words[1:], nil
	case first == "-" || strings.ContainsAny(first, `/\.`):
		return "", words, nil
	}
	if _, missing := os.Stat(first); missing != nil {
		return "", nil, err // no file of that name: it was to be a format
	}
	return "", words, nil
}

// refused says why files are not read.
func (q *request) refused(err error) int {
	if found, ok := errors.AsType[finding.Findings](err); ok {
		fmt.Fprintln(q.stderr, fold.Lines(found.Error()))
		return cli.ExitFindings
	}
	fmt.Fprintln(q.stderr, fold.Lines("gabion import: "+err.Error()))
	if errors.As(err, new(formats.NoFormat)) {
		return cli.ExitUsage
	}
	return cli.ExitFailure
}

func (q *request) write(r *formats.Reading) int {
	chosen, problem := q.choose(r)
	if problem == "" && len(r.Routes) == 0 {
		fmt.Fprint(q.stderr, fold.Lines(theirs.Remarks(r, q.verbose)))
		fmt.Fprintln(q.stderr, fold.Lines("gabion import: "+r.Sources[0].Name+": no route, client or method has a policy, so there is nothing to write"))
		return cli.ExitFindings
	}
	if problem != "" {
		fmt.Fprintln(q.stderr, fold.Lines("gabion import: "+problem))
		return cli.ExitUsage
	}
	text := r.Write(chosen, q.exact)
	if _, err := config.Parse(r.Sources[0].Name, []byte(text)); err != nil {
		if found, is := errors.AsType[config.Findings](err); is && q.dependency != "" {
			fmt.Fprintln(q.stderr, fold.Lines("gabion import: --dependency: "+found[0].Reason+": "+found[0].Proposal))
			return cli.ExitUsage
		}
		fmt.Fprintln(q.stderr, "gabion import: the policies are none that gabion reads:", err)
		return cli.ExitFailure
	}
	fmt.Fprint(q.stderr, fold.Lines(theirs.Remarks(r, q.verbose)))
	if r.Stays != "" {
		fmt.Fprintf(q.stderr, "this part stays the other system's, gRPC's by grpc.WithDefaultServiceConfig:\n%s\n", r.Stays)
	}
	if _, err := io.WriteString(q.stdout, text); err != nil {
		fmt.Fprintln(q.stderr, "gabion import:", err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// choose returns the routes that are asked for, under the names that they get.
func (q *request) choose(r *formats.Reading) (chosen []foreign.Route, problem string) {
	chosen = r.Routes
	name := q.route + q.method
	switch {
	case q.route != "" && q.method != "":
		return nil, "--route and --method are the same: write one"
	case name != "":
		i, ok := r.Find(name)
		if !ok {
			return nil, fmt.Sprintf("%s has no route for %s; it has %s", r.Sources[0].Name, name, titles(chosen))
		}
		chosen = []foreign.Route{chosen[i]}
	}
	if q.dependency == "" {
		return chosen, ""
	}
	if len(chosen) != 1 {
		return nil, fmt.Sprintf("--dependency names one policy, and %s has %d, %s: choose one with --route", r.Sources[0].Name, len(chosen), titles(chosen))
	}
	one := chosen[0]
	one.Dependency = q.dependency
	return []foreign.Route{one}, ""
}

// titles names routes.
func titles(routes []foreign.Route) string {
	const most = 12
	var names []string
	for i := range routes[:min(len(routes), most)] {
		names = append(names, routes[i].Title)
	}
	switch {
	case len(names) == 0:
		return "none"
	case len(routes) > most:
		names = append(names, fmt.Sprintf("and %d more", len(routes)-most))
	}
	return strings.Join(names, ", ")
}
