package redisstore

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// cursors are where the last sweep of each server ended.
type cursors struct {
	mu sync.Mutex // guards at
	at map[string]uint64
}

func (c *cursors) get(server string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[server]
}

func (c *cursors) set(server string, cursor uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[string]uint64{}
	}
	if cursor == 0 {
		delete(c.at, server) // so that servers that are gone are forgotten
		return
	}
	c.at[server] = cursor
}

// Sweep implements [idempotency.Store]. It looks at about limit keys of each server,
// other programs' included, whether due or not, and goes on from there the next
// time. Nothing depends on it: a claim finds out by itself that a run was lost, and
// the server forgets what expired. It makes a lost run Unknown even if its key is not claimed again.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	var mu sync.Mutex // guards n: servers are swept side by side
	err = eachMaster(ctx, s.client, func(ctx context.Context, name string, server redis.Cmdable) error {
		m, err := s.sweepServer(ctx, name, server, limit)
		mu.Lock()
		defer mu.Unlock()
		n += m
		return err
	})
	return n, err
}

func (s *Store) sweepServer(ctx context.Context, name string, server redis.Cmdable, limit int) (n int, err error) {
	keys, next, err := server.Scan(ctx, s.sweeps.get(name), literal.Replace(s.prefix)+"*", int64(limit)).Result()
	if err != nil {
		return 0, refusal(err)
	}
	keys, err = due(ctx, server, keys)
	for _, key := range keys {
		if err != nil {
			break
		}
		var swept bool
		if swept, err = s.sweepKey(ctx, key); swept {
			n++
		}
	}
	if err == nil {
		s.sweeps.set(name, next)
	}
	return n, err
}

// literal makes a pattern that matches a text and nothing else.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// due returns those keys whose record says that a sweeper is due, in one round trip
// and without reading the records, which may be large.
func due(ctx context.Context, server redis.Cmdable, keys []string) (ready []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := server.Pipeline()
	now := pipe.Time(ctx)
	heads := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		heads[i] = pipe.GetRange(ctx, key, 0, digits-1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, refusal(err)
	}
	limit := now.Val().UnixMicro()
	for i, head := range heads {
		micros, err := strconv.ParseInt(head.Val(), 10, 64)
		if err == nil && micros <= limit {
			ready = append(ready, keys[i])
		}
	}
	return ready, nil
}

// sweepKey looks at one record. If it changed since, the next sweep will see.
func (s *Store) sweepKey(ctx context.Context, key string) (bool, error) {
	saw, err := s.run(ctx, scriptLook, key)
	if err != nil {
		return false, err
	}
	old, err := read(saw.value)
	if err != nil {
		return false, nil //nolint:nilerr // a newer program's business
	}
	next, changed := old.Sweep(saw.now)
	if !changed {
		return false, nil
	}
	saw, err = s.swap(ctx, key, saw.value, next, 0, math.MaxInt64)
	return saw.wrote, err
}
