package gabionsql

import (
	"database/sql"

	"github.com/gabion-go/gabion"
)

// A TxOption adjusts one call of [RunTx]. Options are plain values and may be kept, but for
// [WithOnce], which is for one call at a time. The zero TxOption changes nothing.
type TxOption struct {
	begin  *sql.TxOptions
	calls  []gabion.CallOption
	record *Once
}

// WithTxOptions sets the isolation level of the transaction and whether it only reads.
// Without it, both are the database's defaults.
func WithTxOptions(o sql.TxOptions) TxOption { return TxOption{begin: &o} }

// WithCallOptions adjusts the call of the dependency: a timeout, an operation's name, a
// priority. Several add up. RunTx itself reads the results, so a [gabion.WithClassify]
// among them is not asked; the dependency's classifier is.
func WithCallOptions(opts ...gabion.CallOption) TxOption { return TxOption{calls: opts} }

// txOptions is what the options of one call come to.
type txOptions struct {
	begin  *sql.TxOptions
	calls  []gabion.CallOption
	record *Once
}

func (o *TxOption) apply(to *txOptions) {
	if o.begin != nil {
		to.begin = o.begin
	}
	if o.record != nil {
		to.record = o.record
	}
	if to.calls == nil {
		to.calls = o.calls
	} else if len(o.calls) > 0 {
		to.calls = append(to.calls[:len(to.calls):len(to.calls)], o.calls...)
	}
}

func (o *txOptions) problem() error {
	if o.record == nil {
		return nil
	}
	return o.record.problem()
}
