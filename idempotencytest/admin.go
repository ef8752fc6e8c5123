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
	for e, err := range idempotency.All(context.Background(), a) {
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
	a, ok := b.another(0).(idempotency.Admin)
	if !ok {
		b.Skip("the store is no idempotency.Admin")
	}
	running, done, lost, gone := b.claim(idempotency.Hold, long), b.claim(idempotency.Hold, long), b.claim(idempotency.Hold, short), b.claim(idempotency.Hold, long)
	run := b.want(running, idempotency.Run)
	b.apply(ref(running, run), save)
	ended := b.want(done, idempotency.Run)
	b.apply(ref(done, ended), complete("body"))
	was := b.want(lost, idempotency.Run)
	b.pass()

	found := b.listed(a, running.ID, done.ID, lost.ID)
	if r := found[running.ID].Record; r.State != idempotency.Running || r.Token != run.Record.Token || r.Attempt != 1 || len(r.Points) != 1 || r.Points[0].Data != nil {
		b.Errorf("running: %+v", r)
	}
	if r := found[done.ID].Record; r.State != idempotency.Done || r.Result.Body != nil || r.Retention != done.Retention {
		b.Errorf("done: %+v", r)
	}
	if _, there := found[gone.ID]; there {
		b.Error("a key without a record is in the list")
	}
	if now, err := a.Now(context.Background()); err != nil || found[lost.ID].Record.LeaseUntil > now {
		b.Errorf("now %v, %v", now, err)
	}

	settle(b, a, running, done, lost, gone, was)
	forget(b, a, running, done, lost, run)
}

func settle(b *bench, a idempotency.Admin, running, done, lost, gone idempotency.Claim, was idempotency.Answer) {
	b.Helper()
	ctx := context.Background()
	nothing := idempotency.Change{Event: idempotency.ResolveNothing}
	for _, c := range []struct {
		what string
		id   idempotency.ID
		want error
	}{
		{"a run under way", running.ID, idempotency.ErrRunning}, {"a result", done.ID, idempotency.ErrKnown}, {"no record", gone.ID, idempotency.ErrNoRecord},
	} {
		before := b.bytes(c.id)
		if err := idempotency.ResolveAs(ctx, a, c.id, nothing); !errors.Is(err, c.want) || string(before) != string(b.bytes(c.id)) {
			b.Errorf("resolving %s: %v, want %v and no change", c.what, err, c.want)
		}
	}
	// Its lease is over, and nobody has noticed.
	if err := idempotency.ResolveAs(ctx, a, lost.ID, idempotency.Change{Event: idempotency.ResolveDone, Result: result("found")}); err != nil {
		b.Errorf("resolving a lost run: %v", err)
	}
	b.refused(ref(lost, was), extend, save, release)
	if got := b.want(again(lost), idempotency.Replay); string(got.Record.Result.Body) != "found" {
		b.Errorf("replay %q", got.Record.Result.Body)
	}
}

func forget(b *bench, a idempotency.Admin, running, done, lost idempotency.Claim, run idempotency.Answer) {
	b.Helper()
	ctx := context.Background()
	if err := idempotency.ForgetID(ctx, a, running.ID); !errors.Is(err, idempotency.ErrRunning) {
		b.Errorf("forgetting a run under way: %v", err)
	}
	if err := a.Forget(ctx, ref(running, run)); !errors.Is(err, idempotency.ErrLeaseLost) {
		b.Errorf("forgetting a run under way, by its token: %v", err)
	}
	old := b.get(done.ID)
	if err := a.Forget(ctx, idempotency.Ref{ID: done.ID, Token: old.Token + 1}); !errors.Is(err, idempotency.ErrLeaseLost) {
		b.Errorf("forgetting another token: %v", err)
	}
	b.want(again(done), idempotency.Replay)
	b.apply(ref(running, run), complete("x"))
	for _, c := range []idempotency.Claim{done, lost} {
		if err := idempotency.ForgetID(ctx, a, c.ID); err != nil {
			b.Errorf("forget: %v", err)
		}
		if err := idempotency.ForgetID(ctx, a, c.ID); !errors.Is(err, idempotency.ErrNoRecord) {
			b.Errorf("forget again: %v", err)
		}
	}
	if a := b.want(again(done), idempotency.Run); a.Record.Attempt != 1 || a.Record.Token <= old.Token {
		b.Errorf("after a record was forgotten: attempt %d, token %d after %d", a.Record.Attempt, a.Record.Token, old.Token)
	}
}
