package idempotencytest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/idempotency"
)

func newKey(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, long)
	if r := b.get(c.ID); r.State != idempotency.StateAbsent {
		b.Errorf("before: %v", r.State)
	}
	a := b.want(c, idempotency.DecisionRun)
	if r := a.Record; r.State != idempotency.StateRunning || r.Attempt != 1 || r.Token < 1 || r.LeaseUntil.Sub(r.Created) != long {
		b.Errorf("claimed record: %+v", r)
	}
	if left := b.want(again(c), idempotency.DecisionInProgress).Left; left <= 0 || left > long {
		b.Errorf("lease left: %v", left)
	}
}

func replays(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, long)
	b.apply(ref(c, b.want(c, idempotency.DecisionRun)), complete("body\x00\xff"))
	for range 2 {
		got, want := b.want(again(c), idempotency.DecisionReplay).Record.Result, result("body\x00\xff")
		if got.Status != want.Status || got.Omitted || !bytes.Equal(got.Body, want.Body) ||
			!slices.Equal(got.Header, want.Header) || !slices.Equal(got.Trailer, want.Trailer) {
			b.Errorf("replay: %+v, want %+v", got, want)
		}
	}
	c = b.claim(idempotency.GuaranteeHold, long)
	b.apply(ref(c, b.want(c, idempotency.DecisionRun)), idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 204, Omitted: true}})
	if got := b.want(again(c), idempotency.DecisionReplay).Record.Result; !got.Omitted || got.Status != 204 {
		b.Errorf("omitted: %+v", got)
	}
}

func mismatches(b *bench) {
	c := b.claim(idempotency.GuaranteeReexecute, short)
	other := again(c)
	other.Fingerprint[0]++
	a := b.want(c, idempotency.DecisionRun)
	before := b.bytes(c.ID)
	b.want(other, idempotency.DecisionMismatch)
	b.pass()
	b.want(other, idempotency.DecisionMismatch)
	if !bytes.Equal(before, b.bytes(c.ID)) {
		b.Error("a mismatch changed the record")
	}
	b.apply(ref(c, a), complete("x"))
	b.want(other, idempotency.DecisionMismatch)
	b.want(again(c), idempotency.DecisionReplay)
}

func scopes(b *bench) {
	c, d := b.claim(idempotency.GuaranteeHold, long), b.claim(idempotency.GuaranteeHold, long)
	c.ID, d.ID = idempotency.IDOf(b.Name()+"a", "bc"), idempotency.IDOf(b.Name()+"ab", "c")
	d.Fingerprint[0]++
	b.want(c, idempotency.DecisionRun)
	b.apply(ref(d, b.want(d, idempotency.DecisionRun)), complete("d"))
	b.want(again(c), idempotency.DecisionInProgress)
}

func repeatedClaim(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, long)
	first, second := b.want(c, idempotency.DecisionRun), b.want(c, idempotency.DecisionRun)
	if first.Record.Token != second.Record.Token || second.Record.Attempt != 1 {
		b.Errorf("first %+v, second %+v", first.Record, second.Record)
	}
	b.apply(ref(c, first), complete("x"))
	b.want(c, idempotency.DecisionReplay)
}

func repeatedChange(b *bench) {
	for _, ch := range []idempotency.Change{complete("x"), release, abandon} {
		c := b.claim(idempotency.GuaranteeHold, long)
		r := ref(c, b.want(c, idempotency.DecisionRun))
		b.apply(r, save)
		b.apply(r, save)
		if n := len(b.get(c.ID).Points); n != 1 {
			b.Errorf("%d points, want 1", n)
		}
		b.apply(r, ch)
		before := b.bytes(c.ID)
		b.apply(r, ch)
		if !bytes.Equal(before, b.bytes(c.ID)) {
			b.Errorf("a change to %v, made twice, changed the record twice", ch.State)
		}
	}
	c := b.claim(idempotency.GuaranteeHold, long)
	r := ref(c, b.want(c, idempotency.DecisionRun))
	b.apply(r, complete("x"))
	b.refused(r, complete("y"), release, abandon, extend, save)
}

