// Command migrate puts the same questions to a client before and after its migration to
// gabion, against a flaky shop on loopback. What is not written in Go it plays in the lab.
//
//	go run .                 # all libraries
//	go run . failsafe-go     # one
//
// The programs are in the folders, a before.go and an after.go each; docs/migrate has the
// guides. The questions that take long are asked in the tests alone, in virtual time.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/examples/migrate/failsafego"
	"github.com/gabion-go/gabion/examples/migrate/gobreaker"
	"github.com/gabion-go/gabion/examples/migrate/hystrix"
	"github.com/gabion-go/gabion/examples/migrate/lab"
	"github.com/gabion-go/gabion/examples/migrate/polly"
	"github.com/gabion-go/gabion/examples/migrate/resilience4j"
	"github.com/gabion-go/gabion/examples/migrate/retryablehttp"
	"github.com/gabion-go/gabion/examples/migrate/shop"
)

// A migration is two programs that do the same.
type migration struct {
	name   string
	before func(base string, wire http.RoundTripper) shop.Client // nil where it isn't written in Go
	after  func(base string, wire http.RoundTripper, options ...gabion.Option) shop.Client
	file   []byte // of a program whose before does not run here
	real   bool   // before has goroutines that never end, and can't run in virtual time
}

var migrations = []migration{
	{name: "failsafe-go", before: failsafego.Before, after: failsafego.After},
	{name: "gobreaker-backoff", before: gobreaker.Before, after: gobreaker.After},
	{name: "go-retryablehttp", before: retryablehttp.Before, after: retryablehttp.After},
	{name: "hystrix", before: beforeHystrix, after: hystrix.After, real: true},
	{name: "resilience4j", after: resilience4j.After, file: resilience4j.File},
	{name: "polly", after: polly.After, file: polly.File},
}

// beforeHystrix has a circuit of its own for each program.
func beforeHystrix(base string, wire http.RoundTripper) shop.Client {
	return hystrix.Before("shop of "+base, base, wire)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

// run asks the programs of the named migrations, or of all.
func run(ctx context.Context, to io.Writer, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(migrations, func(m migration) bool { return m.name == name }) {
			return fmt.Errorf("there is no %q: there are %s", name, known())
		}
	}
	for _, m := range migrations {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
		tell := m.onLoopback
		if m.before == nil {
			tell = m.inTheLab
		}
		if err := tell(ctx, table); err != nil {
			return err
		}
		fmt.Fprintln(table)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func known() (names []string) {
	for _, m := range migrations {
		names = append(names, m.name)
	}
	return names
}

// onLoopback puts the quick questions to both programs.
func (m migration) onLoopback(ctx context.Context, to io.Writer) error {
	fmt.Fprintf(to, "%s\tbefore\tafter\n", m.name)
	for _, q := range shop.Questions {
		if q.Slow || q.Long {
			continue
		}
		before, err := onLoopback(ctx, q, m.before)
		if err != nil {
			return err
		}
		after, err := onLoopback(ctx, q, func(base string, wire http.RoundTripper) shop.Client { return m.after(base, wire) })
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%s\t%s\t%s\n", q.Name, before, after)
	}
	return nil
}

// inTheLab compares a library that does not run here with the file of its guide.
func (m migration) inTheLab(ctx context.Context, to io.Writer) error {
	file, err := config.Parse("gabion.yaml", m.file)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "%s, in the lab\tits documented defaults\tgabion.yaml\n", m.name)
	for _, share := range []string{"10%", "50%", "100%"} {
		theirs, ours, err := lab.Played(ctx, m.name, file, share)
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%s of the answers are 503\t%s\t%s\n", share, theirs, ours)
	}
	return nil
}

// onLoopback puts a question to a new program and a new shop.
func onLoopback(ctx context.Context, q shop.Question, program func(string, http.RoundTripper) shop.Client) (string, error) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server, closeIt := shop.Open(on)
	defer closeIt()
	wire := &http.Transport{MaxIdleConnsPerHost: 256}
	defer wire.CloseIdleConnections()
	return q.Ask(ctx, server, program("http://"+on.Addr().String(), wire)), nil
}
