// Package gobreaker stands in for the real one.
package gobreaker

import (
	"errors"
	"time"
)

var ErrOpenState = errors.New("open")

type Settings struct {
	Name    string
	Timeout time.Duration
}

type CircuitBreaker struct{}

func NewCircuitBreaker(st Settings) *CircuitBreaker { return nil }

func (*CircuitBreaker) Execute(f func() (any, error)) (any, error) { return f() }
