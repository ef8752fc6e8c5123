// Package retry stands in for the real one.
package retry

type RetryableFunc func() error

func Do(f RetryableFunc) error { return f() }
