package labcmd

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab"
)

// List names the scenarios.
func List() *cobra.Command {
	r := newRequest()
	var families bool
	c := r.command("list", "the scenarios that come with gabion", ListUsage, 0, func([]string) int { return r.list(families) })
	c.Flags().BoolVar(&families, "families", false, "")
	return c
}

func (r *request) list(families bool) int {
	table := tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', 0)
	for _, name := range lab.Names() {
		s, err := lab.Load(name)
		if err != nil {
			return r.failed(err)
		}
		fmt.Fprintf(table, "%s\t%s\n", name, s.Title())
	}
	if families {
		generated, err := lab.Families()
		if err != nil {
			return r.failed(err)
		}
		for _, g := range generated {
			fmt.Fprintf(table, "%s\t%s\n", g.Name, g.Title)
		}
	}
	if err := table.Flush(); err != nil {
		return r.failed(err)
	}
	return cli.ExitOK
}

// Show prints a scenario's file.
func Show() *cobra.Command {
	r := newRequest()
	var schema, policies bool
	r.c = cli.Command("show", "a scenario's file, or the schema of such files", ShowUsage, func(c *cobra.Command, words []string) int {
		r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
		return r.show(words, schema, policies)
	})
	r.c.Flags().BoolVar(&schema, "schema", false, "")
	r.c.Flags().BoolVar(&policies, "policies", false, "")
	return r.c
}

func (r *request) show(words []string, schema, policies bool) int {
	want := 1
	if schema {
		want = 0
	}
	if code := r.expect(words, want); code >= 0 {
		return code
	}
	text := lab.Schema()
	if !schema {
		s, err := r.load(words[0])
		if err != nil {
			return r.unknown(words[0], err)
		}
		text = []byte(s.Text())
		if policies {
			text = []byte(strings.Join(s.Policies(), "\n") + "\n")
		}
	}
	if _, err := r.stdout.Write(text); err != nil {
		return r.failed(err)
	}
	return cli.ExitOK
}

// Explain writes down the decisions about one client's calls.
func Explain() *cobra.Command {
	r := newRequest()
	var from, to time.Duration
	c := r.command("explain", "each decision about one client's calls", ExplainUsage, 1, func(words []string) int { return r.explain(words[0], from, to) })
	r.policies()
	c.Flags().StringVar(&r.options.Watch, "fleet", "", "")
	c.Flags().IntVar(&r.options.Client, "client", 0, "")
	c.Flags().DurationVar(&from, "from", -1, "")
	c.Flags().DurationVar(&to, "to", -1, "")
	return c
}

func (r *request) explain(name string, from, to time.Duration) int {
	ctx := r.c.Context()
	r.options.Alone, r.options.Replications = true, 1
	if r.options.Watch == "" {
		s, err := r.load(name)
		if err != nil {
			return r.unknown(name, err)
		}
		r.options.Watch = s.Fleets()[0]
	}
	report, code := r.run(ctx, name)
	if code >= 0 {
		return code
	}
	begin, end := report.Trouble()
	if begin == end { // nothing goes wrong: then from the beginning
		begin, end = 10, 20
	}
	begin, end = begin-10, end+10
	if from >= 0 {
		begin = from.Seconds()
	}
	if to >= 0 {
		end = to.Seconds()
	}
	return r.lines(report, begin, end)
}

// lines writes a timeline.
func (r *request) lines(report *lab.Report, begin, end float64) int {
	table := tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SECONDS\tCALL\tEDGE\tDECISION\tKNOWN AFTERWARDS")
	shown := 0
	for _, l := range report.Timeline() {
		if l.Seconds >= begin && l.Seconds <= end {
			fmt.Fprintf(table, "%.3f\t%d\t%s\t%s\t%s\n", l.Seconds, l.Call, l.Edge, l.Text, l.Knows)
			shown++
		}
	}
	if err := table.Flush(); err != nil {
		return r.failed(err)
	}
	if shown == 0 {
		fmt.Fprintln(r.stderr, "no decision about this client is known of that time: it makes no call then, or has made too many before; try --client, --from and --to")
	}
	return cli.ExitOK
}