func released(b *bench) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute} {
		c := b.claim(g, long)
		first := b.want(c, idempotency.DecisionRun)
		b.apply(ref(c, first), release)
		second := b.want(again(c), idempotency.DecisionRun)
		if second.Record.Attempt != 2 || second.Record.Token <= first.Record.Token || second.Record.Created != first.Record.Created {
			b.Errorf("%v: first %+v, second %+v", g, first.Record, second.Record)
		}
		b.refused(ref(c, first), complete("x"), extend, abandon, release)
	}
}

func extended(b *bench) {
	c := b.claim(idempotency.GuaranteeReexecute, short)
	r := ref(c, b.want(c, idempotency.DecisionRun))
	b.apply(r, extend)
	b.pass()
	b.want(again(c), idempotency.DecisionInProgress)
	late := b.claim(idempotency.GuaranteeHold, short)
	r = ref(late, b.want(late, idempotency.DecisionRun))
	b.pass()
	b.apply(r, extend) // no takeover happened: it is still the only run
	b.want(again(late), idempotency.DecisionInProgress)
}

func takenOver(b *bench) {
	c := b.claim(idempotency.GuaranteeReexecute, short)
	first := b.want(c, idempotency.DecisionRun)
	b.pass()
	next := again(c)
	next.Lease = long
	second := b.want(next, idempotency.DecisionRun)
	if second.Record.Attempt != 2 || second.Record.Token <= first.Record.Token {
		b.Errorf("first %+v, second %+v", first.Record, second.Record)
	}
	b.refused(ref(c, first), complete("zombie"), release, extend, save, abandon)
	b.apply(ref(c, second), complete("second"))
	b.refused(ref(c, first), complete("zombie"), complete("second"), release)
	if got := b.want(again(c), idempotency.DecisionReplay); string(got.Record.Result.Body) != "second" {
		b.Errorf("replay %q", got.Record.Result.Body)
	}
}

func heldForEver(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, short)
	first := b.want(c, idempotency.DecisionRun)
	b.pass()
	b.want(again(c), idempotency.DecisionUnknown)
	b.refused(ref(c, first), complete("zombie"), release, extend, save)
	b.want(again(c), idempotency.DecisionUnknown)
	d := b.claim(idempotency.GuaranteeHold, long)
	b.apply(ref(d, b.want(d, idempotency.DecisionRun)), abandon)
	b.want(again(d), idempotency.DecisionUnknown)
}

func stricter(b *bench) {
	for _, g := range [][2]idempotency.Guarantee{{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute}, {idempotency.GuaranteeReexecute, idempotency.GuaranteeHold}} {
		c := b.claim(g[0], short)
		b.want(c, idempotency.DecisionRun)
		b.pass()
		c.Guarantee = g[1]
		b.want(again(c), idempotency.DecisionUnknown)
	}
}

func points(b *bench) {
	c := b.claim(idempotency.GuaranteeReexecute, short)
	b.apply(ref(c, b.want(c, idempotency.DecisionRun)), save)
	b.pass()
	c.Lease = long
	second := b.want(again(c), idempotency.DecisionRun)
	if p := second.Record.Points; len(p) != 1 || p[0].Name != "p" || string(p[0].Data) != "q" {
		b.Errorf("points after a takeover: %v", p)
	}
	b.apply(ref(c, second), release)
	third := b.want(again(c), idempotency.DecisionRun)
	if len(third.Record.Points) != 1 {
		b.Errorf("points after a release: %v", third.Record.Points)
	}
	b.apply(ref(c, third), complete("x"))
	if r := b.get(c.ID); len(r.Points) != 0 {
		b.Errorf("points when done: %v", r.Points)
	}
}

