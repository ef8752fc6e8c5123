// Command balance adds amounts to a balance, exactly once each, while its server is
// killed again and again.
//
//	go run .                                # on SQLite
//	DATABASE_URL=postgres://... go run .    # and on PostgreSQL
//
// The server (server.go) adds and records the request's idempotency key in one
// transaction. The client (client.go) makes a key for each amount and repeats the
// request until it is answered. The driver (this file) kills the server with SIGKILL
// at random moments and counts at the end. On PostgreSQL it drops and makes the tables
// balance_account and balance_keys.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
)

func main() {
	serveIfChild()
	amounts := flag.Int("amounts", 200, "how many amounts are added")
	seed := flag.Uint64("seed", 1, "of the amounts and of the moments at which the server dies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Getenv("DATABASE_URL"), *amounts, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "balance:", err)
		os.Exit(1)
	}
}

// run does everything once on each database and prints a table.
func run(ctx context.Context, to io.Writer, postgres string, amounts int, seed uint64) error {
	dir, err := os.MkdirTemp("", "balance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	databases := []string{filepath.Join(dir, "balance.db")}
	if postgres != "" {
		databases = append(databases, postgres)
	}
	table := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "database\tamounts\trequests\tkills\tadded\tbalance\tsum\t")
	var wrong []error
	for _, where := range databases {
		r, err := play(ctx, where, amounts, seed)
		if err != nil {
			return fmt.Errorf("%s: %w", kindOf(where), err)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", kindOf(where), amounts, r.requests, r.kills, r.added, r.balance, r.sum, r.verdict(amounts))
		if r.added != amounts || r.balance != r.sum {
			wrong = append(wrong, fmt.Errorf("%s: not exactly once", kindOf(where)))
		}
	}
	return errors.Join(append(wrong, table.Flush())...)
}

// A result is that of one database.
type result struct {
	requests int64 // that were sent, repeated ones included
	kills    int
	added    int // how often something was added
	balance  int
	sum      int // of the amounts
}

func (r result) verdict(amounts int) string {
	if r.added == amounts && r.balance == r.sum {
		return "exactly once each"
	}
	return "WRONG"
}

// play adds the amounts through a server that dies.
func play(ctx context.Context, where string, amounts int, seed uint64) (r result, err error) {
	db, err := prepare(ctx, where)
	if err != nil {
		return r, err
	}
	defer db.Close()
	server, err := startMortal(where, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		return r, err
	}
	draw := rand.New(rand.NewPCG(seed, 2))
	cents := make([]int, amounts)
	for i := range cents {
		cents[i] = 1 + draw.IntN(10_000)
		r.sum += cents[i]
	}
	r.requests, err = addAll(ctx, server.url(), cents)
	kills, serverErr := server.stop()
	if err := errors.Join(err, serverErr); err != nil {
		return r, err
	}
	r.kills = kills
	err = db.QueryRowContext(ctx, "SELECT cents, additions FROM balance_account").Scan(&r.balance, &r.added)
	return r, err
}
