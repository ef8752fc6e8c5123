package idempotencytest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
)

// A ledger is a TxStore in memory, with effects to count. It has a flaw, or none.
type ledger struct {
	idempotency.Store
	flaw flaw
	one  sync.Mutex    // held by a transaction
	two  chan struct{} // closed when two are under way

	mu      sync.Mutex // guards all below
	records map[idempotency.ID]idempotency.Record
	effects int
	begun   int // transactions
	unsaid  int // effects that are committed by the next transaction
}

type flaw int

const (
	none        flaw = iota
	keepsAll         // it commits what is to be forgotten
	keepsEffect      // it commits the effect of a result that is kept alone
	losesRecord      // it commits the effect alone
	autocommits      // effects are no part of the transaction
	postpones        // it says that it has committed, and then does
	interleaves      // transactions do not see each other's records
	forgets          // it keeps a record that is over as it is written
)

// inTx is the key of the number of effects of a transaction.
type inTx struct{}

func newLedger(f flaw) Effects {
	l := &ledger{Store: idempotency.NewMemoryStore(0, 0), flaw: f, two: make(chan struct{}), records: map[idempotency.ID]idempotency.Record{}}
	return Effects{Store: l, Add: l.add, Count: l.count}
}

func (l *ledger) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	if c.Retention <= 0 && l.flaw != forgets {
		return idempotency.Answer{}, errors.New("no retention")
	}
	if l.flaw != interleaves {
		l.one.Lock()
		defer l.one.Unlock()
	}
	a := l.begin(c)
	if a.Decision != idempotency.DecisionRun {
		return a, nil
	}
	if l.flaw == interleaves {
		<-l.two
	}
	var effects int
	res, how, err := run(context.WithValue(ctx, inTx{}, &effects), a.Record)
	if err != nil || how != idempotency.EndingSucceeded && how != idempotency.EndingRejected && l.flaw != keepsAll {
		return a, err
	}
	if how == idempotency.EndingRejected && l.flaw != keepsEffect {
		effects = 0
	}
	done := idempotency.Change{State: idempotency.StateDone, Result: res}
	a.Record, _, err = a.Record.Apply(idempotency.Ref{ID: c.ID, Token: a.Record.Token}, done, now())
	l.commit(c.ID, a.Record, effects)
	return a, err
}

func (l *ledger) begin(c idempotency.Claim) idempotency.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects, l.unsaid = l.effects+l.unsaid, 0
	if l.begun++; l.begun == 2 {
		close(l.two)
	}
	r := l.records[c.ID]
	a, _ := r.Begin(c, now())
	return a
}

func (l *ledger) commit(id idempotency.ID, r idempotency.Record, effects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flaw != losesRecord {
		l.records[id] = r
	}
	if l.flaw == postpones {
		l.unsaid = effects
		return
	}
	l.effects += effects
}

func (l *ledger) add(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flaw == autocommits {
		l.effects++
		return nil
	}
	*ctx.Value(inTx{}).(*int)++
	return nil
}

func (l *ledger) count(context.Context) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.effects, nil
}

func TestLedger(t *testing.T) {
	shared := newLedger(none)
	RunTx(t, func(testing.TB) Effects { return shared })
}

// A judged test notes that it failed.
type judged struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (j *judged) Helper() {}

func (j *judged) Errorf(string, ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = true
}

func (j *judged) Error(...any) { j.Errorf("") }

func (j *judged) Fatalf(string, ...any) {
	j.Errorf("")
	runtime.Goexit()
}

func (j *judged) Fatal(...any) { j.Fatalf("") }

// Every case finds the flaws that are its own, and only a flaw fails it.
func TestFlawedTransactionsAreFound(t *testing.T) {
	flaws := map[string][]flaw{
		"24 what a response means for effects and record":         {keepsAll, keepsEffect, losesRecord, autocommits},
		"26 a panic rolls back":                                   {autocommits},
		"48 nothing is seen before COMMIT":                        {postpones},
		"3 concurrent duplicates have one effect":                 {losesRecord, interleaves},
		"a claim without a retention is refused":                  {forgets},
		"only a verified body has an effect":                      {keepsAll, keepsEffect, losesRecord, autocommits},
		"concurrent duplicates with large bodies have one effect": {losesRecord, interleaves},
	}
	for _, c := range txCases {
		for _, f := range append(flaws[c.name], none) {
			j := &judged{TB: t}
			c.run(newTxBench(j, newLedger(f)))
			if j.failed != (f != none) {
				t.Errorf("%s: flaw %d: failed: %v", c.name, f, j.failed)
			}
		}
	}
}

func TestEffectsThatFail(t *testing.T) {
	e, j := newLedger(none), &judged{TB: t}
	e.Add = func(context.Context) error { return errors.New("no table") }
	panics(newTxBench(j, e))
	if !j.failed {
		t.Error("effects that could not be made went unnoticed")
	}
}