func resolved(b *bench) {
	unknown := func() (idempotency.Claim, idempotency.Ref) {
		c := b.claim(idempotency.GuaranteeHold, long)
		r := ref(c, b.want(c, idempotency.DecisionRun))
		b.refused(r, idempotency.Change{State: idempotency.StateDone, Operator: true}, idempotency.Change{State: idempotency.StateRetryable, Operator: true})
		b.apply(r, abandon)
		return c, r
	}
	c, r := unknown()
	b.apply(r, idempotency.Change{State: idempotency.StateDone, Operator: true, Result: result("found")})
	if a := b.want(again(c), idempotency.DecisionReplay); string(a.Record.Result.Body) != "found" {
		b.Errorf("replay %q", a.Record.Result.Body)
	}
	b.refused(r, idempotency.Change{State: idempotency.StateRetryable, Operator: true})
	c, r = unknown()
	b.apply(r, idempotency.Change{State: idempotency.StateRetryable, Operator: true})
	b.want(again(c), idempotency.DecisionRun)
}

func recovered(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, short)
	lost := b.want(c, idempotency.DecisionRun)
	b.pass()
	c.Recover, c.Lease = true, long
	c = again(c)
	a := b.want(c, idempotency.DecisionRecover)
	if a.Record.Token <= lost.Record.Token || a.Record.Attempt != 1 {
		b.Errorf("recovering: %+v", a.Record)
	}
	if repeated := b.want(c, idempotency.DecisionRecover); repeated.Record.Token != a.Record.Token { // its answer was lost
		b.Errorf("repeated: %+v", repeated.Record)
	}
	b.want(again(c), idempotency.DecisionInProgress)
	b.refused(ref(c, lost), complete("zombie"))
	b.apply(ref(c, a), abandon)
	a = b.want(again(c), idempotency.DecisionRecover)
	b.apply(ref(c, a), release)
	b.want(again(c), idempotency.DecisionRun)
}

func refusedChangeNothing(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, long)
	a := b.want(c, idempotency.DecisionRun)
	before := b.bytes(c.ID)
	b.want(again(c), idempotency.DecisionInProgress)
	other := again(c)
	other.Fingerprint[0]++
	b.want(other, idempotency.DecisionMismatch)
	if !bytes.Equal(before, b.bytes(c.ID)) {
		b.Error("a refused duplicate changed the record")
	}
	b.refused(idempotency.Ref{ID: c.ID, Token: a.Record.Token + 1}, complete("x"), release)
	b.refused(idempotency.Ref{ID: c.ID, Token: a.Record.Token - 1}, complete("x"), release)
	b.refused(idempotency.Ref{ID: b.claim(idempotency.GuaranteeHold, long).ID, Token: 1}, complete("x"), release, extend)
}

func expired(b *bench) {
	c := b.claim(idempotency.GuaranteeHold, long)
	c.Retention = short
	first := b.want(c, idempotency.DecisionRun)
	b.pass()
	b.want(again(c), idempotency.DecisionInProgress) // retention begins when the run ends
	b.apply(ref(c, first), complete("x"))
	b.pass()
	c.Fingerprint[0]++ // even another request: the record is gone
	second := b.want(again(c), idempotency.DecisionRun)
	if second.Record.Attempt != 1 || second.Record.Token <= first.Record.Token {
		b.Errorf("first %+v, second %+v", first.Record, second.Record)
	}
	b.refused(ref(c, first), complete("x"), release)
}

// race lets many claim at once and returns those who won.
func (b *bench) race(n int, c idempotency.Claim) []idempotency.Answer {
	var won atomic.Pointer[[]idempotency.Answer]
	won.Store(&[]idempotency.Answer{})
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			a, err := b.store.Begin(context.Background(), again(c))
			if err != nil {
				b.Errorf("begin: %v", err)
			}
			if a.Decision == idempotency.DecisionRun {
				mu.Lock()
				defer mu.Unlock()
				next := append(*won.Load(), a)
				won.Store(&next)
			}
		})
	}
	all.Wait()
	return *won.Load()
}

