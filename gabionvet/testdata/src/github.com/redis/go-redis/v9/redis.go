// Package redis stands in for the real one.
package redis

import (
	"context"
	"time"
)

type Options struct {
	Addr       string
	MaxRetries int
}

type Client struct{ cmdable }

type cmdable struct{}

type StatusCmd struct{}

func (*StatusCmd) Err() error { return nil }

func (cmdable) Set(ctx context.Context, key, value string) *StatusCmd { return nil }

type BoolCmd struct{}

func (*BoolCmd) Result() (bool, error) { return false, nil }

func (cmdable) SetNX(ctx context.Context, key string, value any, expiration time.Duration) *BoolCmd {
	return nil
}

func (cmdable) Del(ctx context.Context, keys ...string) *StatusCmd { return nil }

func NewClient(o *Options) *Client { return nil }
