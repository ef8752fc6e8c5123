// Package explaincmd is what gabion explain does: it says what a reason means, which
// calls of a recording to look at, and why one of them went as it did.
package explaincmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/recorded"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/recording"
)

const usage = `usage: gabion explain [REASON] [--json]
       gabion explain FILE [--json]
       gabion explain --call ID FILE [--policy FILE] [--json]

says why calls end, and why one did. Without a word it lists the reasons; of a
REASON, such as budget_exhausted, it says what it means and what to do. FILE is
a recording, as package record and gabion lab run --record write it, or - for
standard input: then it lists the calls that are worth a look.

  --call ID      each decision about this call, with what it was made from and
                 the setting that ruled; the number is that of the log lines.
                 If several runs in a file have a call 17, then 17 is the one
                 of the last run, and 1.17 that of the first
  --policy FILE  the gabion.yaml that was in force, for the value and the line
                 of each setting; else it is the one that the recording names
  --json         write JSON

A recording that was cut off is read to the cut.

Exit codes: 0 done, 1 a file has mistakes or is empty, 2 called wrongly, or
there is no such reason or call, 3 any other failure.
`

// wrong is a usage error. The usage is shown below it, unless only a name is wrong.
type wrong struct {
	error
	usage bool
}

// request is what the command line asks for.
type request struct {
	call, policy   string
	cut            bool // the recording was cut off
	json           bool
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Command is gabion explain.
func Command() *cobra.Command { return (&request{stdin: os.Stdin}).command() }

func (r *request) command() *cobra.Command {
	c := cli.Command("explain", "what a reason means, and why a recorded call went as it did", usage, r.main)
	flags := c.Flags()
	flags.StringVar(&r.call, "call", "", "")
	flags.StringVar(&r.policy, "policy", "", "")
	flags.BoolVar(&r.json, "json", false, "")
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	return r.exit(r.explain(words))
}

func (r *request) explain(words []string) error {
	switch {
	case len(words) > 1:
		return wrong{fmt.Errorf("%q is not expected", words[1]), true}
	case r.call == "" && r.policy != "":
		return wrong{errors.New("--policy is for one call: name it with --call ID"), true}
	case r.call != "" && len(words) == 0:
		return wrong{errors.New("no recording is named: gabion explain --call " + r.call + " FILE"), true}
	case r.call != "":
		return r.explainCall(words[0])
	case len(words) == 0:
		return r.listReasons()
	}
	if reason, ok := reasonOf(words[0]); ok {
		return r.explainReason(reason)
	}
	if e := endingOf(words[0]); e != nil {
		return r.explainEnding(e)
	}
	if !isFile(words[0]) {
		return noReason(words[0])
	}
	return r.explainFile(words[0])
}

// isFile reports whether a word that is no reason means a file.
func isFile(word string) bool {
	if word == "-" || strings.ContainsAny(word, `/\.`) {
		return true
	}
	_, err := os.Stat(word)
	return err == nil
}

// exit says what went wrong, if something did, and returns the exit code.
func (r *request) exit(err error) int {
	var caller wrong
	var mistakes config.Findings
	var torn damaged
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &caller):
		fmt.Fprint(r.stderr, fold.Lines("gabion explain: "+err.Error()+"\n"))
		if caller.usage {
			fmt.Fprint(r.stderr, "\n"+usage)
		}
		return cli.ExitUsage
	case errors.As(err, &mistakes):
		fmt.Fprintln(r.stderr, fold.Lines(mistakes.Error()))
		return cli.ExitFindings
	case errors.As(err, &torn):
		fmt.Fprint(r.stderr, fold.Lines(err.Error()+"\n"))
		return cli.ExitFindings
	}
	fmt.Fprintln(r.stderr, "gabion explain:", err)
	return cli.ExitFailure
}

// damaged is an error of a recording. What was read before it is shown all the same.
type damaged struct{ error }

// read hands every event of a recording to take. A recording that was cut off is read to
// the cut, which is said on stderr.
func (r *request) read(name string, take func(*recording.Entry)) error {
	in := r.stdin
	if name != "-" {
		f, err := recorded.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	var ended error
	events := 0
	for e, err := range recording.Entries(in) {
		if err != nil {
			ended = err
			break
		}
		events++
		take(&e)
	}
	if r.cut = errors.Is(ended, recording.ErrCut); r.cut && events > 0 {
		fmt.Fprintf(r.stderr, "%s: %v; what is whole was read\n", shown(name), ended)
	}
	var path *os.PathError
	err := recorded.Problem(shown(name), ended, events)
	if err == nil || errors.As(err, &path) {
		return err
	}
	return damaged{err}
}

func shown(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

func (r *request) print(text string) error {
	_, err := io.WriteString(r.stdout, text)
	return err
}