func racers(b *bench) {
	for range 20 {
		if won := b.race(32, b.claim(idempotency.GuaranteeHold, long)); len(won) != 1 {
			b.Fatalf("%d won a new key", len(won))
		}
	}
}

func expiredOnce(b *bench) {
	var all []idempotency.Claim
	for range 10 {
		lost, done := b.claim(idempotency.GuaranteeReexecute, short), b.claim(idempotency.GuaranteeReexecute, long)
		lost.Retention, done.Retention = short, short
		b.want(lost, idempotency.DecisionRun)
		a := b.want(done, idempotency.DecisionRun)
		b.apply(ref(done, a), complete("x"))
		all = append(all, lost, done)
	}
	b.pass()
	for _, c := range all {
		c.Lease, c.Retention = long, long
		if won := b.race(32, c); len(won) != 1 {
			b.Fatalf("%d won an expired key", len(won))
		}
	}
}

func (b *bench) sweep() (n int) {
	b.Helper()
	for range 1000 {
		one, err := b.store.Sweep(context.Background(), 256)
		if err != nil {
			b.Fatalf("sweep: %v", err)
		}
		if n += one; one == 0 {
			break
		}
	}
	return n
}

func swept(b *bench) {
	keep, goes, back := b.claim(idempotency.GuaranteeHold, long), b.claim(idempotency.GuaranteeHold, long), b.claim(idempotency.GuaranteeHold, long)
	goes.Retention, back.Retention = short, short
	for _, c := range []idempotency.Claim{keep, goes, back} {
		b.apply(ref(c, b.want(c, idempotency.DecisionRun)), complete("x"))
	}
	b.pass()
	a := b.want(again(back), idempotency.DecisionRun) // claimed again before the sweeper came
	b.sweep()                                         // where the store itself forgets what expired, there is nothing to do
	if s := b.get(goes.ID).State; s != idempotency.StateAbsent {
		b.Errorf("an expired record is %v after a sweep", s)
	}
	b.want(again(keep), idempotency.DecisionReplay)
	b.want(again(back), idempotency.DecisionInProgress)
	b.apply(ref(back, a), complete("y"))
	b.refused(ref(goes, a), complete("x"))
}

func sweptLost(b *bench) {
	hold, rerun := b.claim(idempotency.GuaranteeHold, short), b.claim(idempotency.GuaranteeReexecute, short)
	b.want(hold, idempotency.DecisionRun)
	b.want(rerun, idempotency.DecisionRun)
	b.pass()
	b.sweep()
	if s := b.get(hold.ID).State; s != idempotency.StateUnknown {
		b.Errorf("a lost run under hold is %v after a sweep", s)
	}
	b.want(again(hold), idempotency.DecisionUnknown)
	if a := b.want(again(rerun), idempotency.DecisionRun); a.Record.Attempt != 2 {
		b.Errorf("attempt %d", a.Record.Attempt)
	}
}

func largeBody(b *bench) {
	size := 1 << 20
	if most := b.store.Caps().MaxValue; most > 0 {
		size = min(size, most)
	}
	body := bytes.Repeat([]byte{0, 1, 2, 255}, size/4)
	c := b.claim(idempotency.GuaranteeHold, long)
	b.apply(ref(c, b.want(c, idempotency.DecisionRun)), complete(string(body)))
	if got := b.want(again(c), idempotency.DecisionReplay).Record.Result.Body; !bytes.Equal(got, body) {
		b.Errorf("%d bytes came back, want %d", len(got), len(body))
	}
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := b.claim(idempotency.GuaranteeHold, long)
	a, err := b.store.Begin(ctx, c)
	if got := b.want(c, idempotency.DecisionRun); err == nil && got.Record.Token != a.Record.Token {
		b.Errorf("granted as %d, then as %d", a.Record.Token, got.Record.Token)
	}
}
