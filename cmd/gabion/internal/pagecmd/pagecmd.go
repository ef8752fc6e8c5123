// Package pagecmd is what gabion page does: it plays a recording on the live page, or serves one page of a fleet.
package pagecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetstore"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/serving"
	"github.com/gabion-go/gabion/dashboard"
)

const usage = `usage: gabion page FILE [--speed N] [--from WHEN] [--run N]
                   [--listen ADDRESS]
       gabion page --store URL [--fleet NAME] [--listen ADDRESS]
       gabion page --of URL,URL... [--listen ADDRESS]

With a store it is one page of all processes of a fleet: for each dependency the
sum and the members that are unlike the others, which have an open breaker,
shares, overrides, and versions and policies that differ. With --of it is read
from the processes' own pages, without a store, and says which do not answer.

With FILE it plays a recording on the live page: FILE is what package record
wrote, or gabion lab run --record. Time goes on while the page has viewers; it
has buttons to stop, to go elsewhere and to change the speed.

It prints the page's address, and serves it until Ctrl-C.

  --speed N         so much faster than it was, up to 1000 (default 1; for a
                    simulation 10)
  --from WHEN       begin there: 90s after the first event, at 13:17:30 as the
                    page shows it, or at 2026-11-22T12:00:00Z
  --run N           which run, if the file has several (default the last)
  --of URL,URL...   addresses of pages of package dashboard, which end in a
                    slash
  --listen ADDRESS  where to serve (default 127.0.0.1:0, a free port). It
                    shows the names of dependencies and their settings
` + fleetstore.Usage + `
Exit codes: 0 stopped by Ctrl-C, 1 the recording can't be read, 2 called
wrongly, 3 any other failure.
`

// request is what the command line asks for.
type request struct {
	speed          float64
	from, listen   string
	of             string
	run            int
	fleet          fleetstore.Options
	stdout, stderr io.Writer
}

// Command is gabion page: it serves the page until the context is over.
func Command() *cobra.Command {
	r := &request{}
	c := cli.Command("page", "play a recording on the live page, or watch a fleet", usage, r.main)
	flags := c.Flags()
	flags.Float64Var(&r.speed, "speed", 0, "")
	flags.StringVar(&r.from, "from", "", "")
	flags.IntVar(&r.run, "run", 0, "")
	flags.StringVar(&r.listen, "listen", "127.0.0.1:0", "")
	flags.StringVar(&r.of, "of", "", "")
	r.fleet.Flags(flags)
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	switch {
	case r.fleet.Store != "" && len(words) > 0:
		return r.wrongly("either a recording or --store, not both")
	case r.of != "" && (r.fleet.Store != "" || len(words) > 0):
		return r.wrongly("--of goes with neither a recording nor --store")
	case r.of != "":
		return r.collect(c.Context())
	case r.fleet.Store != "" || len(words) == 0 && os.Getenv("GABION_FLEET_STORE") != "":
		return r.watch(c.Context())
	case len(words) == 0:
		return r.wrongly("no recording is named: gabion page FILE")
	case len(words) > 1:
		return r.wrongly(fmt.Sprintf("%q is not expected", words[1]))
	case c.Flags().Changed("speed") && !(r.speed > 0 && r.speed <= 1000): // it may be NaN
		return r.wrongly("--speed: write a number above 0, up to 1000")
	case r.run < 0:
		return r.wrongly("--run: runs are numbered from 1")
	}
	return r.play(c.Context(), words[0])
}

func (r *request) wrongly(problem string) int {
	fmt.Fprintf(r.stderr, "gabion page: %s\n\n%s", problem, usage)
	return cli.ExitUsage
}

func (r *request) failed(code int, err error) int {
	fmt.Fprint(r.stderr, fold.Lines("gabion page: "+err.Error()+"\n"))
	return code
}

func (r *request) play(ctx context.Context, path string) int {
	const again = "the page reads a recording more than once: write it to a file first"
	if path == "-" {
		return r.failed(cli.ExitUsage, errors.New("standard input is no file: "+again))
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return r.failed(cli.ExitFailure, err)
	case info.IsDir():
		return r.failed(cli.ExitUsage, fmt.Errorf("%s is a directory: name a recording in it", path))
	case !info.Mode().IsRegular():
		return r.failed(cli.ExitUsage, fmt.Errorf("%s is no file: %s", path, again))
	}
	f, err := open(path, r.run)
	var none noRun
	switch {
	case errors.As(err, &none):
		return r.failed(cli.ExitUsage, err)
	case err != nil:
		return r.failed(cli.ExitFindings, err)
	}
	if f.broken != nil {
		fmt.Fprint(r.stderr, fold.Lines(fmt.Sprintf("%s: %v; what is whole is played\n", path, f.broken)))
	}
	if f.runs > 1 {
		fmt.Fprintf(r.stderr, "%s has %d runs: this is number %d; --run N plays another\n", path, f.runs, f.run)
	}
	from, err := f.moment(r.from, time.Local)
	if err != nil {
		return r.wrongly(err.Error())
	}
	if r.speed == 0 && f.virtual {
		r.speed = 10
	}
	page := dashboard.Replay(dashboard.Config{Title: filepath.Base(path), Settings: f.settings}, r.speed, f.events)
	defer func() { _ = page.Close() }() // it holds a file that was read
	if r.from != "" {
		page.Seek(from)
	}
	if err := r.serve(ctx, page); err != nil {
		return r.failed(cli.ExitFailure, err)
	}
	return cli.ExitOK
}

// serve serves the page until ctx is over. It is for this machine, unless it listens
// elsewhere.
func (r *request) serve(ctx context.Context, page http.Handler) error {
	listener, url, open, err := serving.Listen(r.listen)
	if err != nil {
		return fmt.Errorf("--listen wants a free host:port, such as 127.0.0.1:8080: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: serving.Guard(url, page)}
	if open {
		fmt.Fprintln(r.stderr, "Anyone who can reach this machine can watch the page too.")
	}
	fmt.Fprintln(r.stdout, url)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // streams have no end of their own
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
