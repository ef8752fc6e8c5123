package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/testservers"
)

func TestMain(m *testing.M) {
	workIfChild()
	before := runtime.NumGoroutine()
	code := m.Run()
	for limit := time.Now().Add(5 * time.Second); code == 0 && runtime.NumGoroutine() > before+1; runtime.Gosched() { // package os/signal keeps one
		if time.Now().After(limit) {
			stacks := make([]byte, 1<<20)
			fmt.Printf("%d goroutines more than before:\n%s", runtime.NumGoroutine()-before, stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// A shop is a database, a bank, and a worker that may run.
type shop struct {
	url  string
	pool *pgxpool.Pool
	bank *bank
	api  *httptest.Server
	dep  *gabion.Dependency
	jobs *river.Client[pgx.Tx]
	seen <-chan *river.Event
}

// quick are settings with which tests need not wait.
var quick = settings{waits: backoff.Equal(10*time.Millisecond, 20*time.Millisecond), poll: 100 * time.Millisecond, test: true}

// open returns a shop on the database of the test. Its worker is not started.
func open(t *testing.T, url string, faults ...fault) *shop {
	t.Helper()
	s := &shop{url: url, dep: gabion.New("bank", throughBank())}
	var err error
	if s.pool, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	if s.bank, err = newBank(faults...); err != nil {
		t.Fatal(err)
	}
	s.api = httptest.NewServer(s.bank)
	t.Cleanup(s.api.Close)
	client := newBankClient(s.api.URL, s.dep)
	t.Cleanup(client.http.CloseIdleConnections)
	if s.jobs, err = newWorker(s.pool, client, quick); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) start(t *testing.T) {
	t.Helper()
	var cancel func()
	s.seen, cancel = s.jobs.Subscribe(river.EventKindJobCompleted, river.EventKindJobCancelled, river.EventKindJobFailed, river.EventKindJobSnoozed)
	t.Cleanup(cancel)
	if err := s.jobs.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.jobs.StopAndCancel(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func (s *shop) order(t *testing.T, name string) (id int64) {
	t.Helper()
	id, err := place(t.Context(), s.pool, s.jobs, name, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// next returns the job as it is after its next run.
func (s *shop) next(t *testing.T, id int64) *rivertype.JobRow {
	t.Helper()
	for {
		select {
		case e := <-s.seen:
			if e.Job.ID == id {
				return e.Job
			}
		case <-time.After(time.Minute):
			t.Fatal("the job does not end")
		}
	}
}

// hasten lets a job run now that would run later. It is not River's JobRetry, which runs a job again that
// River has run by then.
func (s *shop) hasten(t *testing.T, id int64) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = $1 AND state IN ('retryable', 'scheduled')", id); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) expect(t *testing.T, order string, requests, charged int, paid bool) {
	t.Helper()
	if gotRequests, gotCharged := s.bank.counts(order); gotRequests != requests || gotCharged != charged {
		t.Errorf("%s: %d requests and charged %d times, want %d and %d", order, gotRequests, gotCharged, requests, charged)
	}
	var got bool
	if err := s.pool.QueryRow(t.Context(), "SELECT paid FROM shop_orders WHERE name = $1", order).Scan(&got); err != nil || got != paid {
		t.Errorf("%s: paid is %v, want %v: %v", order, got, paid, err)
	}
}

// expectJob compares what River counted: attempts, errors, and snoozes in the metadata.
func expectJob(t *testing.T, job *rivertype.JobRow, state rivertype.JobState, attempt, failed int, snoozes string) {
	t.Helper()
	if job.State != state || job.Attempt != attempt || len(job.Errors) != failed || !strings.Contains(string(job.Metadata), snoozes) {
		t.Errorf("job %s after attempt %d with %d errors and %s, want %s, %d, %d and %s: %v",
			job.State, job.Attempt, len(job.Errors), job.Metadata, state, attempt, failed, snoozes, job.Errors)
	}
}

// River and PostgreSQL are started once for all of these. Each has a bank of its own.
func TestChargedOnce(t *testing.T) {
	t.Parallel() // it waits most of the time
	url := testservers.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, string)
	}{
		{"an order that is not written has no job", together},
		{"a blip costs no attempt of River's", blip},
		{"a lost answer is asked for with the same key", lost},
		{"an outage is River's", outage},
		{"an outage without end ends, and requests do not multiply", endless},
		{"Retry-After snoozes and uses no attempt", retryAfter},
		{"an open breaker snoozes, and nothing is sent", openBreaker},
		{"a declined card is not asked again", declined},
		{"a key that the bank may have forgotten is not sent", forgotten},
		{"a worker that stops gives the job back uncounted", stopped},
		{"a worker that is killed after the charge", killed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, url) })
	}
}

func together(t *testing.T, url string) {
	s := open(t, url)
	s.order(t, "together")
	if _, err := place(t.Context(), s.pool, s.jobs, "together", 1000); err == nil {
		t.Error("there are two orders of one name")
	}
	jobs, err := s.jobs.JobList(t.Context(), river.NewJobListParams().Kinds(Charge{}.Kind()))
	if err != nil || len(jobs.Jobs) != 1 {
		t.Errorf("%d jobs, %v", len(jobs.Jobs), err)
	}
	s.start(t)
	expectJob(t, s.next(t, jobs.Jobs[0].ID), rivertype.JobStateCompleted, 1, 0, "")
	s.expect(t, "together", 1, 1, true)
}

func blip(t *testing.T, url string) {
	s := open(t, url, down)
	s.start(t)
	expectJob(t, s.next(t, s.order(t, "blip")), rivertype.JobStateCompleted, 1, 0, "")
	s.expect(t, "blip", 2, 1, true)
}

func lost(t *testing.T, url string) {
	s := open(t, url, silent)
	s.start(t)
	expectJob(t, s.next(t, s.order(t, "lost")), rivertype.JobStateCompleted, 1, 0, "")
	s.expect(t, "lost", 2, 1, true)
}

func outage(t *testing.T, url string) {
	s := open(t, url, down, down)
	s.start(t)
	id := s.order(t, "outage")
	expectJob(t, s.next(t, id), rivertype.JobStateAvailable, 1, 1, "")
	expectJob(t, s.next(t, id), rivertype.JobStateCompleted, 2, 1, "")
	s.expect(t, "outage", 3, 1, true)
}

func endless(t *testing.T, url string) {
	var faults []fault
	for range 2 * maxAttempts {
		faults = append(faults, down)
	}
	s := open(t, url, faults...)
	s.start(t)
	id := s.order(t, "endless")
	job := s.next(t, id)
	for job.FinalizedAt == nil {
		job = s.next(t, id)
	}
	expectJob(t, job, rivertype.JobStateDiscarded, maxAttempts, maxAttempts, "")
	// Once the bank has never answered well, a call that fails does not repeat itself.
	if requests, _ := s.bank.counts("endless"); requests < maxAttempts || requests > maxAttempts+2 {
		t.Errorf("%d requests for %d attempts of River's", requests, maxAttempts)
	}
}

func retryAfter(t *testing.T, url string) {
	s := open(t, url, busy(30))
	s.start(t)
	start := time.Now()
	id := s.order(t, "busy")
	job := s.next(t, id)
	expectJob(t, job, rivertype.JobStateScheduled, 0, 0, `"snoozes": 1`)
	if wait := job.ScheduledAt.Sub(start); wait < 30*time.Second || wait > 50*time.Second {
		t.Errorf("snoozed for %v after a Retry-After of 30 s", wait)
	}
	s.expect(t, "busy", 1, 0, false)
	if _, err := s.jobs.JobCancel(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func openBreaker(t *testing.T, url string) {
	s := open(t, url)
	s.start(t)
	s.next(t, s.order(t, "warm"))
	breaker, ok := s.dep.Breaker(strings.TrimPrefix(s.api.URL, "http://"))
	if !ok {
		t.Fatal("no breaker")
	}
	breaker.ForceOpen(time.Minute)
	id := s.order(t, "open")
	expectJob(t, s.next(t, id), rivertype.JobStateScheduled, 0, 0, `"snoozes": 1`)
	s.expect(t, "open", 1, 0, false)
	breaker.Reset()
	s.hasten(t, id)
	expectJob(t, s.next(t, id), rivertype.JobStateCompleted, 1, 0, "")
	s.expect(t, "open", 2, 1, true)
}

func declined(t *testing.T, url string) {
	s := open(t, url)
	s.start(t)
	expectJob(t, s.next(t, s.order(t, "declined")), rivertype.JobStateCancelled, 1, 1, "")
	s.expect(t, "declined", 1, 0, false)
}

func forgotten(t *testing.T, url string) {
	s := open(t, url)
	s.start(t)
	made := time.Now().Add(-22 * time.Hour).UnixMilli()
	key := fmt.Sprintf("%08x-%04x-7000-8000-000000000000", made>>16, made&0xffff)
	inserted, err := s.jobs.Insert(t.Context(), Charge{Order: "forgotten", Cents: 1000, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	job := s.next(t, inserted.Job.ID)
	expectJob(t, job, rivertype.JobStateCancelled, 1, 1, "")
	if requests, _ := s.bank.counts("forgotten"); requests != 0 || !strings.Contains(fmt.Sprint(job.Errors), gabion.KeyExpired.Error()) {
		t.Errorf("%d requests, %v", requests, job.Errors)
	}
}

func stopped(t *testing.T, url string) {
	charged := make(chan struct{}, 1)
	s := open(t, url, held(charged))
	s.start(t)
	id := s.order(t, "stopped")
	<-charged
	if err := s.jobs.StopAndCancel(t.Context()); err != nil {
		t.Error(err)
	}
	job, err := s.jobs.JobGet(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	expectJob(t, job, rivertype.JobStateAvailable, 0, 0, "")
	s.start(t)
	expectJob(t, s.next(t, id), rivertype.JobStateCompleted, 1, 0, "")
	s.expect(t, "stopped", 2, 1, true)
}

func TestTheTableTellsTheTruth(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out, testservers.Postgres(t)); err != nil {
		t.Error(err)
	}
	for _, line := range []string{
		"calm      completed  1         1        1",
		"blip      completed  2         1        1",
		"lost      completed  2         1 ",
		"outage    completed  3         1 ",
		"busy      completed  2         1        1",
		"declined  cancelled  1         0        1",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		t.Log("\n" + out.String())
	}
	if err := run(t.Context(), &out, "postgres://127.0.0.1:1/none"); err == nil {
		t.Error("no error without a database")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := finalOf(ctx, nil, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}
