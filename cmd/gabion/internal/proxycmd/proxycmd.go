// Package proxycmd is what gabion proxy does: it gives programs in any language the policies of a file.
package proxycmd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/telemetry"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
)

const usage = `usage: gabion proxy FILE [--dry-run]

serves what FILE says under proxy: requests of programs in any language, by the
policies of the same file. docs/proxy.md has the keys.

SIGHUP puts the file into force again, and so does a change of it, within two
seconds. A file with mistakes changes nothing. SIGTERM drains: it takes requests
for proxy.drain_delay, and waits up to proxy.drain for those that are there.

Traces and metrics go to OpenTelemetry where its variables say so, such as
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318.

  --dry-run  say what would be served, and whether all files that it names can
             be read; listen nowhere

Exit codes: 0 drained, 1 the file has mistakes, or requests had to be cut at the
end, 2 called wrongly, 3 any other failure.
`

// Command is gabion proxy: it serves until the context is over.
func Command() *cobra.Command {
	var dry bool
	c := cli.Command("proxy", "policies for programs in any language, as a proxy", usage, func(c *cobra.Command, words []string) int {
		switch {
		case len(words) == 0:
			return cli.Wrongly(c, "no file is named: gabion proxy FILE")
		case len(words) > 1:
			return cli.Wrongly(c, fmt.Sprintf("%q is not expected", words[1]))
		case words[0] == "-":
			return cli.Wrongly(c, "the file is read again at each change, which standard input can't be")
		}
		r := request{c: c, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()}
		return r.main(words[0], dry)
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "")
	return c
}

type request struct {
	c              *cobra.Command
	stdout, stderr io.Writer
	stores         stores
}

func (r *request) failed(code int, err error) int {
	fmt.Fprint(r.stderr, fold.Lines("gabion proxy: "+err.Error()+"\n"))
	return code
}

func (r *request) main(path string, dry bool) int {
	file, err := config.Load(path)
	var found config.Findings
	switch {
	case errors.As(err, &found):
		fmt.Fprintln(r.stderr, found)
		return cli.ExitFindings
	case err != nil:
		return r.failed(cli.ExitFailure, err)
	case len(file.Proxy.Listen) == 0:
		return r.failed(cli.ExitFindings, fmt.Errorf("%s has no section proxy: docs/proxy.md shows one", path))
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		return r.failed(cli.ExitFailure, err)
	}
	defer r.stores.close()
	counts := gabionprom.New(gabionprom.Config{Registry: registry})
	options := gabionproxy.Options{Store: r.stores.get, CheckStore: known, CloseStore: r.stores.closeOne, Log: slog.New(slog.NewJSONHandler(r.stderr, nil)), Metrics: metrics(counts), Keys: counts}
	follows, err := telemetry.Start(registry, r.stdout, options.Log, dry)
	switch {
	case err != nil:
		return r.failed(cli.ExitUsage, err)
	case follows != nil:
		options.Telemetry, options.Log = follows, telemetry.Lines(options.Log)
	}
	if dry {
		return r.say(file, registry, options)
	}
	now := make(chan os.Signal, 1)
	signal.Notify(now, syscall.SIGHUP)
	defer signal.Stop(now)
	err = gabionproxy.Run(r.c.Context(), file, registry, now, options, func(*gabionproxy.Proxy) { time.AfterFunc(startOver, letGo) })
	switch {
	case errors.Is(err, gabionproxy.ErrCut):
		return r.failed(cli.ExitFindings, err)
	case err != nil:
		return r.failed(cli.ExitFailure, err)
	}
	return cli.ExitOK
}

// startOver is when letGo does not delay the first requests any more.
const startOver = 5 * time.Second

// say prints what would be served.
func (r *request) say(file *config.File, registry *gabion.Registry, o gabionproxy.Options) int {
	o.Log = nil                                              // what stands in for a store is not durable, and would say so
	o.Store = func(name string) (idempotency.Store, error) { // a dry run makes no files
		return idempotency.NewMemoryStore(1, 1<<20), known(name)
	}
	if _, err := gabionproxy.New(file.Proxy, registry, o); err != nil {
		return r.failed(cli.ExitFindings, err)
	}
	for _, l := range file.Proxy.Listen {
		fmt.Fprintf(r.stdout, "%s  %s\n", l.Address, strings.Join(gabionproxy.Describe(l), "\n"+strings.Repeat(" ", len(l.Address)+2)))
	}
	if at := file.Proxy.Admin.Address; at != "" {
		fmt.Fprintf(r.stdout, "%s  for operators\n", at)
	}
	return cli.ExitOK
}

// metrics are those of the dependencies, of the proxy and of the process.
func metrics(counts *gabionprom.Metrics) func(*gabionproxy.Proxy) http.Handler {
	return func(p *gabionproxy.Proxy) http.Handler {
		reg := prometheus.NewRegistry()
		reg.MustRegister(counts, own{p}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	}
}

// own are the proxy's numbers.
type own struct{ p *gabionproxy.Proxy }

// Describe implements [prometheus.Collector]; the names are those of Collect.
func (o own) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(o, to) }

// Collect implements [prometheus.Collector].
func (o own) Collect(to chan<- prometheus.Metric) {
	for name, n := range o.p.Stats().Series() {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, "See gabionproxy.Stats.", nil, nil), kind, float64(n))
	}
}
