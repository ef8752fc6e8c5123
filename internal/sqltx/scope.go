package sqltx

import (
	"context"
	"reflect"
)

// A Scope is where work runs: in a transaction of a database.
type Scope struct {
	Tx         any // what the work sees
	Pool       any // the pool that the transaction is of, nil where only a connection is known
	Dependency any
}

// of reports whether a call of a pool goes to the scope's database. Two pools of one library are
// two databases. Where there are no two to compare, a dependency stands for its database.
func (s *Scope) of(pool, dependency any) bool {
	if s.Pool != nil && reflect.TypeOf(s.Pool) == reflect.TypeOf(pool) {
		return s.Pool == pool
	}
	return s.Dependency == dependency
}

// A scope is the context of work in a transaction.
type scope struct {
	context.Context
	Scope
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
func Within(ctx context.Context, s Scope) context.Context { return &scope{ctx, s} }

// around returns the innermost scope of ctx, or nil.
func around(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// Of returns the innermost transaction of type T that the work of ctx runs in, the zero T if it
// runs in none of that type.
func Of[T any](ctx context.Context) (tx T) {
	for s := around(ctx); s != nil; s = around(s.Context) {
		if tx, ok := s.Tx.(T); ok {
			return tx
		}
	}
	return tx
}

// In reports whether ctx belongs to the work of a transaction of the database that a call goes to,
// so that the call would run outside of it. The pool is nil where only a connection is known.
func In(ctx context.Context, pool, dependency any) bool {
	for s := around(ctx); s != nil; s = around(s.Context) {
		if s.of(pool, dependency) {
			return true
		}
	}
	return false
}
