package idempotencytest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// Times of the suite. A lease that shall live is long; one that shall end is short,
// and the suite waits for it, so much longer that a store on a busy machine, which
// knows the time less well than others, sees that it is over. Inside a synctest bubble
// no time passes.
const (
	long   = time.Hour
	short  = 10 * time.Millisecond
	passes = 150 * time.Millisecond
)

// A Config says how the suite gets at a store. Open is needed.
type Config struct {
	// Open returns a handle on a store, as one process has it. The data may be shared
	// with earlier tests: the suite uses keys of its own.
	Open func(testing.TB) idempotency.Store

	// Again returns another handle on the data of first, which Open returned, as another
	// process has it: with connections, locks and whatever else is not with the data of
	// its own. That process's clock is ahead by so much, or behind if it is negative: a
	// store that reads its process's clock is given one that is so far ahead. One that
	// has its time from a server need not look at it.
	//
	// Nil says that only one process at a time can have the store. Then nothing is found
	// out about what holds between several.
	Again func(t testing.TB, first idempotency.Store, ahead time.Duration) idempotency.Store
}

// Run checks a store. It takes some seconds, for races are played until they were had.
func Run(t *testing.T, c Config) {
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) { one.run(&bench{TB: t, store: c.Open(t), again: c.Again}) })
	}
}

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"1 a new key runs, and again is in progress", newKey},
	{"2 a completed key is replayed byte for byte", replays},
	{"6 7 another request is a mismatch, running or done", mismatches},
	{"17 scopes never meet", scopes},
	{"a claim that was repeated by its owner is granted once", repeatedClaim},
	{"a change that was repeated is made once", repeatedChange},
	{"a released key runs again with the next attempt", released},
	{"an extended lease lives on", extended},
	{"36 reexecute takes a lost run over, and the first can change nothing", takenOver},
	{"36 hold never repeats a lost run", heldForEver},
	{"hold and reexecute: the stricter word counts", stricter},
	{"recovery points outlive a takeover", points},
	{"an operator resolves an unknown outcome", resolved},
	{"recover is claimed by one at a time", recovered},
	{"42 those who are refused change nothing", refusedChangeNothing},
	{"43 one of many wins an expired key", expiredOnce},
	{"43 an expired key runs as new with a larger token", expired},
	{"45 sweeping deletes what expired and nothing else", swept},
	{"5.2 sweeping marks lost runs", sweptLost},
	{"3 one of many wins a new key", racers},
	{"a large body comes back whole", largeBody},
	{"a cancelled context changes nothing afterwards", cancelled},
	{"B the history of many holders is sound", func(b *bench) { soundHistory(b, b.store, b.another(0)) }},
	{"what is kept of four runs", kept},
	{"the largest duration is for ever", forEver},
	{"an operator lists, resolves and forgets", administered},
	{"two handles decide as one", twoHandles},
	{"processes whose clocks are apart agree", clocks},
	{"45 a sweep that races with claims takes none", sweepRaces},
}

// A bench is a test with a store.
type bench struct {
	testing.TB
	store idempotency.Store
	again func(testing.TB, idempotency.Store, time.Duration) idempotency.Store // nil if it can't be opened twice
}

// another returns another handle on the same data, by a process whose clock is ahead by so
// much: the same handle where there can't be two.
func (b *bench) another(ahead time.Duration) idempotency.Store {
	if b.again == nil {
		return b.store
	}
	return b.again(b.TB, b.store, ahead)
}

// claim returns a claim of a key that no other test uses.
func (b *bench) claim(g idempotency.Guarantee, lease time.Duration) idempotency.Claim {
	return idempotency.Claim{
		ID:          idempotency.IDOf(b.Name(), fmt.Sprint(names.Add(1), time.Now().UnixNano())),
		Fingerprint: [32]byte{1}, Owner: owner(), Guarantee: g, Lease: lease, Retention: long,
	}
}

var names atomic.Uint64 // of keys and owners

// owner returns another owner each time.
func owner() (o [16]byte) {
	o[0] = 1
	binary.BigEndian.PutUint64(o[8:], names.Add(1))
	return o
}

func again(c idempotency.Claim) idempotency.Claim {
	c.Owner = owner()
	return c
}

func (b *bench) begin(c idempotency.Claim) idempotency.Answer {
	b.Helper()
	a, err := b.store.Begin(context.Background(), c)
	if err != nil {
		b.Fatalf("begin: %v", err)
	}
	return a
}

// want begins and expects a decision.
func (b *bench) want(c idempotency.Claim, d idempotency.Decision) idempotency.Answer {
	b.Helper()
	a := b.begin(c)
	if a.Decision != d {
		b.Fatalf("begin: %v, want %v (record: %v)", a.Decision, d, a.Record.State)
	}
	return a
}

func ref(c idempotency.Claim, a idempotency.Answer) idempotency.Ref {
	return idempotency.Ref{ID: c.ID, Token: a.Record.Token}
}

func (b *bench) apply(r idempotency.Ref, c idempotency.Change) {
	b.Helper()
	if err := b.store.Apply(context.Background(), r, c); err != nil {
		b.Fatalf("a change to %v: %v", c.State, err)
	}
}

// refused expects that a change by r is refused as by one who lost the lease, and
// changes nothing.
func (b *bench) refused(r idempotency.Ref, changes ...idempotency.Change) {
	b.Helper()
	before := b.bytes(r.ID)
	for _, c := range changes {
		if err := b.store.Apply(context.Background(), r, c); !errors.Is(err, idempotency.ErrLeaseLost) {
			b.Errorf("a change to %v: %v, want ErrLeaseLost", c.State, err)
		}
	}
	if !bytes.Equal(before, b.bytes(r.ID)) {
		b.Error("a refused change changed the record")
	}
}

func (b *bench) get(id idempotency.ID) idempotency.Record {
	b.Helper()
	r, err := b.store.Get(context.Background(), id)
	if err != nil {
		b.Fatalf("get: %v", err)
	}
	return r
}

func (b *bench) bytes(id idempotency.ID) []byte {
	b.Helper()
	text, err := b.get(id).MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// pass waits until a short time is over.
func (b *bench) pass() { pause(passes) }

func result(body string) idempotency.Result {
	return idempotency.Result{
		Status: 201, Body: []byte(body),
		Header:  []idempotency.Field{{Name: "Location", Value: "/1"}, {Name: "Vary", Value: "A, B"}, {Name: "Vary", Value: "C"}},
		Trailer: []idempotency.Field{{Name: "Checksum", Value: "\"x\""}},
	}
}

func complete(body string) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: result(body)}
}

var (
	extend  = idempotency.Change{State: idempotency.StateRunning, Lease: long}
	release = idempotency.Change{State: idempotency.StateRetryable}
	abandon = idempotency.Change{State: idempotency.StateUnknown}
	save    = idempotency.Change{State: idempotency.StateRunning, Point: &idempotency.Point{Name: "p", Data: []byte("q")}}
)
