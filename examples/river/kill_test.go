package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivertype"

	"github.com/gabion-go/gabion"
)

// childEnv makes a run of this test's program a worker on that database, with that bank.
const childEnv = "GABION_EXAMPLE_RIVER"

// workIfChild works until it is killed.
func workIfChild() {
	database, bank, child := strings.Cut(os.Getenv(childEnv), " ")
	if !child {
		return
	}
	pool, err := pgxpool.New(context.Background(), database)
	if err == nil {
		s := quick
		s.mortal = true
		jobs, wrong := newWorker(pool, newBankClient(bank, gabion.New("bank", throughBank())), s)
		if err = wrong; err == nil {
			err = jobs.Start(context.Background())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {} // its parent kills it
}

// The worker is killed when the bank has charged and before it says so. Another one takes the
// job over when River holds the first for dead, and the key makes the second run harmless.
func killed(t *testing.T, url string) {
	charged := make(chan struct{}, 1)
	s := open(t, url, held(charged))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(program)
	worker.Env = append(os.Environ(), childEnv+"="+url+" "+s.api.URL)
	worker.Stderr = os.Stderr
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	})
	id := s.order(t, "killed")
	<-charged
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	job, err := s.jobs.JobGet(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	expectJob(t, job, rivertype.JobStateRunning, 1, 0, "") // as if it still ran

	// An hour later.
	if _, err := s.pool.Exec(t.Context(), "UPDATE river_job SET attempted_at = attempted_at - interval '1 hour' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	for job.State == rivertype.JobStateRunning {
		if job, err = s.jobs.JobGet(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	s.hasten(t, id) // instead of the five seconds until River looks for jobs whose wait is over
	expectJob(t, s.next(t, id), rivertype.JobStateCompleted, 2, 1, "")
	s.expect(t, "killed", 2, 1, true)
}
