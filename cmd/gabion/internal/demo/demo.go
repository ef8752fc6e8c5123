// Package demo is gabion's first page: it starts payment providers, breaks them by
// plan, and drives the same calls through four clients side by side.
//
// Nothing in it is mocked: the providers are HTTP servers on loopback, the clients
// are HTTP clients, the charges stand in ledger files that are read afterwards.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab/flaky"
)

const usage = `usage: gabion demo [--seed N] [--config FILE] [--plan PLAN] [--print-plan]
                   [--json] [--ledgers DIR] [--into FILE] [--picture FILE]
                   [--page ADDRESS]

Starts a payment provider for each of four clients, breaks it by plan, drives
the same calls through all of them and compares. It talks to itself on loopback
only.

  --seed N        which calls arrive when, and which of them fail (default 1)
  --config FILE   try your own policy: "payments" in FILE, or its only one
  --plan PLAN     what the providers are and what goes wrong, for how long:
                    outage         usual head-room, failing costs (the default)
                    free-failures  failing is free, and capacity is plenty
                  or a plan of gabion flaky, a scenario, or a scenario's name.
                  The providers honour keys, and break connections for down
  --print-plan    print one of the demo's own plans, to be changed, and exit
  --json          print one JSON object on stdout, and nothing else
  --ledgers DIR   keep the ledgers of the providers in DIR
  --into FILE     also write the table into FILE, between the lines
                  <!-- demo --> and <!-- /demo -->
  --picture FILE  also write the run as an animated SVG
  --page ADDRESS  serve a live page of the clients there: a host and port, or
                  "off" (default 127.0.0.1:0, a free port; off with --json). The
                  outage is repeated while the page has viewers

Exit codes: 0 a run, 1 the file has findings, 2 called wrongly, 3 any other
failure, 130 interrupted.
`

// request is what the command line asks for.
type request struct {
	settings Settings
	config   string
	plan     string
	print    bool
	json     bool
	into     string
	picture  string
	page     string
}

// Command is gabion demo. Its exit code is 0 for a run, 1 when the file given has findings, 2
// for a wrong call, 3 for any other failure, 130 when its context ended the run early.
func Command() *cobra.Command {
	req := &request{}
	return req.command(req.main)
}

func (req *request) command(run func(c *cobra.Command, words []string) int) *cobra.Command {
	c := cli.Command("demo", "one outage, four clients: see what gabion does", usage, run)
	flags := c.Flags()
	flags.Uint64Var(&req.settings.Seed, "seed", 1, "")
	flags.StringVar(&req.config, "config", "", "")
	flags.StringVar(&req.plan, "plan", defaultPlan, "")
	flags.BoolVar(&req.print, "print-plan", false, "")
	flags.BoolVar(&req.json, "json", false, "")
	flags.StringVar(&req.settings.Ledgers, "ledgers", "", "")
	flags.StringVar(&req.into, "into", "", "")
	flags.StringVar(&req.picture, "picture", "", "")
	flags.StringVar(&req.page, "page", "", "")
	return c
}

func (req *request) main(c *cobra.Command, words []string) int {
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	if err := req.check(words); err != nil {
		return cli.Wrongly(c, err.Error())
	}
	if req.print {
		text, _ := ownPlan(req.plan) // it was checked
		_, _ = stdout.Write(text)
		return cli.ExitOK
	}
	rules, code, err := loadRules(req.config)
	if err != nil {
		fmt.Fprintf(stderr, "gabion demo: %v\n", err)
		return code
	}
	req.settings.Policy = rules.policy
	if req.settings.Outage, code, err = loadOutage(req.plan); err != nil {
		fmt.Fprintf(stderr, "gabion demo: %v\n", err)
		return code
	}
	req.settings.payments = newPayments(req.settings)
	if req.settings.live, err = goLive(req.page, req.settings.payments); err != nil {
		return failed(stderr, err)
	}
	defer func() { _ = req.settings.live.close() }()
	if req.json {
		return req.asJSON(ctx, stdout, stderr)
	}
	return req.asTable(ctx, rules, stdout, stderr)
}

// check refuses everything it does not know.
func (req *request) check(words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%q is not a flag; nothing else is expected", words[0])
	}
	if _, own := ownPlan(req.plan); req.print && !own {
		return fmt.Errorf("--print-plan prints %s or %s; %s is not the demo's own", defaultPlan, freeFailures, req.plan)
	}
	switch {
	case req.page == "" && req.json:
		req.page = noPage
	case req.page == "":
		req.page = "127.0.0.1:0"
	}
	return nil
}

