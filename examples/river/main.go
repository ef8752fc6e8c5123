// Command river has jobs in River's queue on PostgreSQL charge orders at a bank that fails,
// through gabion: each is charged once.
//
//	DATABASE_URL=postgres://... go run .
//
// It makes River's tables and the table shop_orders, which it drops if it is there. The user's
// transaction writes an order and its job (shop.go). The job's worker calls the bank through
// gabion (worker.go), and tells River what the end of the call means for the job (settle.go).
// The page is docs/jobs.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
)

func main() {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		fmt.Fprintln(os.Stderr, "river: DATABASE_URL is not set. It needs a PostgreSQL database in which tables may be made: postgres://user@host/database. The tests of this directory start one themselves: go test .")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, url); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// A story is an order, and what the bank does to the requests for it.
type story struct {
	order  string
	about  string
	faults []fault
}

// A job that gabion repeats at once costs no attempt of River's. How often it may do that, its
// budget says: of few calls, few.
var stories = []story{
	{"calm", "nothing fails", nil},
	{"blip", "an answer of 503: gabion's second attempt, at once", []fault{down}},
	{"lost", "charged, and the answer is lost: asked again with the same key", []fault{silent}},
	{"outage", "two answers of 503: River runs the job again, later", []fault{down, down}},
	{"busy", "Retry-After of 2 s: snoozed, no attempt is used", []fault{busy(2)}},
	{"declined", "402: cancelled, for an operator to look at", nil},
}

// run plays the stories, one after the other, and prints a table.
func run(ctx context.Context, to io.Writer, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := prepare(ctx, pool); err != nil {
		return err
	}
	b, err := newBank()
	if err != nil {
		return err
	}
	server := httptest.NewServer(b)
	defer server.Close()
	client := newBankClient(server.URL, gabion.New("bank", throughBank()))
	defer client.http.CloseIdleConnections()
	quick := settings{waits: backoff.Equal(time.Second, 5*time.Second)} // so that the example ends within an hour
	jobs, err := newWorker(pool, client, quick)
	if err != nil {
		return err
	}
	ended, cancel := jobs.Subscribe(river.EventKindJobCompleted, river.EventKindJobCancelled, river.EventKindJobFailed)
	defer cancel()
	if err := jobs.Start(ctx); err != nil {
		return err
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "order\tstate\trequests\tcharged\tattempts of River's\twhat happened")
	var wrong error
	for _, s := range stories {
		b.plan(s.faults...)
		id, err := place(ctx, pool, jobs, s.order, 1000)
		if err != nil {
			wrong = err
			break
		}
		job, err := finalOf(ctx, ended, id)
		if err != nil {
			wrong = err
			break
		}
		requests, charged := b.counts(s.order)
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\n", s.order, job.State, requests, charged, job.Attempt, s.about)
		if paid := job.State == rivertype.JobStateCompleted; paid != (charged == 1) {
			wrong = errors.Join(wrong, fmt.Errorf("%s was charged %d times", s.order, charged))
		}
	}
	return errors.Join(wrong, jobs.Stop(context.WithoutCancel(ctx)), table.Flush())
}

// finalOf waits until a job is over.
func finalOf(ctx context.Context, ended <-chan *river.Event, id int64) (*rivertype.JobRow, error) {
	for {
		select {
		case e := <-ended:
			if e.Job.ID == id && e.Job.FinalizedAt != nil {
				return e.Job, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
