// Package retry stands in for the real one.
package retry

import (
	"context"
	"time"
)

type RetryableFunc func() error

type Option func()

func Do(f RetryableFunc, opts ...Option) error { return f() }

func Attempts(n uint) Option { return func() {} }

func Delay(d time.Duration) Option { return func() {} }

func Context(ctx context.Context) Option { return func() {} }
