package labcmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gabion-go/gabion/lab"
)

// List names the scenarios.
func List(_ context.Context, args []string, stdout, stderr io.Writer) int {
	r := newRequest("list", ListUsage, stdout, stderr)
	families := r.flags.Bool("families", false, "")
	if _, code := r.parse(args, 0); code >= 0 {
		return code
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, name := range lab.Names() {
		s, err := lab.Load(name)
		if err != nil {
			return r.failed(err)
		}
		fmt.Fprintf(table, "%s\t%s\n", name, s.Title())
	}
	if *families {
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
	return exitOK
}

// Show prints a scenario's file.
func Show(_ context.Context, args []string, stdout, stderr io.Writer) int {
	r := newRequest("show", ShowUsage, stdout, stderr)
	schema := r.flags.Bool("schema", false, "")
	policies := r.flags.Bool("policies", false, "")
	want := 1
	for _, a := range args {
		if strings.TrimLeft(a, "-") == "schema" {
			want = 0
		}
	}
	words, code := r.parse(args, want)
	if code >= 0 {
		return code
	}
	text := lab.Schema()
	if !*schema {
		s, err := r.load(words[0])
		if err != nil {
			return r.unknown(words[0], err)
		}
		text = []byte(s.Text())
		if *policies {
			text = []byte(strings.Join(s.Policies(), "\n") + "\n")
		}
	}
	if _, err := stdout.Write(text); err != nil {
		return r.failed(err)
	}
	return exitOK
}

// Explain writes down the decisions about one client's calls.
func Explain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	r := newRequest("explain", ExplainUsage, stdout, stderr)
	r.policies()
	r.flags.StringVar(&r.options.Watch, "fleet", "", "")
	r.flags.IntVar(&r.options.Client, "client", 0, "")
	from, to := r.flags.Duration("from", -1, ""), r.flags.Duration("to", -1, "")
	words, code := r.parse(args, 1)
	if code >= 0 {
		return code
	}
	r.options.Alone, r.options.Replications = true, 1
	if r.options.Watch == "" {
		s, err := r.load(words[0])
		if err != nil {
			return r.unknown(words[0], err)
		}
		r.options.Watch = s.Fleets()[0]
	}
	report, code := r.run(ctx, words[0])
	if code >= 0 {
		return code
	}
	begin, end := report.Trouble()
	if begin == end { // nothing goes wrong: then from the beginning
		begin, end = 10, 20
	}
	begin, end = begin-10, end+10
	if *from >= 0 {
		begin = from.Seconds()
	}
	if *to >= 0 {
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
	return exitOK
}
