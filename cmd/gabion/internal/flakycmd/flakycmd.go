// Package flakycmd is what gabion flaky does: it serves a plan of package flaky.
package flakycmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/serving"
	"github.com/gabion-go/gabion/lab/flaky"
)

const usage = `usage: gabion flaky [PLAN] [--listen ADDRESS] [--service NAME] [--seed N]
                    [--start now|first] [--stop-after DURATION] [--json]
                    [--print-plan]
                    [--errors SHARE] [--status N] [--retry-after DURATION]
                    [--after-work] [--reset SHARE] [--lost SHARE] [--cut SHARE]
                    [--hang SHARE] [--slow-body DURATION] [--latency TIME]
                    [--workers N] [--queue N] [--rate RATE] [--honours-keys]
                    [--at TIME] [--for DURATION] [--ramp DURATION]

Serves HTTP that fails on purpose, for the test of one's own client. PLAN is a
file with a service and its faults, a file of a scenario of gabion lab, or the
name of one that gabion lab list shows. Without PLAN the flags make one.

  --listen ADDRESS   where (default 127.0.0.1:8411)
  --service NAME     which service of a scenario; usual is the first with faults
  --seed N           which requests fail (default 1)
  --start WHEN       when the plan's time begins: with the first request (the
                     default), or now
  --stop-after TIME  end by itself
  --json             print the counts at the end as JSON
  --print-plan       print the plan that the flags make, and serve nothing

  --errors SHARE     answer this share of requests with an error, such as 20%
  --status N         that error, from 400 to 599 (default 503)
  --retry-after D    what it says of when to come again
  --after-work       it comes when the work was done
  --reset SHARE      break this share of connections before the work
  --lost SHARE       break this share when the work was done
  --cut SHARE        break this share in the middle of the answer
  --hang SHARE       never answer this share
  --slow-body D      every answer's body takes that much longer
  --latency TIME     how long work takes: 50ms, exp 50ms, lognormal 20ms/300ms
  --workers N        how many requests it works on at once
  --queue N          how many may wait then; the next is refused
  --rate RATE        how many requests it lets through, such as 100/s
  --honours-keys     a request whose key was answered before is answered without
                     work
  --at, --for, --ramp
                     when all that is wrong begins, how long it lasts, and how
                     long it takes to grow and to fall

GET /_flaky returns what reached the server as JSON: requests, amplification,
executions, duplicates by idempotency key. DELETE /_flaky begins the plan anew.

Exit codes: 0 it was ended, 1 the plan has mistakes, 2 called wrongly, 3 any
other failure.
`

// request is what the command line asks for.
type request struct {
	listen, service, start string
	seed                   uint64
	stop                   time.Duration
	json, print            bool
	simple                 simple
}

// Command is gabion flaky.
func Command() *cobra.Command {
	req := &request{}
	c := cli.Command("flaky", "a server that fails by plan, for the test of your own client", usage, req.main)
	flags := c.Flags()
	flags.StringVar(&req.listen, "listen", "127.0.0.1:8411", "")
	flags.StringVar(&req.service, "service", "", "")
	flags.StringVar(&req.start, "start", "first", "")
	flags.Uint64Var(&req.seed, "seed", 1, "")
	flags.DurationVar(&req.stop, "stop-after", 0, "")
	flags.BoolVar(&req.json, "json", false, "")
	flags.BoolVar(&req.print, "print-plan", false, "")
	req.simple.flags(flags)
	return c
}

// main serves a plan until the context ends, and returns the exit code.
func (req *request) main(c *cobra.Command, words []string) int {
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	wrong := func(format string, a ...any) int {
		fmt.Fprintf(stderr, "gabion flaky: "+format+"\n\n%s", append(a, usage)...)
		return cli.ExitUsage
	}
	switch given := req.simple.given(c.Flags()); {
	case len(words) > 1:
		return wrong("%q is not expected: one plan is enough", words[1])
	case len(words) == 1 && given != "":
		return wrong("--%s makes a plan, and %s is one already", given, words[0])
	case req.start != "first" && req.start != "now":
		return wrong("--start %q is neither first nor now", req.start)
	case req.stop < 0:
		return wrong("--stop-after %v is over already", req.stop)
	}
	plan, err := req.plan(words)
	if err != nil {
		fmt.Fprintf(stderr, "gabion flaky: %v\n", err)
		if errors.As(err, new(flaky.Findings)) {
			return cli.ExitFindings
		}
		return cli.Unread(err)
	}
	if req.print {
		fmt.Fprint(stdout, req.simple.text())
		return cli.ExitOK
	}
	if err := req.serve(ctx, plan, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "gabion flaky: %v\n", err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

func (req *request) plan(words []string) (*flaky.Plan, error) {
	if len(words) == 0 {
		return flaky.Parse("flags", []byte(req.simple.text()))
	}
	p, err := flaky.Load(words[0])
	if err == nil && req.service != "" {
		return p.Of(req.service)
	}
	return p, err
}

// serve plays the plan until ctx ends, and says what came of it.
func (req *request) serve(ctx context.Context, p *flaky.Plan, stdout, stderr io.Writer) error {
	l, url, open, err := serving.Listen(req.listen)
	if err != nil {
		return err
	}
	s, err := flaky.New(p, flaky.Options{Seed: req.seed})
	if err != nil {
		_ = l.Close()
		return err
	}
	defer s.Close() //nolint:errcheck // it closes what listens, and nothing is left to be told
	introduce(stderr, p, url, open, req.start)
	if req.start == "now" {
		s.Start()
	}
	if req.stop > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, req.stop)
		defer cancel()
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = s.Close() // likewise
		err = <-ended
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	c := s.Counts()
	if req.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		return out.Encode(c)
	}
	summary(stdout, c)
	return nil
}
