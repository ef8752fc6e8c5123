package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

func TestRetentionBeyondTheBucketsTTLIsRefused(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{TTL: time.Hour})
	for _, c := range []struct {
		lease, retention time.Duration
		fits             bool
	}{
		{30 * time.Second, 59 * time.Minute, true},
		{30 * time.Second, time.Hour, false},
		{2 * time.Minute, 59 * time.Minute, false},
	} {
		claim := claimOf(fmt.Sprint(c), idempotency.GuaranteeHold, c.lease)
		claim.Retention = c.retention
		_, err := s.Begin(t.Context(), claim)
		if c.fits != (err == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "1h0m0s") || !strings.Contains(err.Error(), c.retention.String()) || !strings.Contains(err.Error(), "records")) {
			t.Errorf("%v does not say what does not fit", err)
		}
		if r, _ := s.Get(t.Context(), claim.ID); !c.fits && r.State != idempotency.StateAbsent {
			t.Errorf("%+v: %v", c, r.State)
		}
	}
}

// The server's own deletion is late enough: a lost run under Hold is unknown as
// long as its retention lasts, and then the key is free.
func TestBucketForgetsAfterRetentionOnly(t *testing.T) {
	t.Parallel()
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{TTL: 4500 * time.Millisecond})
	var lost idempotency.Claim
	for n := 0; ; n++ {
		lost = claimOf(fmt.Sprint("lost", n), idempotency.GuaranteeHold, 100*time.Millisecond)
		kept := claimOf(fmt.Sprint("kept", n), idempotency.GuaranteeHold, 100*time.Millisecond)
		lost.Retention, kept.Retention = 3*time.Second, 3*time.Second
		begun := time.Now()
		want(t, s, lost, idempotency.DecisionRun)
		apply(t, s, kept, want(t, s, kept, idempotency.DecisionRun), done("x"))
		<-time.After(time.Second)
		kept.Owner[15]++
		a, err1 := s.Begin(t.Context(), kept)
		r, err2 := s.Get(t.Context(), lost.ID)
		if took := time.Since(begun); took > 3*time.Second && n < 10 {
			t.Logf("took %v: too busy to see what is kept for as long", took)
			continue
		}
		if a.Decision != idempotency.DecisionReplay || r.State != idempotency.StateRunning || err1 != nil || err2 != nil {
			t.Errorf("%v and %v: %v, %v", a.Decision, r.State, err1, err2)
		}
		break
	}
	for limit := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		r, err := s.Get(t.Context(), lost.ID)
		if err != nil || time.Now().After(limit) {
			t.Fatalf("%v, %v", r.State, err)
		}
		if r.State == idempotency.StateAbsent {
			break
		}
	}
	lost.Owner[15]++
	a := want(t, s, lost, idempotency.DecisionRun)
	if a.Record.Attempt != 1 {
		t.Errorf("attempt %d", a.Record.Attempt)
	}
}

func TestNewerRecordsAreLeftAlone(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{})
	c := claimOf("k", idempotency.GuaranteeReexecute, time.Millisecond)
	a := want(t, s, c, idempotency.DecisionRun)
	m, err := s.stream.GetLastMsgForSubject(t.Context(), s.subject+keyOf(c.ID))
	if err != nil {
		t.Fatal(err)
	}
	m.Data[0]++ // the version
	kv, err := js.KeyValue(t.Context(), "records")
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.Update(t.Context(), keyOf(c.ID), m.Data, m.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), c); !errors.Is(err, idempotency.ErrUnreadable) {
		t.Errorf("begin: %v", err)
	}
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, done("x")); !errors.Is(err, idempotency.ErrUnreadable) {
		t.Errorf("apply: %v", err)
	}
	if _, err := s.Get(t.Context(), c.ID); !errors.Is(err, idempotency.ErrUnreadable) {
		t.Errorf("get: %v", err)
	}
	if n, err := s.Sweep(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	if e, err := kv.Get(t.Context(), keyOf(c.ID)); err != nil || e.Revision() != rev {
		t.Errorf("the record was touched: %v", err)
	}
}

// After an operator deletes a key with other tools the next claim is of a new key.
func TestKeyThatAnOperatorDeleted(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{})
	kv, err := js.KeyValue(t.Context(), "records")
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(string) error{
		"delete": func(k string) error { return kv.Delete(t.Context(), k) },
		"purge":  func(k string) error { return kv.Purge(t.Context(), k) },
	} {
		c := claimOf(name, idempotency.GuaranteeHold, time.Minute)
		first := want(t, s, c, idempotency.DecisionRun)
		if err := remove(keyOf(c.ID)); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Get(t.Context(), c.ID); err != nil || r.State != idempotency.StateAbsent {
			t.Errorf("%s: %v, %v", name, r.State, err)
		}
		err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: first.Record.Token}, done("x"))
		if !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
		if n, err := s.Sweep(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("%s: swept %d: %v", name, n, err)
		}
		c.Owner[15]++
		if a := want(t, s, c, idempotency.DecisionRun); a.Record.Token <= first.Record.Token {
			t.Errorf("%s: token %d after %d", name, a.Record.Token, first.Record.Token)
		}
	}
}

func TestFullBucketSaysSo(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{MaxBytes: 4 << 10})
	var err error
	for n := 0; err == nil && n < 100; n++ {
		_, err = s.Begin(t.Context(), claimOf(fmt.Sprint(n), idempotency.GuaranteeHold, time.Minute))
	}
	if !errors.Is(err, idempotency.ErrFull) {
		t.Errorf("%v", err)
	}
	c := claimOf("0", idempotency.GuaranteeHold, time.Minute)
	c.Owner[15]++
	want(t, s, c, idempotency.DecisionInProgress) // no record is dropped for another
}

