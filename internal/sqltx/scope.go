package sqltx

import "context"

// A scope is the context of work in a transaction.
type scope struct {
	context.Context
	tx any
}

type scopeKey struct{}

// Value implements context.Context.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// Within returns the context of work in a transaction, which [Of] finds there.
func Within(ctx context.Context, tx any) context.Context { return &scope{ctx, tx} }

// Of returns the transaction that the work of ctx runs in, nil if in none.
func Of(ctx context.Context) any {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s.tx
	}
	return nil
}
