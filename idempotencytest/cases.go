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
	c := b.claim(idempotency.Hold, long)
	if r := b.get(c.ID); r.State != idempotency.Absent {
		b.Errorf("before: %v", r.State)
	}
	a := b.want(c, idempotency.Run)
	if r := a.Record; r.State != idempotency.Running || r.Attempt != 1 || r.Token < 1 || r.LeaseUntil.Sub(r.Created) != long {
		b.Errorf("claimed record: %+v", r)
	}
	if left := b.want(again(c), idempotency.InProgress).Left; left <= 0 || left > long {
		b.Errorf("lease left: %v", left)
	}
}

func replays(b *bench) {
	c := b.claim(idempotency.Hold, long)
	b.apply(ref(c, b.want(c, idempotency.Run)), complete("body\x00\xff"))
	for range 2 {
		got, want := b.want(again(c), idempotency.Replay).Record.Result, result("body\x00\xff")
		if got.Status != want.Status || got.Omitted || !bytes.Equal(got.Body, want.Body) ||
			!slices.Equal(got.Header, want.Header) || !slices.Equal(got.Trailer, want.Trailer) {
			b.Errorf("replay: %+v, want %+v", got, want)
		}
	}
	c = b.claim(idempotency.Hold, long)
	b.apply(ref(c, b.want(c, idempotency.Run)), idempotency.Change{Event: idempotency.Complete, Result: idempotency.Result{Status: 204, Omitted: true}})
	if got := b.want(again(c), idempotency.Replay).Record.Result; !got.Omitted || got.Status != 204 {
		b.Errorf("omitted: %+v", got)
	}
}

func mismatches(b *bench) {
	c := b.claim(idempotency.Reexecute, short)
	other := again(c)
	other.Fingerprint[0]++
	a := b.want(c, idempotency.Run)
	before := b.bytes(c.ID)
	b.want(other, idempotency.Mismatch)
	b.pass()
	b.want(other, idempotency.Mismatch)
	if !bytes.Equal(before, b.bytes(c.ID)) {
		b.Error("a mismatch changed the record")
	}
	b.apply(ref(c, a), complete("x"))
	b.want(other, idempotency.Mismatch)
	b.want(again(c), idempotency.Replay)
}

func scopes(b *bench) {
	c, d := b.claim(idempotency.Hold, long), b.claim(idempotency.Hold, long)
	c.ID, d.ID = idempotency.IDOf(b.Name()+"a", "bc"), idempotency.IDOf(b.Name()+"ab", "c")
	d.Fingerprint[0]++
	b.want(c, idempotency.Run)
	b.apply(ref(d, b.want(d, idempotency.Run)), complete("d"))
	b.want(again(c), idempotency.InProgress)
}

func repeatedClaim(b *bench) {
	c := b.claim(idempotency.Hold, long)
	first, second := b.want(c, idempotency.Run), b.want(c, idempotency.Run)
	if first.Record.Token != second.Record.Token || second.Record.Attempt != 1 {
		b.Errorf("first %+v, second %+v", first.Record, second.Record)
	}
	b.apply(ref(c, first), complete("x"))
	b.want(c, idempotency.Replay)
}

func repeatedChange(b *bench) {
	for _, ch := range []idempotency.Change{complete("x"), release, abandon} {
		c := b.claim(idempotency.Hold, long)
		r := ref(c, b.want(c, idempotency.Run))
		b.apply(r, save)
		b.apply(r, save)
		if n := len(b.get(c.ID).Points); n != 1 {
			b.Errorf("%d points, want 1", n)
		}
		b.apply(r, ch)
		before := b.bytes(c.ID)
		b.apply(r, ch)
		if !bytes.Equal(before, b.bytes(c.ID)) {
			b.Errorf("%v twice changed the record twice", ch.Event)
		}
	}
	c := b.claim(idempotency.Hold, long)
	r := ref(c, b.want(c, idempotency.Run))
	b.apply(r, complete("x"))
	b.refused(r, complete("y"), release, abandon, extend, save)
}

func released(b *bench) {
	for _, g := range []idempotency.Guarantee{idempotency.Hold, idempotency.Reexecute} {
		c := b.claim(g, long)
		first := b.want(c, idempotency.Run)
		b.apply(ref(c, first), release)
		second := b.want(again(c), idempotency.Run)
		if second.Record.Attempt != 2 || second.Record.Token <= first.Record.Token || second.Record.Created != first.Record.Created {
			b.Errorf("%v: first %+v, second %+v", g, first.Record, second.Record)
		}
		b.refused(ref(c, first), complete("x"), extend, abandon, release)
	}
}

