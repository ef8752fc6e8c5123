package gabionpgx

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
)

// send leaves nothing behind if an argument of the batch panics.
func send(ctx context.Context, on target, b *pgx.Batch, to *batch) *batch {
	defer func() {
		if to.BatchResults == nil {
			to.leave()
		}
	}()
	to.on = on.Conn()
	to.BatchResults = on.SendBatch(ctx, b)
	if tx := to.BatchResults.Tx(); tx != nil {
		to.tx = &transaction{Tx: tx, pool: to.pool}
	}
	return to
}

// batch are the results of a batch, which is one attempt until they are closed.
type batch struct {
	pgx.BatchResults
	pool    *Pool
	on      *pgx.Conn
	attempt *gabion.Attempt // nil where it is part of another one
	release func(error)     // nil once it is closed
	tx      *transaction    // that the batch begins, if it does
	err     error
}

// Tx implements pgx.BatchResults.
func (b *batch) Tx() pgx.Tx {
	if b.tx == nil {
		return nil
	}
	return b.tx
}

// Close implements pgx.BatchResults.
func (b *batch) Close() error {
	if b.release == nil {
		return b.err
	}
	defer b.leave() // also when a callback panics
	b.err = blame(b.on, b.BatchResults.Close())
	return b.settle()
}

// settle gives the verdict, and then the connection to the transaction or back.
func (b *batch) settle() error {
	release, err := b.release, b.err
	b.release = nil
	if b.tx == nil || b.on.IsClosed() || b.on.PgConn().TxStatus() == idle {
		release(err)
	} else {
		b.tx.release = func() { release(err) }
	}
	if b.attempt != nil {
		b.err = b.attempt.Settle(err)
	}
	if b.tx != nil && b.tx.release != nil && b.attempt != nil {
		adapter.HoldSlot(b.attempt)
		b.tx.attempt, b.attempt = b.attempt, nil
	}
	return b.err
}

func (b *batch) leave() {
	if b.release != nil {
		b.release(nil)
		b.release = nil
	}
	if b.attempt != nil {
		b.attempt.Close(nil)
	}
}
