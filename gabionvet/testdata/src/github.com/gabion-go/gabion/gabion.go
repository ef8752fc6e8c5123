// Package gabion stands in for the real one: the names that rules know.
package gabion

import (
	"context"

	"github.com/gabion-go/gabion/policy"
)

type (
	Dependency struct{}
	CallOption struct{}
	Attempt    struct{}
	Option     struct{}
	KeyProblem uint8
)

const KeyReused KeyProblem = 1

func (KeyProblem) Error() string { return "" }

func New(name string, p policy.Policy, opts ...Option) *Dependency           { return nil }
func Make(name string, p policy.Policy, opts ...Option) (*Dependency, error) { return nil, nil }
func Key(ctx context.Context) string                                         { return "" }
func NewKey() string                                                         { return "" }
func WithKey(key string) CallOption                                          { return CallOption{} }
func WithIdempotent() CallOption                                             { return CallOption{} }
func WithOperation(name string) CallOption                                   { return CallOption{} }

func WithClassify[T any](f func(T, error) policy.Outcome) CallOption { return CallOption{} }

func Do[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), opts ...CallOption) (t T, err error) {
	return t, nil
}

func Open[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), opts ...CallOption) (t T, a *Attempt, err error) {
	return t, nil, nil
}

func (d *Dependency) Run(ctx context.Context, work func(context.Context) error, opts ...CallOption) error {
	return nil
}