func extended(b *bench) {
	c := b.claim(idempotency.Reexecute, short)
	r := ref(c, b.want(c, idempotency.Run))
	b.apply(r, extend)
	b.pass()
	b.want(again(c), idempotency.InProgress)
	late := b.claim(idempotency.Hold, short)
	r = ref(late, b.want(late, idempotency.Run))
	b.pass()
	b.apply(r, extend) // nobody noticed: it is still the only run
	b.want(again(late), idempotency.InProgress)
}

func takenOver(b *bench) {
	c := b.claim(idempotency.Reexecute, short)
	first := b.want(c, idempotency.Run)
	b.pass()
	next := again(c)
	next.Lease = long
	second := b.want(next, idempotency.Run)
	if second.Record.Attempt != 2 || second.Record.Token <= first.Record.Token {
		b.Errorf("first %+v, second %+v", first.Record, second.Record)
	}
	b.refused(ref(c, first), complete("zombie"), release, extend, save, abandon)
	b.apply(ref(c, second), complete("second"))
	b.refused(ref(c, first), complete("zombie"), complete("second"), release)
	if got := b.want(again(c), idempotency.Replay); string(got.Record.Result.Body) != "second" {
		b.Errorf("replay %q", got.Record.Result.Body)
	}
}

func heldForEver(b *bench) {
	c := b.claim(idempotency.Hold, short)
	first := b.want(c, idempotency.Run)
	b.pass()
	b.want(again(c), idempotency.OutcomeUnknown)
	b.refused(ref(c, first), complete("zombie"), release, extend, save)
	b.want(again(c), idempotency.OutcomeUnknown)
	d := b.claim(idempotency.Hold, long)
	b.apply(ref(d, b.want(d, idempotency.Run)), abandon)
	b.want(again(d), idempotency.OutcomeUnknown)
}

func stricter(b *bench) {
	for _, g := range [][2]idempotency.Guarantee{{idempotency.Hold, idempotency.Reexecute}, {idempotency.Reexecute, idempotency.Hold}} {
		c := b.claim(g[0], short)
		b.want(c, idempotency.Run)
		b.pass()
		c.Guarantee = g[1]
		b.want(again(c), idempotency.OutcomeUnknown)
	}
}

func points(b *bench) {
	c := b.claim(idempotency.Reexecute, short)
	b.apply(ref(c, b.want(c, idempotency.Run)), save)
	b.pass()
	c.Lease = long
	second := b.want(again(c), idempotency.Run)
	if p := second.Record.Points; len(p) != 1 || p[0].Name != "p" || string(p[0].Data) != "q" {
		b.Errorf("points after a takeover: %v", p)
	}
	b.apply(ref(c, second), release)
	third := b.want(again(c), idempotency.Run)
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
		c := b.claim(idempotency.Hold, long)
		r := ref(c, b.want(c, idempotency.Run))
		b.refused(r, idempotency.Change{Event: idempotency.ResolveDone}, idempotency.Change{Event: idempotency.ResolveNothing})
		b.apply(r, abandon)
		return c, r
	}
	c, r := unknown()
	b.apply(r, idempotency.Change{Event: idempotency.ResolveDone, Result: result("found")})
	if a := b.want(again(c), idempotency.Replay); string(a.Record.Result.Body) != "found" {
		b.Errorf("replay %q", a.Record.Result.Body)
	}
	b.refused(r, idempotency.Change{Event: idempotency.ResolveNothing})
	c, r = unknown()
	b.apply(r, idempotency.Change{Event: idempotency.ResolveNothing})
	b.want(again(c), idempotency.Run)
}

func recovered(b *bench) {
	c := b.claim(idempotency.Hold, short)
	lost := b.want(c, idempotency.Run)
	b.pass()
	c.Recover, c.Lease = true, long
	c = again(c)
	a := b.want(c, idempotency.Recover)
	if a.Record.Token <= lost.Record.Token || a.Record.Attempt != 1 {
		b.Errorf("recovering: %+v", a.Record)
	}
	if repeated := b.want(c, idempotency.Recover); repeated.Record.Token != a.Record.Token { // its answer was lost
		b.Errorf("repeated: %+v", repeated.Record)
	}
	b.want(again(c), idempotency.InProgress)
	b.refused(ref(c, lost), complete("zombie"))
	b.apply(ref(c, a), abandon)
	a = b.want(again(c), idempotency.Recover)
	b.apply(ref(c, a), release)
	b.want(again(c), idempotency.Run)
}

