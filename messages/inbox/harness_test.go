package inbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

var (
	errDown = errors.New("the store is down")
	errWork = errors.New("the work failed")
)

// A shelf is a TxStore in memory that fails when told to. A transaction on it holds
// up all others.
type shelf struct {
	idempotency.Store
	begin, apply, commit atomic.Pointer[error]

	mu      sync.Mutex // guards records
	records map[idempotency.ID]idempotency.Record
}

func newShelf() *shelf {
	return &shelf{Store: idempotency.NewMemoryStore(0, 0), records: map[idempotency.ID]idempotency.Record{}}
}

func failing(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *shelf) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	if err := failing(&s.begin); err != nil {
		return idempotency.Answer{}, err
	}
	return s.Store.Begin(ctx, c)
}

func (s *shelf) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	if err := failing(&s.apply); err != nil {
		return err
	}
	return s.Store.Apply(ctx, ref, c)
}

func (s *shelf) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := failing(&s.begin); err != nil {
		return idempotency.Answer{}, err
	}
	now := idempotency.Moment(time.Now().UnixNano())
	old := s.records[c.ID]
	a, _ := old.Begin(c, now)
	if a.Decision != idempotency.DecisionRun {
		return a, nil
	}
	res, how, err := run(ctx, a.Record)
	if err != nil || how == idempotency.EndingFailed {
		return a, err
	}
	if err := failing(&s.commit); err != nil {
		return idempotency.Answer{}, err
	}
	s.records[c.ID], _, err = a.Record.Apply(idempotency.Ref{ID: c.ID, Token: a.Record.Token}, idempotency.Change{State: idempotency.StateDone, Result: res}, now)
	return a, err
}

// A post is an Inbox whose work counts its runs.
type post struct {
	*testing.T
	in    *Inbox
	store *shelf
	runs  atomic.Int64
	work  func(context.Context) error
}

func newPost(t *testing.T, o Options, work func(context.Context) error) *post {
	t.Helper()
	p := &post{T: t, store: newShelf(), work: work}
	in, err := New("billing", p.store, o)
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	return p
}

func (p *post) deliver(m Message) Disposition { return p.deliverTo(p.Context(), m) }

func (p *post) deliverTo(ctx context.Context, m Message) Disposition {
	return p.in.Handle(ctx, m, func(ctx context.Context) error {
		p.runs.Add(1)
		return p.work(ctx)
	})
}

func (p *post) want(d Disposition, v Verb, why Cause) {
	p.Helper()
	if d.Verb != v || d.Cause != why {
		p.Errorf("%v because %s (%v), want %v because %s", d.Verb, d.Cause, d.Err, v, why)
	}
	if (d.Verb == Retry && why != CauseStopped) != (d.After > 0) {
		p.Errorf("%v after %v", d.Verb, d.After)
	}
}

func (p *post) wantRuns(n int64) {
	p.Helper()
	if got := p.runs.Load(); got != n {
		p.Errorf("the work ran %d times, want %d", got, n)
	}
}

func succeeds(context.Context) error { return nil }
func fails(context.Context) error    { return errWork }

func pass(d time.Duration) { <-time.After(d) }

var guarantees = []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute, idempotency.GuaranteeTx}

func order(payload string) Message { return Message{ID: "order-77", Payload: []byte(payload)} }

// Caps are those of a store that causes no warning.
func (s *shelf) Caps() idempotency.Caps { return idempotency.Caps{Durable: true, ServerClock: true} }