// What this process remembers of a record never overrules what is stored.
func TestMemoryIsNotTrusted(t *testing.T) {
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	a, b := mustOpen(t, testnats.Connect(t, url), Options{}), mustOpen(t, testnats.Connect(t, url), Options{})
	c := claimOf("k", idempotency.GuaranteeHold, time.Minute)
	mine := want(t, a, c, idempotency.DecisionRun)
	apply(t, b, c, mine, release)
	if err := a.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: mine.Record.Token}, done("late")); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("complete after a release: %v", err)
	}
	c.Owner[15]++
	theirs := want(t, b, c, idempotency.DecisionRun)
	if err := a.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: mine.Record.Token}, release); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("release after another's claim: %v", err)
	}
	apply(t, a, c, theirs, done("x")) // known by its token alone
	apply(t, b, c, theirs, done("x")) // made already: b remembers a running record
	if len(a.held) > 0 || len(b.held) > 0 {
		t.Errorf("%d and %d records are remembered when nothing runs", len(a.held), len(b.held))
	}
}

// A sweep that is slow deletes the revision it looked at and no other.
func TestSweepNeverDeletesWhatWasClaimedAgain(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{})
	c := claimOf("k", idempotency.GuaranteeHold, time.Minute)
	c.Retention = time.Millisecond
	apply(t, s, c, want(t, s, c, idempotency.DecisionRun), done("x"))
	pass(t, s, time.Millisecond)
	seen, err := s.load(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	c.Owner[15]++
	a := want(t, s, c, idempotency.DecisionRun)
	if gone, err := s.remove(t.Context(), seen.rev); gone || err != nil {
		t.Errorf("removed: %v, %v", gone, err)
	}
	if r, err := s.Get(t.Context(), c.ID); err != nil || r.Token != a.Record.Token {
		t.Errorf("%+v, %v", r, err)
	}
	info, err := s.stream.Info(t.Context(), jetstream.WithDeletedDetails(true))
	if err != nil || info.State.Msgs != 1 {
		t.Errorf("%+v, %v", info.State, err)
	}
}

// Sweeps go on where the last one ended, and start over at the end.
func TestSweepComesAround(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{})
	const records = 30
	for n := range records {
		c := claimOf(fmt.Sprint(n), idempotency.GuaranteeHold, time.Minute)
		c.Retention = time.Millisecond
		apply(t, s, c, want(t, s, c, idempotency.DecisionRun), done("x"))
	}
	pass(t, s, time.Millisecond)
	total := 0
	for _, most := range []int{0, 7, 7, 7, 100} {
		n, err := s.Sweep(t.Context(), most)
		if err != nil || n > most {
			t.Errorf("swept %d of %d: %v", n, most, err)
		}
		total += n
	}
	if total != records {
		t.Errorf("swept %d", total)
	}
	want(t, s, claimOf("alive", idempotency.GuaranteeHold, time.Hour), idempotency.DecisionRun)
	if n, err := s.Sweep(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("swept %d that were not due: %v", n, err)
	}
	lost := claimOf("lost", idempotency.GuaranteeHold, time.Millisecond)
	want(t, s, lost, idempotency.DecisionRun)
	pass(t, s, lost.Lease)
	if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	if r, err := s.Get(t.Context(), lost.ID); err != nil || r.State != idempotency.StateUnknown {
		t.Errorf("%v, %v", r.State, err)
	}
}

// Records that can't be swept don't keep a sweeper from the others.
func TestSweepGoesOnBehindWhatItCannotRead(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	s := mustOpen(t, js, Options{})
	for n := range 4 {
		c := claimOf(fmt.Sprint(n), idempotency.GuaranteeHold, time.Millisecond)
		want(t, s, c, idempotency.DecisionRun)
		if n == 3 {
			break
		}
		m, err := s.stream.GetLastMsgForSubject(t.Context(), s.subject+keyOf(c.ID))
		if err != nil {
			t.Fatal(err)
		}
		m.Data[0]++ // the version
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data},
			jetstream.WithExpectLastSequencePerSubject(m.Sequence)); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, s, time.Millisecond)
	for _, want := range []int{0, 1} {
		if n, err := s.Sweep(t.Context(), 2); n != want || err != nil {
			t.Errorf("swept %d, want %d: %v", n, want, err)
		}
	}
	if r, err := s.Get(t.Context(), claimOf("3", 0, 0).ID); err != nil || r.State != idempotency.StateUnknown {
		t.Errorf("%v, %v", r.State, err)
	}
}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	dir, port := t.TempDir(), testservers.FreePorts(t, 1)[0]
	n := &testnats.Node{Settings: testnats.Settings{Name: "one", Dir: dir, Port: port}}
	t.Cleanup(n.Kill)
	n.Start(t)
	js := testnats.Connect(t, fmt.Sprintf("nats://127.0.0.1:%d", port))
	s := mustOpen(t, js, Options{SyncAlways: true})
	kept, running := claimOf("kept", idempotency.GuaranteeHold, time.Minute), claimOf("running", idempotency.GuaranteeHold, time.Minute)
	apply(t, s, kept, want(t, s, kept, idempotency.DecisionRun), done("body"))
	a := want(t, s, running, idempotency.DecisionRun)
	n.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Begin(ctx, claimOf("down", idempotency.GuaranteeHold, time.Minute)); err == nil {
		t.Error("a server that is down granted a claim")
	}
	n.Start(t)
	for limit := time.Now().Add(patience); !js.Conn().IsConnected(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no connection")
		}
	}
	kept.Owner[15]++
	if got := want(t, s, kept, idempotency.DecisionReplay); string(got.Record.Result.Body) != "body" {
		t.Errorf("%q", got.Record.Result.Body)
	}
	apply(t, s, running, a, done("x"))
}
