package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

func client(t *testing.T, addr string, change func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true} // gabion retries
	if change != nil {
		change(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// A key that is not there is an answer: asking for it opens no breaker.
func TestIssue10_ANilOfRedisIsNoFailure(t *testing.T) {
	c := client(t, testservers.Redis(t), nil)
	d := gabion.New("cache", policy.Policy{Safe: true})
	for range 40 {
		err := d.Run(t.Context(), func(ctx context.Context) error { return c.Get(ctx, "none").Err() })
		if !errors.Is(err, redis.Nil) || gabion.ReasonOf(err) != policy.NotRetryable || gabion.EffectOf(err) != policy.NoEffect {
			t.Fatal(err)
		}
	}
	if s := d.Stats().Main.Breaker.State; s != breaker.Closed {
		t.Errorf("the breaker is %v", s)
	}
}

// answering is the address of a server that answers every command with line.
func answering(t *testing.T, line string) string {
	t.Helper()
	return testproxy.Serve(t, func(conn net.Conn) {
		for buf := make([]byte, 4096); ; {
			n, err := conn.Read(buf)
			if err != nil || line == "" {
				return
			}
			if string(buf[:min(n, 20)]) == "*2\r\n$5\r\nhello\r\n$1\r\n" {
				io.WriteString(conn, "-ERR unknown command\r\n")
				continue
			}
			io.WriteString(conn, line+"\r\n")
		}
	})
}

func TestIssue10_WhatRedisAnswers(t *testing.T) {
	undone := func(c policy.Class) policy.Outcome { return policy.Outcome{Class: c, Undone: true} }
	tests := []struct {
		line string
		want policy.Outcome
	}{
		{"-LOADING Redis is loading the dataset in memory", undone(policy.ClassServer)},
		{"-READONLY You can't write against a read only replica.", undone(policy.ClassServer)},
		{"-MASTERDOWN Link with MASTER is down", undone(policy.ClassServer)},
		{"-CLUSTERDOWN The cluster is down", undone(policy.ClassServer)},
		{"-BUSY Redis is busy running a script.", undone(policy.ClassServer)},
		{"-OOM command not allowed when used memory > 'maxmemory'.", undone(policy.ClassServer)},
		{"-NOREPLICAS Not enough good replicas to write.", undone(policy.ClassServer)},
		{"-MISCONF Errors writing to the AOF file", undone(policy.ClassServer)},
		{"-TRYAGAIN Multiple keys request during rehashing of slot", undone(policy.ClassContention)},
		{"-ERR max number of clients reached", undone(policy.ClassServer)},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value", policy.Outcome{Class: policy.ClassClient}},
		{"-BUSYGROUP Consumer Group name already exists", policy.Outcome{Class: policy.ClassClient}},
		{"-ERR value is not an integer", policy.Failed(policy.ClassClient)},
		{"$-1", policy.Outcome{Class: policy.ClassBusiness}},
		{"", policy.Failed(policy.ClassNetwork)}, // it hangs up
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			c := client(t, answering(t, tt.line), func(o *redis.Options) { o.Protocol = 2 })
			err := c.Get(t.Context(), "k").Err()
			if got := classify.Error(fmt.Errorf("get: %w", err)); got != tt.want {
				t.Errorf("%T %v is %+v, want %+v", err, err, got, tt.want)
			}
		})
	}
}

// A watched key that another changes: EXEC did nothing.
func TestIssue10_AFailedWatchIsAConflict(t *testing.T) {
	c := client(t, testservers.Redis(t), nil)
	ctx := t.Context()
	err := c.Watch(ctx, func(tx *redis.Tx) error {
		if err := c.Incr(ctx, "n").Err(); err != nil {
			return err
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "n"); return nil })
		return err
	}, "n")
	if got, want := classify.Error(err), (policy.Refused(policy.ClassContention)); got != want {
		t.Errorf("%v is %+v, want %+v", err, got, want)
	}
}

// A pool that has no connection left says so by a value that has no type: a list
// names it.
func TestIssue10_ThePoolsTimeoutIsListed(t *testing.T) {
	c := client(t, testservers.Redis(t), func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, 10*time.Millisecond })
	held := c.Conn()
	defer held.Close()
	if err := held.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	err := c.Get(t.Context(), "k").Err()
	r := classify.Rules{Transient: []error{redis.ErrPoolTimeout}, NotSent: []error{redis.ErrPoolTimeout}}
	if got, want := r.Error(err), (policy.Unsent(policy.ClassNetwork)); got != want {
		t.Errorf("%v is %+v, want %+v", err, got, want)
	}
}
