// Package stormcmd is what gabion storm does: it sends requests at times that do not depend
// on the answers, and says whether the service held out.
package stormcmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/policy"
)

const usage = `usage: gabion storm URL [--rate RATE] [--duration D] [--timeout D] [--method M]
                    [--body TEXT] [--header "NAME: VALUE"] [--keys]
                    [--max-open N] [--poisson] [--seed N] [--remote] [--json]
                    [--server URL] [--min-success SHARE] [--max-p99 D]
                    [--max-amplification X] [--max-duplicates N]

Sends requests to URL at a constant rate, however long the answers take, and
says what came of them. Latencies count from the moment at which a request was
meant to be sent.

  --rate RATE         such as 50/s (the default), 600/m; at most 10000/s
  --duration D        for how long (default 10s, at most 1h)
  --timeout D         how long one request may take (default 10s)
  --method M          (default GET, or POST with --body)
  --body TEXT         what to send
  --header H          one header; may be given more than once
  --keys              give each request an idempotency key of its own
  --max-open N        at most N requests at once (default 1000). Further ones
                      are not sent, count as failed, and are reported
  --poisson           send at random moments instead of at equal distances
  --seed N            of these moments and of the keys (default 1)
  --remote            send to other machines than this one, too
  --json              print one JSON object on stdout, and nothing else

  --server URL        a gabion flaky behind the service that is tested. Its plan
                      begins anew when the storm does, and what reached it is
                      part of the report
  --min-success S     at least this share of requests succeeds, as 95%: with a
                      status below 400 and their whole body
  --max-p99 D         99 of 100 requests take at most so long, failed ones too
  --max-amplification X
                      at most X requests reach --server for each one that was
                      sent, such as 1.2
  --max-duplicates N  at most so much work is done again under the same key at
                      --server

Exit codes: 0 all thresholds are met, 1 one is missed, 2 called wrongly, 3 any
other failure, 130 interrupted.
`

// request is what the command line asks for.
type request struct {
	storm
	rateText, minText string
	json, remote      bool
	server            string
	headers           headers
	wanted            thresholds
}

// headers collects --header.
type headers http.Header

// String implements pflag.Value.
func (h headers) String() string { return "" }

// Type implements pflag.Value.
func (h headers) Type() string { return "header" }

// Set implements pflag.Value.
func (h headers) Set(s string) error {
	name, value, ok := strings.Cut(s, ":")
	if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\r\n") {
		return fmt.Errorf("want NAME: VALUE")
	}
	http.Header(h).Add(name, strings.TrimSpace(value))
	return nil
}

func (req *request) flags(flags *pflag.FlagSet) {
	flags.StringVar(&req.rateText, "rate", "50/s", "")
	flags.DurationVar(&req.duration, "duration", 10*time.Second, "")
	flags.DurationVar(&req.timeout, "timeout", 10*time.Second, "")
	flags.StringVar(&req.method, "method", "", "")
	flags.StringVar(&req.body, "body", "", "")
	flags.Var(req.headers, "header", "")
	flags.BoolVar(&req.keys, "keys", false, "")
	flags.IntVar(&req.maxOpen, "max-open", 1000, "")
	flags.BoolVar(&req.poisson, "poisson", false, "")
	flags.Uint64Var(&req.seed, "seed", 1, "")
	flags.BoolVar(&req.remote, "remote", false, "")
	flags.BoolVar(&req.json, "json", false, "")
	flags.StringVar(&req.server, "server", "", "")
	flags.StringVar(&req.minText, "min-success", "", "")
	flags.DurationVar(&req.wanted.p99, "max-p99", 0, "")
	flags.Float64Var(&req.wanted.amplification, "max-amplification", 0, "")
	flags.Int64Var(&req.wanted.duplicates, "max-duplicates", -1, "")
}

// Command is gabion storm.
func Command() *cobra.Command {
	req := &request{headers: headers{}}
	c := cli.Command("storm", "load at a constant rate on your own service, with thresholds", usage, req.main)
	req.flags(c.Flags())
	return c
}

// main sends a storm, and returns the exit code.
func (req *request) main(c *cobra.Command, words []string) int {
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	if problem := req.read(words); problem != "" {
		fmt.Fprintf(stderr, "gabion storm: %s\n\n%s", problem, usage)
		return cli.ExitUsage
	}
	report, err := req.run(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "gabion storm: %v\n", err)
		return cli.ExitFailure
	}
	if req.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(report)
	} else {
		report.print(stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "gabion storm: %v\n", err)
		return cli.ExitFailure
	case report.Interrupted:
		return cli.ExitInterrupted
	case report.missed():
		return cli.ExitFindings
	}
	return cli.ExitOK
}

// read says what is wrong with the command line; empty if nothing is.
func (req *request) read(words []string) string {
	if len(words) != 1 {
		return fmt.Sprintf("one URL is wanted, not %d", len(words))
	}
	var rate policy.PerSecond
	if err := rate.UnmarshalText([]byte(req.rateText)); err != nil || rate == policy.Off || rate > maxRate || float64(rate) < 1.0/3600 {
		return fmt.Sprintf("--rate %.40q is no rate: write one from 1/h to %d/s", req.rateText, int(maxRate))
	}
	req.rate = float64(rate)
	if req.minText != "" {
		var share policy.Ratio
		if err := share.UnmarshalText([]byte(req.minText)); err != nil || share == policy.Off || share > 1 {
			return fmt.Sprintf("--min-success %.40q is no share: write one such as 95%%", req.minText)
		}
		req.wanted.success = float64(share)
	}
	w := &req.wanted
	switch {
	case req.duration <= 0 || req.duration > maxDuration:
		return fmt.Sprintf("--duration %v is out of range: write at most %v", req.duration, maxDuration)
	case req.rate*req.duration.Seconds() > maxCalls:
		return fmt.Sprintf("%.0f requests are too many: %d are the most", req.rate*req.duration.Seconds(), maxCalls)
	case req.timeout <= 0 || req.timeout > maxDuration:
		return fmt.Sprintf("--timeout %v is out of range", req.timeout)
	case req.maxOpen < 1 || req.maxOpen > maxOpen:
		return fmt.Sprintf("--max-open %d is out of range: 1 to %d", req.maxOpen, maxOpen)
	case w.p99 < 0 || w.amplification < 0 || w.duplicates < -1:
		return "a threshold is negative"
	case (w.amplification > 0 || w.duplicates >= 0) && req.server == "":
		return "--max-amplification and --max-duplicates are read at a gabion flaky: name it with --server"
	}
	req.header = http.Header(req.headers)
	if req.method = strings.ToUpper(req.method); req.method == "" {
		req.method = http.MethodGet
		if req.body != "" {
			req.method = http.MethodPost
		}
	}
	for name, text := range map[string]string{"URL": words[0], "--server": req.server} {
		if text == "" && name == "--server" {
			continue
		}
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Sprintf("%s %.80q is no URL: write one such as http://127.0.0.1:8080/", name, text)
		}
	}
	req.url = words[0]
	if _, err := http.NewRequest(req.method, req.url, nil); err != nil {
		return err.Error()
	}
	return ""
}
