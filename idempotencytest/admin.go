package idempotencytest

import (
	"context"
	"errors"

	"github.com/gabion-go/gabion/idempotency"
)

// listed returns the entries of some keys, and fails if they are not all there.
func (b *bench) listed(a idempotency.Admin, want ...idempotency.ID) map[idempotency.ID]idempotency.Entry {
	b.Helper()
	found := map[idempotency.ID]idempotency.Entry{}
	for e, err := range a.All(context.Background()) {
		if err != nil {
			b.Fatalf("list: %v", err)
		}
		found[e.ID] = e
	}
	for _, id := range want {
		if _, there := found[id]; !there {
			b.Errorf("record %v is not in the list of %d", id, len(found))
		}
	}
	return found
}

// administered lists, resolves and forgets records on a handle that has no part in their
// runs. Of a run under way it changes nothing.
func administered(b *bench) {
	a := idempotency.Admin{Store: b.another(0)}
	running, done, lost, gone := b.claim(idempotency.GuaranteeHold, long), b.claim(idempotency.GuaranteeHold, long), b.claim(idempotency.GuaranteeHold, short), b.claim(idempotency.GuaranteeHold, long)
	run := b.want(running, idempotency.DecisionRun)
	b.apply(ref(running, run), save)
	ended := b.want(done, idempotency.DecisionRun)
	b.apply(ref(done, ended), complete("body"))
	was := b.want(lost, idempotency.DecisionRun)
	b.pass()

	found := b.listed(a, running.ID, done.ID, lost.ID)
	if r := found[running.ID].Record; r.State != idempotency.StateRunning || r.Token != run.Record.Token || r.Attempt != 1 || len(r.Points) != 1 || r.Points[0].Data != nil {
		b.Errorf("running: %+v", r)
	}
	if r := found[done.ID].Record; r.State != idempotency.StateDone || r.Result.Body != nil || r.Retention != done.Retention {
		b.Errorf("done: %+v", r)
	}
	if _, there := found[gone.ID]; there {
		b.Error("a key without a record is in the list")
	}
	if now, err := a.Store.Now(context.Background()); err != nil || found[lost.ID].Record.LeaseUntil > now {
		b.Errorf("now %v, %v", now, err)
	}

	settle(b, a, running, done, lost, gone, was)
	forget(b, a, running, done, lost, run)
}

func settle(b *bench, a idempotency.Admin, running, done, lost, gone idempotency.Claim, was idempotency.Answer) {
	b.Helper()
	ctx := context.Background()
	nothing := idempotency.Change{State: idempotency.StateRetryable}
	for _, c := range []struct {
		what string
		id   idempotency.ID
	}{{"a run under way", running.ID}, {"a result", done.ID}, {"no record", gone.ID}} {
		before := b.bytes(c.id)
		if err := a.Resolve(ctx, c.id, nothing); !errors.Is(err, idempotency.ErrRefused) || string(before) != string(b.bytes(c.id)) {
			b.Errorf("resolving %s: %v, want ErrRefused and no change", c.what, err)
		}
	}
	// Its lease is over, but no call has marked it lost.
	if err := a.Resolve(ctx, lost.ID, idempotency.Change{State: idempotency.StateDone, Result: result("found")}); err != nil {
		b.Errorf("resolving a lost run: %v", err)
	}
	b.refused(ref(lost, was), extend, save, release)
	if got := b.want(again(lost), idempotency.DecisionReplay); string(got.Record.Result.Body) != "found" {
		b.Errorf("replay %q", got.Record.Result.Body)
	}
}

func forget(b *bench, a idempotency.Admin, running, done, lost idempotency.Claim, run idempotency.Answer) {
	b.Helper()
	ctx := context.Background()
	if err := a.Forget(ctx, running.ID); !errors.Is(err, idempotency.ErrRefused) {
		b.Errorf("forgetting a run under way: %v", err)
	}
	gone := idempotency.Change{State: idempotency.StateAbsent, Operator: true}
	b.refused(ref(running, run), gone)
	old := b.get(done.ID)
	b.refused(idempotency.Ref{ID: done.ID, Token: old.Token + 1}, gone)
	b.want(again(done), idempotency.DecisionReplay)
	b.apply(ref(running, run), complete("x"))
	for _, c := range []idempotency.Claim{done, lost} {
		if err := a.Forget(ctx, c.ID); err != nil {
			b.Errorf("forget: %v", err)
		}
		if err := a.Forget(ctx, c.ID); !errors.Is(err, idempotency.ErrRefused) {
			b.Errorf("forget again: %v", err)
		}
	}
	for id := range b.listed(a) {
		if id == done.ID || id == lost.ID {
			b.Errorf("a record that was forgotten is in the list: %v", id)
		}
	}
	if a := b.want(again(done), idempotency.DecisionRun); a.Record.Attempt != 1 || a.Record.Token <= old.Token {
		b.Errorf("after a record was forgotten: attempt %d, token %d after %d", a.Record.Attempt, a.Record.Token, old.Token)
	}
}
