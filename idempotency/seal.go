package idempotency

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gabion-go/gabion/internal/seal"
)

// A Sealer encrypts what is stored of answers, and decrypts it again. It must be safe for
// concurrent use. [NewSealer] makes one from keys. With one of your own the keys can stay
// in a key service.
//
// Context is what the text belongs to: text that was sealed in one context must not open
// in another. An AEAD has it as its additional data.
type Sealer interface {
	// Seal returns the text sealed. It leaves both arguments alone.
	Seal(text, context []byte) ([]byte, error)

	// Open returns the text, or an error for whatever Seal did not seal in this context.
	Open(sealed, context []byte) ([]byte, error)
}

// Sealed returns a store that seals headers, trailers and bodies of results, and recovery
// points, before the other stores them, each for its record alone. It is a [TxStore] where
// the other is. Status, times and what else a record has stay readable.
//
// Resolve lost runs through the sealed store. A result that was put into the other one is
// not sealed and is not read; to forget a record that does not open takes the other one.
//
// What does not open is [ErrUnreadable], and its work is not run: a result that was
// changed, moved to another record or not sealed at all, or whose key is gone. So a store
// that has unsealed results is not read until they have expired: begin with an empty one.
func Sealed(store Store, sealer Sealer) Store {
	sealed := &sealedStore{Store: store, sealer: sealer}
	if tx, ok := store.(TxStore); ok {
		return &sealedTxStore{sealed, tx}
	}
	return sealed
}

// sealMark is the name of the one header line of a sealed result.
const sealMark = "sealed"

type sealedStore struct {
	Store
	sealer Sealer
}

// Begin implements [Store].
func (s *sealedStore) Begin(ctx context.Context, c Claim) (Answer, error) {
	a, err := s.Store.Begin(ctx, c)
	if err != nil || a.Decision == DecisionMismatch || a.Decision == DecisionInProgress || a.Decision == DecisionUnknown {
		return a, err
	}
	if err = s.open(c.ID, &a.Record); err == nil {
		return a, nil
	}
	ref := Ref{c.ID, a.Record.Token}
	switch a.Decision { // no run will work under this claim
	case DecisionRun:
		err = errors.Join(err, s.Store.Apply(ctx, ref, Change{State: StateRetryable, Unrun: true}))
	case DecisionRecover:
		err = errors.Join(err, s.Store.Apply(ctx, ref, Change{State: StateUnknown}))
	}
	return Answer{}, err
}

// Apply implements [Store].
func (s *sealedStore) Apply(ctx context.Context, ref Ref, c Change) error {
	plain, err := c.Result, error(nil)
	switch {
	case c.State == StateDone:
		c.Result, err = s.sealResult(ref.ID, c.Result)
	case c.Point != nil:
		sealed := Point{Name: c.Point.Name}
		sealed.Data, err = s.sealer.Seal(c.Point.Data, contextOf(ref.ID, pointSeal, c.Point.Name))
		c.Point = &sealed
	}
	if err != nil {
		return fmt.Errorf("idempotency: seal: %w", err)
	}
	err = s.Store.Apply(ctx, ref, c)
	if errors.Is(err, ErrLeaseLost) && c.State == StateDone && s.isDone(ctx, ref, plain) {
		return nil
	}
	return err
}

// isDone reports whether a record has the result already. A result is sealed to other
// bytes each time, so the store can't know a repeated change again.
func (s *sealedStore) isDone(ctx context.Context, ref Ref, res Result) bool {
	r, err := s.Get(ctx, ref.ID)
	return err == nil && r.State == StateDone && r.Token == ref.Token && r.Result.equal(res)
}

// Get implements [Store].
func (s *sealedStore) Get(ctx context.Context, id ID) (Record, error) {
	r, err := s.Store.Get(ctx, id)
	if err == nil {
		err = s.open(id, &r)
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// Caps implements [Store].
func (s *sealedStore) Caps() Caps {
	caps := s.Store.Caps()
	if caps.MaxValue > 0 {
		caps.MaxValue = max(1, caps.MaxValue-sealRoom)
	}
	return caps
}

// sealRoom is what is left for headers and the seal in a body of the largest size; with
// more of them the body is not kept.
const sealRoom = 1 << 10

// open opens what a record has that is sealed.
func (s *sealedStore) open(id ID, r *Record) (err error) {
	if r.State == StateDone {
		r.Result, err = s.openResult(id, r.Result)
	}
	points := slices.Clone(r.Points) // the record's are shared
	for i := range points {
		if err == nil {
			points[i].Data, err = s.sealer.Open(points[i].Data, contextOf(id, pointSeal, points[i].Name))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: what is sealed in it does not open: %w", ErrUnreadable, err)
	}
	r.Points = points
	return nil
}

// What a seal is of.
const (
	resultSeal = "result"
	pointSeal  = "point"
)

// contextOf names the place of a sealed text.
func contextOf(id ID, kind, name string) []byte {
	return appendBytes(appendBytes(slices.Clone(id[:]), kind), name)
}

// sealResult leaves readable what the machine and operators need.
func (s *sealedStore) sealResult(id ID, res Result) (Result, error) {
	whole := Record{Result: res}
	text, err := whole.MarshalBinary()
	if err != nil {
		return Result{}, err
	}
	sealed, err := s.sealer.Seal(text, contextOf(id, resultSeal, ""))
	return Result{Status: res.Status, Omitted: res.Omitted, Header: []Field{{Name: sealMark}}, Body: sealed}, err
}

// IsSealed reports whether the result has the form of one that was sealed: read from the
// store below a [Sealed] one. Whether it opens only its key can say.
func (r *Result) IsSealed() bool { return len(r.Header) == 1 && r.Header[0] == Field{Name: sealMark} }

func (s *sealedStore) openResult(id ID, res Result) (Result, error) {
	if !res.IsSealed() {
		return Result{}, seal.ErrNot
	}
	text, err := s.sealer.Open(res.Body, contextOf(id, resultSeal, ""))
	if err != nil {
		return Result{}, err
	}
	var whole Record
	if err := whole.UnmarshalBinary(text); err != nil {
		return Result{}, err
	}
	if whole.Result.Status != res.Status || whole.Result.Omitted != res.Omitted {
		return Result{}, errors.New("its status is another than the sealed one")
	}
	return whole.Result, nil
}

type sealedTxStore struct {
	*sealedStore
	tx TxStore
}

// Tx implements [TxStore].
func (s *sealedTxStore) Tx(ctx context.Context, c Claim, run Work) (Answer, error) {
	a, err := s.tx.Tx(ctx, c, func(ctx context.Context, r Record) (Result, Ending, error) {
		res, how, err := run(ctx, r)
		if err != nil || how != EndingSucceeded && how != EndingRejected {
			return res, how, err
		}
		if res, err = s.sealResult(c.ID, res); err != nil {
			return Result{}, EndingFailed, fmt.Errorf("idempotency: seal: %w", err)
		}
		return res, how, nil
	})
	if err == nil && a.Decision == DecisionReplay {
		err = s.open(c.ID, &a.Record)
	}
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}
