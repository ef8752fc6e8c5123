// Package doctorcmd is what gabion doctor does: it compares a policy with what was measured
// of the calls that it ruled, and says what to change.
package doctorcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fetch"
	"github.com/gabion-go/gabion/cmd/gabion/internal/recorded"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/record"
)

// The exit codes of every gabion command.
const (
	exitOK       = 0
	exitFindings = 1
	exitUsage    = 2
	exitFailure  = 3
)

const usage = `usage: gabion doctor SOURCE [--config FILE] [--dependency NAME]
                     [--json] [--write]

compares a policy with what was measured, and says what to change: timeouts and
the time that attempts need, budgets that are used up or never used, breakers
that can't open or flap, bulkheads that are always or never full, retries below
the policy, keys that expire too soon. Behind each line is a rule of gabion
lint.

SOURCE is one of
  a recording       that package record wrote, or gabion lab run --record
  a metrics address http://localhost:2112/metrics, of contrib/gabionprom; or
                    a file of what it answered
  a live page       http://localhost:6060/debug/gabion/, of package dashboard

  --config FILE      the file to compare with and to change. Without it the
                     settings that a recording or a page tells are used
  --dependency NAME  only this one
  --json             write JSON
  --write            write the changes into FILE; without it they are shown

Exit codes: 0 nothing to change, 1 there are warnings, 2 called wrongly, 3 any
other failure.
`

// request is what the command line asks for.
type request struct {
	source, file, only string
	json, write        bool
	stdout, stderr     io.Writer
}

// Command is gabion doctor: it examines one source.
func Command() *cobra.Command {
	r := &request{}
	c := cli.Command("doctor", "compare a policy with what was measured, and say what to change", usage, r.main)
	flags := c.Flags()
	flags.StringVar(&r.file, "config", "", "")
	flags.StringVar(&r.only, "dependency", "", "")
	flags.BoolVar(&r.json, "json", false, "")
	flags.BoolVar(&r.write, "write", false, "")
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	switch {
	case len(words) == 0:
		return r.wrongly("no source is named: gabion doctor SOURCE")
	case len(words) > 1:
		return r.wrongly(fmt.Sprintf("%q is not expected", words[1]))
	case r.write && r.file == "":
		return r.wrongly("--write needs --config FILE")
	}
	r.source = words[0]
	return r.examine(c.Context())
}

func (r *request) wrongly(problem string) int {
	fmt.Fprintf(r.stderr, "gabion doctor: %s\n\n%s", problem, usage)
	return exitUsage
}

func (r *request) failed(err error) int {
	fmt.Fprintf(r.stderr, "gabion doctor: %v\n", err)
	return exitFailure
}

func (r *request) examine(ctx context.Context) int {
	all, err := r.measure(ctx)
	switch {
	case len(all) == 0:
		return r.failed(err)
	case err != nil:
		fmt.Fprintf(r.stderr, "gabion doctor: %s: %v; what stands before it was used\n", r.source, err)
	}
	if r.only != "" {
		v := all[r.only]
		if v == nil {
			return r.failed(fmt.Errorf("%s says nothing of %q: it has %s", r.source, r.only, strings.Join(names(all), ", ")))
		}
		all = map[string]*vitals{r.only: v}
	}
	name, text, err := r.policies(all)
	if err != nil {
		return r.failed(err)
	}
	d := diagnose(name, text, all)
	if len(d.Lines) == 0 && len(d.missing()) == len(all) {
		return r.failed(fmt.Errorf("%s has none of what was measured: %s. Its dependencies have to have the same names", name, strings.Join(d.missing(), ", ")))
	}
	return r.tell(d)
}

const whatToName = "name a page of package dashboard, whose address ends in a slash, or the address of metrics"

// measure reads the source, whatever it is.
func (r *request) measure(ctx context.Context) (map[string]*vitals, error) {
	if !strings.HasPrefix(r.source, "http://") && !strings.HasPrefix(r.source, "https://") {
		return r.measureFile()
	}
	address, err := url.Parse(r.source)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(address.Path, "/") { // a page's address ends in a slash
		body, err := fetch.Get(ctx, address.JoinPath("api/v1/measured").String(), whatToName)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		return readPage(body)
	}
	body, err := fetch.Get(ctx, address.String(), whatToName)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readMetrics(body, time.Now())
}

func (r *request) measureFile() (map[string]*vitals, error) {
	f, err := recorded.Open(r.source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [1]byte
	n, _ := f.ReadAt(head[:], 0)
	if n == 1 && head[0] != '{' { // no line of a recording begins otherwise
		at := time.Now()
		if info, err := f.Stat(); err == nil {
			at = info.ModTime()
		}
		return readMetrics(io.LimitReader(f, fetch.MaxBytes), at)
	}
	all, events, err := measure(record.Entries(f))
	if problem := recorded.Problem(r.source, err, events); problem != nil && events == 0 {
		return nil, problem
	}
	return all, err
}

// policies returns the text that is compared with, and its name: the file that was named, or
// what the source says is in force.
func (r *request) policies(all map[string]*vitals) (name string, text []byte, err error) {
	if r.file != "" {
		text, err = os.ReadFile(r.file)
		return r.file, text, err
	}
	var b strings.Builder
	b.WriteString("version: 1\ndependencies:\n")
	known := false
	for _, name := range names(all) {
		if all[name].hasPolicy {
			known = true
			fmt.Fprintf(&b, "  %q: {}\n", name)
		}
	}
	if !known {
		return "", nil, errors.New("the source does not say which policies are in force: name their file with --config")
	}
	text = []byte(b.String())
	for _, name := range names(all) {
		for _, c := range all[name].settings {
			if next, err := config.Edit(inForceName, text, []config.Change{c}); err == nil { // a value such as none is no value of a file
				text = next
			}
		}
	}
	return inForceName, text, nil
}

// inForceName stands for the name of a file where the source itself says the policies.
const inForceName = "in-force.yaml"

// names are the dependencies in alphabetical order.
func names(all map[string]*vitals) []string { return slices.Sorted(maps.Keys(all)) }
