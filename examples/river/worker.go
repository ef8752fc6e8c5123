package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// The times that have to fit into each other: a call, with its few attempts, ends before the
// job's time is over, and no job runs any more when River takes it for one of a dead worker.
const (
	callTimeout = 8 * time.Second
	jobTimeout  = 10 * time.Second
	rescueAfter = 2 * time.Minute // River's default is an hour: until then the job waits
)

// The longest life of a job has to fit, too: the bank remembers a key for keyRetention, and
// a charge that is sent after that may be a second one. River's default is 25 attempts in
// three weeks.
const (
	keyRetention = 24 * time.Hour
	maxAttempts  = 12
)

var longWaits = backoff.Equal(30*time.Second, time.Hour) // River's, between attempts

// throughBank is the policy of the worker's calls: one quick attempt more, for what is over in
// a moment. What lasts longer is River's to wait for.
func throughBank() policy.Policy {
	p, _ := policy.Preset("payment")
	p.Timeout = policy.Timeout{Call: callTimeout, Attempt: 2 * time.Second}
	p.Retry.Attempts = 2
	p.Retry.Backoff = backoff.Full(100*time.Millisecond, time.Second)
	p.Retry.MaxAfter = time.Second // a longer Retry-After is a snooze
	return p
}

// Charge is a job: it charges an order.
type Charge struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`

	// Key is the idempotency key of the charge. It is made when the job is, and so is the
	// same in every run of the job, whichever worker has it.
	Key string `json:"key"`
}

func (Charge) Kind() string { return "charge" }

// InsertOpts are for all charges: twelve attempts with these waits take five hours at most.
func (Charge) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: maxAttempts} }

// A charger works on charges.
type charger struct {
	river.WorkerDefaults[Charge]
	pool *pgxpool.Pool
	bank *bankClient
}

func (*charger) Timeout(*river.Job[Charge]) time.Duration { return jobTimeout }

func (c *charger) Work(ctx context.Context, job *river.Job[Charge]) error {
	if err := c.bank.charge(ctx, job.Args); err != nil {
		return settle(job.JobRow, err)
	}
	// That the order is paid and that the job is done: both or neither. If neither, the job
	// runs again, and the key makes it harmless.
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE shop_orders SET paid = true WHERE name = $1", job.Args.Order); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// A bankClient charges through gabion.
type bankClient struct {
	url  string
	http *http.Client
}

func newBankClient(url string, d *gabion.Dependency) *bankClient {
	return &bankClient{url, &http.Client{Transport: &gabionhttp.Transport{Dependency: d, KeyRetention: keyRetention}}}
}

// charge returns an error with a *gabion.Error in it, or nil when the bank has charged.
func (b *bankClient) charge(ctx context.Context, c Charge) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/charges", strings.NewReader(fmt.Sprintf("%s %d", c.Order, c.Cents)))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", c.Key)
	resp, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if failed := gabionhttp.Verdict(resp); failed != nil {
		return failed
	}
	return nil
}

// settings are what tests set. Zero means what production has.
type settings struct {
	waits  backoff.Backoff // instead of longWaits
	poll   time.Duration   // when River looks for jobs without being told
	mortal bool            // a worker that will be killed leads no others
	test   bool
}

// newWorker returns River's client for a worker, which is not started.
func newWorker(pool *pgxpool.Pool, bank *bankClient, s settings) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &charger{pool: pool, bank: bank})
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}, // the bulkhead of the policy
		Workers:              workers,
		RetryPolicy:          waits{cmp.Or(s.waits, longWaits)},
		RescueStuckJobsAfter: rescueAfter,
		JobTimeout:           jobTimeout, // RescueStuckJobsAfter is compared with this one
		FetchPollInterval:    s.poll,

		// These are the dead letters of this queue. By default River forgets them after a
		// day and a week.
		CancelledJobRetentionPeriod: -1,
		DiscardedJobRetentionPeriod: -1,

		LeaderElectionDisabled: s.mortal,
		TestOnly:               s.test,
		Logger:                 slog.New(slog.DiscardHandler),
	})
}
