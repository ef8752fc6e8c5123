// Package importcmd is what gabion import does.
package importcmd

import (
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
	"github.com/gabion-go/gabion/internal/grpcconfig"
)

const usage = `usage: gabion import grpc-service-config FILE [--method METHOD]
              [--dependency NAME] [--exact]

writes the policies that a gRPC service config stands for as gabion's file, one
dependency for each method config. What means something else here is said on
standard error, with its place in FILE.

  FILE               the service config, JSON; - for standard input
  --method METHOD    only what holds for this method, /package.Service/Method
  --dependency NAME  the name of the dependency, where there is one
  --exact            switch off what gabion would add, such as the breaker,
                     the bulkhead, and the budget where the config has none

Exit codes: 0 the policies are written, 1 FILE has mistakes, 2 called wrongly,
3 any other failure.
`

// Command is gabion import: it reads the configuration of another system and writes gabion's file.
func Command() *cobra.Command {
	q := &request{}
	c := cli.Command("grpc-service-config", "the policies that a gRPC service config stands for", usage, q.main)
	c.Flags().StringVar(&q.method, "method", "", "")
	c.Flags().StringVar(&q.dependency, "dependency", "", "")
	c.Flags().BoolVar(&q.options.Exact, "exact", false, "")
	c.SuggestFor = []string{"grpc"}
	return cli.Group("import", "policies from the retry rules of others: gRPC service configs", usage, c)
}

// wrongly says what is wrong with a command line, and then how it should look.
func wrongly(stderr io.Writer, problem string) int {
	fmt.Fprintf(stderr, "%s\n\n%s", problem, usage)
	return cli.ExitUsage
}

func written(stderr io.Writer, write func() error) int {
	if err := write(); err != nil {
		fmt.Fprintln(stderr, "gabion import:", err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// request is what is asked of an import.
type request struct {
	method, dependency string
	options            grpcconfig.Options
}

func (q *request) main(c *cobra.Command, words []string) int {
	stdout, stderr := c.OutOrStdout(), c.ErrOrStderr()
	switch {
	case len(words) == 0:
		return wrongly(stderr, "gabion import grpc-service-config: no file is named")
	case len(words) > 1:
		return wrongly(stderr, fmt.Sprintf("gabion import grpc-service-config: %q is not expected: one file at a time", words[1]))
	}
	name, data, err := read(words[0])
	if err != nil {
		fmt.Fprintln(stderr, "gabion import:", err)
		return cli.ExitFailure
	}
	service, found := grpcconfig.Parse(name, data, q.options)
	if len(found) > 0 {
		show(stderr, "", found)
		return cli.ExitFindings
	}
	return q.write(name, service, stdout, stderr)
}

// read stops where the file would be refused: a path may name something endless.
func read(path string) (name string, data []byte, err error) {
	f, name := os.Stdin, "stdin"
	if path != "-" {
		if f, err = os.Open(path); err != nil {
			return "", nil, err // it names the file
		}
		defer f.Close()
		name = path
	}
	data, err = io.ReadAll(io.LimitReader(f, 2<<20))
	return name, data, err
}

func (q *request) write(name string, c *grpcconfig.Config, stdout, stderr io.Writer) int {
	chosen, problem := q.choose(name, c)
	if problem != "" {
		fmt.Fprintln(stderr, fold.Lines("gabion import: "+problem))
		return cli.ExitUsage
	}
	text := file(name, chosen)
	if _, err := config.Parse(name, []byte(text)); err != nil {
		var found config.Findings
		if errors.As(err, &found) && q.dependency != "" {
			fmt.Fprintln(stderr, fold.Lines("gabion import: --dependency: "+found[0].Reason+": "+found[0].Proposal))
			return cli.ExitUsage
		}
		fmt.Fprintln(stderr, "gabion import: the policies are none that gabion reads:", err)
		return cli.ExitFailure
	}
	show(stderr, "note: ", c.Notes)
	if c.Rest != "" {
		fmt.Fprintf(stderr, "note: this part stays gRPC's; pass it to grpc.WithDefaultServiceConfig:\n%s\n", c.Rest)
	}
	return written(stderr, func() error { _, err := io.WriteString(stdout, text); return err })
}

func show(stderr io.Writer, before string, found []grpcconfig.Finding) {
	for _, f := range found {
		fmt.Fprintln(stderr, fold.Lines(before+f.Error()))
	}
}

// choose returns the policies that are asked for, under the names that they get.
func (q *request) choose(name string, c *grpcconfig.Config) (chosen []grpcconfig.Method, problem string) {
	chosen = slices.Clone(c.Methods)
	if q.method != "" {
		i, ok := c.Find(pathOf(q.method))
		if !ok {
			return nil, fmt.Sprintf("%s has no method config for %s; it has some for %s", name, q.method, all(c.Methods))
		}
		chosen = chosen[i : i+1]
	}
	if q.dependency == "" {
		return chosen, ""
	}
	if len(chosen) != 1 {
		return nil, fmt.Sprintf("--dependency names one policy, and %s has %d, for %s: choose one with --method", name, len(chosen), all(chosen))
	}
	chosen[0].Dependency = q.dependency
	return chosen, ""
}

// pathOf takes a method as people write it: with or without the slash in front, or a
// service alone.
func pathOf(method string) string {
	method = "/" + strings.TrimPrefix(method, "/")
	if strings.Count(method, "/") == 1 {
		method += "/"
	}
	return method
}

// all names the methods of some configs.
func all(methods []grpcconfig.Method) string {
	var names []string
	for _, m := range methods {
		names = append(names, m.Spoken())
	}
	if len(names) == 0 {
		return "no method"
	}
	return strings.Join(names, ", ")
}