// asJSON prints the report and nothing else. On a terminal, the live table goes to stderr.
func (req request) asJSON(ctx context.Context, stdout, stderr io.Writer) int {
	show := func(*stage) {}
	if scr := screenOf(stderr); scr.live {
		show = func(st *stage) { st.watch(stderr, scr) }
	}
	report, err := run(ctx, req.settings, show)
	if err != nil {
		return failed(stderr, err)
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(report); err != nil {
		return failed(stderr, err)
	}
	return report.exit()
}

func (req request) asTable(ctx context.Context, rules rules, stdout, stderr io.Writer) int {
	scr, l := screenOf(stdout), req.settings.live
	report, err := run(ctx, req.settings, func(st *stage) {
		st.introduce(stdout, rules, scr.paint)
		l.introduce(stdout, scr.paint)
		st.watch(stdout, scr)
	})
	if err != nil {
		return failed(stderr, err)
	}
	report.printTable(stdout, scr.paint)
	if err := req.keep(report); err != nil {
		return failed(stderr, err)
	}
	printNext(stdout, req, report, scr.paint)
	if err := req.encore(ctx, stdout, scr); err != nil {
		return failed(stderr, err)
	}
	return report.exit()
}

// keep writes what is to be shown to others.
func (req request) keep(r *Report) error {
	if r.Interrupted {
		return nil
	}
	if req.into != "" {
		if err := r.writeInto(req.into); err != nil {
			return err
		}
	}
	if req.picture != "" {
		return r.writePicture(req.picture)
	}
	return nil
}

// encore repeats the outage while the page has viewers.
func (req request) encore(ctx context.Context, stdout io.Writer, scr screen) error {
	for n := 2; req.settings.live.watched() && ctx.Err() == nil; n++ {
		fmt.Fprintf(stdout, "\n  %s  %s\n", scr.paint.bold(fmt.Sprintf("The page is open, so the outage begins again (%d).", n)), scr.paint.dim("Close it, or press Ctrl-C, to end."))
		req.settings.Seed++
		if _, err := run(ctx, req.settings, func(st *stage) { st.watch(stdout, scr) }); err != nil {
			return err
		}
	}
	return nil
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "gabion demo: %v\n", err)
	return cli.ExitFailure
}

func (r *Report) exit() int {
	if r.Interrupted {
		return cli.ExitInterrupted
	}
	return cli.ExitOK
}

// introduce says what is about to happen.
func (st *stage) introduce(w io.Writer, rules rules, p paint) {
	fmt.Fprintln(w, "\n  "+p.bold("gabion demo: one outage, four clients"))
	fmt.Fprintln(w)
	for _, line := range wrap(fmt.Sprintf("Each client charges cards at a payment provider of its own, a real HTTP server on this machine: "+
		"the same %s orders at the same moments, %d a second. A call is answered in time when it succeeds within %.0f s. "+
		"%s", thousands(len(st.orders)), load, inTime.Seconds(), room(st.settings.Outage)), minWidth-4) {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w, "\n  "+p.bold("The plan")+p.dim(fmt.Sprintf("  (%s, %.0f s in all, seed %d)", st.settings.Outage.Name(), st.plan.Total.Seconds(), st.settings.Seed)))
	for _, phase := range st.plan.Phases {
		for i, line := range wrap(phase.says, minWidth-29) {
			head := strings.Repeat(" ", 25)
			if i == 0 {
				head = fmt.Sprintf("  %6.1f s  %s", phase.Start.Seconds(), left(phase.Name, 15))
			}
			fmt.Fprintln(w, head+p.dim(line))
		}
	}
	fmt.Fprintln(w, "\n  "+p.bold("The clients"))
	for _, sd := range st.sides {
		for i, line := range wrap(sd.client.says, minWidth-17) {
			name := ""
			if i == 0 {
				name = sd.client.name
			}
			fmt.Fprintln(w, "  "+left(name, 14)+p.dim(line))
		}
	}
	fmt.Fprintln(w, "\n  "+p.bold("gabion's policy")+p.dim("  ("+rules.from+")"))
	for line := range strings.Lines(rules.text) {
		fmt.Fprint(w, "    "+line)
	}
	fmt.Fprintln(w)
}

// room says how much a provider can do, and how much of that the calls need.
func room(o *flaky.Plan) string {
	c := o.Capacity()
	if math.IsInf(c, 1) {
		return "A provider works on any number of charges at once."
	}
	return fmt.Sprintf("A provider can do %.0f charges a second, so the load is %.0f %% of its capacity.", c, 100*load/c)
}

// printNext says what to try next.
func printNext(w io.Writer, req request, r *Report, p paint) {
	if r.Interrupted {
		return
	}
	me := self()
	fmt.Fprintln(w, "\n  "+p.bold("What to try next"))
	for _, next := range []struct{ command, says string }{
		{fmt.Sprintf("%s demo --seed %d", me, req.settings.Seed+1), "other calls fail"},
		{me + " demo --json", "the figures, for programs"},
		{me + " demo --plan free-failures", "failing costs nothing"},
		{me + " demo --print-plan > my.yaml", "a plan to change"},
		{me + " demo -h", "your own policy"},
		{me + " help", "what else there is"},
	} {
		fmt.Fprintf(w, "    %s %s\n", left(next.command, 48), p.dim(next.says))
	}
	if req.settings.Ledgers != "" {
		fmt.Fprintf(w, "\n  The ledgers are in %s.\n", req.settings.Ledgers)
	}
}

// self is how this program was called; go run's own path is of no use to anybody.
func self() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/gabion"
	}
	return os.Args[0]
}