func refusedChangeNothing(b *bench) {
	c := b.claim(idempotency.Hold, long)
	a := b.want(c, idempotency.Run)
	before := b.bytes(c.ID)
	b.want(again(c), idempotency.InProgress)
	other := again(c)
	other.Fingerprint[0]++
	b.want(other, idempotency.Mismatch)
	if !bytes.Equal(before, b.bytes(c.ID)) {
		b.Error("a refused duplicate changed the record")
	}
	b.refused(idempotency.Ref{ID: c.ID, Token: a.Record.Token + 1}, complete("x"), release)
	b.refused(idempotency.Ref{ID: c.ID, Token: a.Record.Token - 1}, complete("x"), release)
	b.refused(idempotency.Ref{ID: b.claim(idempotency.Hold, long).ID, Token: 1}, complete("x"), release, extend)
}

func expired(b *bench) {
	c := b.claim(idempotency.Hold, long)
	c.Retention = short
	first := b.want(c, idempotency.Run)
	b.pass()
	b.want(again(c), idempotency.InProgress) // retention begins when the run ends
	b.apply(ref(c, first), complete("x"))
	b.pass()
	c.Fingerprint[0]++ // even another request: the record is gone
	second := b.want(again(c), idempotency.Run)
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
			if a.Decision == idempotency.Run {
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
		if won := b.race(32, b.claim(idempotency.Hold, long)); len(won) != 1 {
			b.Fatalf("%d won a new key", len(won))
		}
	}
}

func expiredOnce(b *bench) {
	var all []idempotency.Claim
	for range 10 {
		lost, done := b.claim(idempotency.Reexecute, short), b.claim(idempotency.Reexecute, long)
		lost.Retention, done.Retention = short, short
		b.want(lost, idempotency.Run)
		a := b.want(done, idempotency.Run)
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
	keep, goes, back := b.claim(idempotency.Hold, long), b.claim(idempotency.Hold, long), b.claim(idempotency.Hold, long)
	goes.Retention, back.Retention = short, short
	for _, c := range []idempotency.Claim{keep, goes, back} {
		b.apply(ref(c, b.want(c, idempotency.Run)), complete("x"))
	}
	b.pass()
	a := b.want(again(back), idempotency.Run) // claimed again before the sweeper came
	b.sweep()                                 // where the store itself forgets what expired, there is nothing to do
	if s := b.get(goes.ID).State; s != idempotency.Absent {
		b.Errorf("an expired record is %v after a sweep", s)
	}
	b.want(again(keep), idempotency.Replay)
	b.want(again(back), idempotency.InProgress)
	b.apply(ref(back, a), complete("y"))
	b.refused(ref(goes, a), complete("x"))
}

func sweptLost(b *bench) {
	hold, rerun := b.claim(idempotency.Hold, short), b.claim(idempotency.Reexecute, short)
	b.want(hold, idempotency.Run)
	b.want(rerun, idempotency.Run)
	b.pass()
	b.sweep()
	if s := b.get(hold.ID).State; s != idempotency.Unknown {
		b.Errorf("a lost run under hold is %v after a sweep", s)
	}
	b.want(again(hold), idempotency.OutcomeUnknown)
	if a := b.want(again(rerun), idempotency.Run); a.Record.Attempt != 2 {
		b.Errorf("attempt %d", a.Record.Attempt)
	}
}

func largeBody(b *bench) {
	size := 1 << 20
	if most := b.store.Caps().MaxValue; most > 0 {
		size = min(size, most)
	}
	body := bytes.Repeat([]byte{0, 1, 2, 255}, size/4)
	c := b.claim(idempotency.Hold, long)
	b.apply(ref(c, b.want(c, idempotency.Run)), complete(string(body)))
	if got := b.want(again(c), idempotency.Replay).Record.Result.Body; !bytes.Equal(got, body) {
		b.Errorf("%d bytes came back, want %d", len(got), len(body))
	}
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := b.claim(idempotency.Hold, long)
	a, err := b.store.Begin(ctx, c)
	if got := b.want(c, idempotency.Run); err == nil && got.Record.Token != a.Record.Token {
		b.Errorf("granted as %d, then as %d", a.Record.Token, got.Record.Token)
	}
}
