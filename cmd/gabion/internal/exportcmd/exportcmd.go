// Package exportcmd is what gabion export does.
package exportcmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/configcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/wholefile"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/export"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/record"
)

const usage = `usage: gabion export --to FORMAT FILE [--dependency NAME] [--host HOST]
                     [-o OUT | --check OUT]

writes the policies of gabion's file as another system's, and says on standard
error what was kept, what was kept nearly, and what is lost and then happens.
What is not declared safe gets no rule by which a proxy repeats a POST that may
have arrived.

  FILE               gabion's file, - for standard input
  --to FORMAT        istio, envoy, gateway-api, linkerd, dapr or grpc
  --dependency NAME  only this one
  --host HOST        where it is called, HOST or HOST:PORT; usual is its name.
                     Of dapr it is the app's id, and of grpc the service
  -o OUT             write the file here, and not on standard output
  --check OUT        write nothing: exit 1, with the difference, where OUT is
                     not what would be written

Exit codes: 0 all is well, 1 FILE has mistakes or OUT is stale, 2 called
wrongly, 3 any other failure.
`

// Command is gabion export: it writes policies as the files of other systems.
func Command() *cobra.Command {
	r := &request{}
	c := cli.Command("export", "policies as files of Istio, Envoy, Linkerd, gRPC and others", usage, r.main)
	c.Flags().StringVar(&r.to, "to", "", "")
	c.Flags().StringVar(&r.dependency, "dependency", "", "")
	c.Flags().StringVar(&r.host, "host", "", "")
	c.Flags().StringVarP(&r.out, "output", "o", "", "")
	c.Flags().StringVar(&r.check, "check", "", "")
	_ = c.RegisterFlagCompletionFunc("to", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return export.Names(), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// request is what is asked of an export.
type request struct {
	to, dependency, host, out, check string

	file *config.File
}

func (r *request) main(c *cobra.Command, words []string) int {
	if problem := r.problem(words); problem != "" {
		return cli.Wrongly(c, problem)
	}
	format, err := export.Find(r.to)
	if err != nil {
		return cli.Wrongly(c, "--to: "+err.Error())
	}
	stderr := c.ErrOrStderr()
	var found config.Findings
	switch r.file, err = configcmd.Load(words[0]); {
	case errors.As(err, &found):
		fmt.Fprintln(stderr, fold.Lines(found.Error()))
		return cli.ExitFindings
	case err != nil:
		return failed(stderr, err)
	}
	names, problem := r.names(format)
	if problem != "" {
		fmt.Fprintln(stderr, fold.Lines("gabion export: "+problem))
		return cli.ExitUsage
	}
	text, says := r.text(format, filepath.Base(words[0]), names)
	if r.check != "" {
		return r.compare(text, c.OutOrStdout(), stderr)
	}
	fmt.Fprint(stderr, fold.Lines(says))
	if r.out != "" {
		err = wholefile.Replace(r.out, []byte(text), 0o644)
	} else {
		_, err = io.WriteString(c.OutOrStdout(), text)
	}
	if err != nil {
		return failed(stderr, err)
	}
	return cli.ExitOK
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "gabion export:", err)
	return cli.ExitFailure
}

// problem says what is missing of a command line, or too much.
func (r *request) problem(words []string) string {
	switch {
	case r.to == "":
		return "--to FORMAT is missing: " + strings.Join(export.Names(), ", ")
	case len(words) == 0:
		return "no file is named"
	case len(words) > 1:
		return fmt.Sprintf("%q is not expected: one file at a time", words[1])
	case r.out != "" && r.check != "":
		return "-o writes a file and --check writes none: name one of them"
	case strings.ContainsAny(r.host, " \t\r\n"):
		return fmt.Sprintf("--host: %q has a blank", r.host)
	}
	return ""
}

// names are the dependencies that are asked for.
func (r *request) names(f *export.Format) (names []string, problem string) {
	all := r.file.Names()
	_, there := r.file.Policies[r.dependency]
	switch {
	case r.dependency != "" && !there:
		return nil, fmt.Sprintf("--dependency: %s has no %s: %s", r.file.Name, r.dependency, suggest.For(r.dependency, all, "it has "+cmp.Or(strings.Join(all, ", "), "none")))
	case r.dependency != "":
		return []string{r.dependency}, ""
	case len(all) == 0:
		return nil, r.file.Name + " has no dependency"
	case len(all) > 1 && f.Single:
		return nil, fmt.Sprintf("a file of %s is of one dependency, and %s has %s: choose one with --dependency", f.Name, r.file.Name, strings.Join(all, ", "))
	case len(all) > 1 && r.host != "":
		return nil, fmt.Sprintf("--host is of one dependency, and %s has %s: choose one with --dependency", r.file.Name, strings.Join(all, ", "))
	}
	return all, ""
}

// text is the file, and what is said of it.
func (r *request) text(f *export.Format, file string, names []string) (text, says string) {
	var b, said strings.Builder
	for i, name := range names {
		p := r.file.Policies[name]
		e := f.Write(export.Dependency{Name: name, Host: r.host, Policy: p})
		if i > 0 {
			b.WriteString("---\n")
			said.WriteString("\n")
		}
		if f.Comment != "" {
			fmt.Fprintf(&b, "%smade by gabion export --to %s from %s of %s\n%spolicy %s\n", f.Comment, f.Name, name, file, f.Comment, record.PolicyHash(p))
		}
		b.WriteString(e.Text)
		said.WriteString(told(name, f, e))
	}
	fmt.Fprintf(&said, "\n%s\n", f.Note)
	return b.String(), said.String()
}

// told shows what became of a policy.
func told(name string, f *export.Format, e export.Export) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", name, f.Title)
	for _, part := range []struct {
		fate  foreign.Fate
		title string
	}{{foreign.Kept, "kept"}, {foreign.Nearly, "kept nearly"}, {foreign.Lost, "lost"}} {
		title := "  " + part.title + ":\n"
		for _, row := range e.Rows {
			if row.Fate != part.fate {
				continue
			}
			b.WriteString(title)
			title = ""
			head := "    " + row.Key
			if row.Value != "" {
				head += " " + row.Value
			}
			if row.Target != "" {
				head += " -> " + row.Target
			}
			b.WriteString(head + "\n")
			if row.Text != "" {
				b.WriteString("        " + row.Text + "\n")
			}
		}
	}
	return b.String()
}

// compare says whether a file is what would be written.
func (r *request) compare(text string, stdout, stderr io.Writer) int {
	now, err := os.ReadFile(r.check)
	if err != nil {
		return failed(stderr, err)
	}
	if string(now) == text {
		return cli.ExitOK
	}
	patch := diff.Diff(r.check, now, "what "+r.file.Name+" says", []byte(text))
	_, rest, _ := bytes.Cut(patch, []byte("\n")) // its first line is "diff name name"
	if _, err := stdout.Write(rest); err != nil {
		return failed(stderr, err)
	}
	fmt.Fprintln(stderr, fold.Lines("gabion export: "+r.check+" is stale: write it again with -o in place of --check"))
	return cli.ExitFindings
}
