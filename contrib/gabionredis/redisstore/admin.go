package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
)

// Now implements [idempotency.Store].
func (s *Store) Now(ctx context.Context) (idempotency.Moment, error) {
	saw, err := s.run(ctx, scriptLook, s.key(idempotency.ID{}))
	return saw.now, err
}

// List implements [idempotency.Store]. It goes through the servers' keys by SCAN, one
// server after the other, and may return a record twice while their tables grow or shrink.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	servers, err := s.servers(ctx)
	if err != nil {
		return nil, "", err
	}
	name, at := servers[0].name, uint64(0)
	if cursor != "" {
		where, from, _ := strings.Cut(cursor, "@")
		if at, err = strconv.ParseUint(where, 10, 64); err != nil {
			return nil, "", fmt.Errorf("redisstore: %q is no cursor", cursor)
		}
		name = from
	}
	n := slices.IndexFunc(servers, func(x namedServer) bool { return x.name == name })
	if n < 0 {
		return nil, "", fmt.Errorf("redisstore: server %q of the cursor is gone: list anew", name)
	}
	keys, at, err := servers[n].Scan(ctx, at, literal.Replace(s.prefix)+"*", int64(max(limit, 1))).Result()
	if err != nil {
		return nil, "", refusal(err)
	}
	if entries, err = s.entries(ctx, servers[n].Cmdable, keys); err != nil {
		return nil, "", err
	}
	switch {
	case at != 0:
		next = fmt.Sprintf("%d@%s", at, name)
	case n+1 < len(servers):
		next = "0@" + servers[n+1].name
	}
	return entries, next, nil
}

type namedServer struct {
	name string
	redis.Cmdable
}

// servers returns those that have keys, by name.
func (s *Store) servers(ctx context.Context) (all []namedServer, err error) {
	var mu sync.Mutex // guards all
	err = eachMaster(ctx, s.client, func(_ context.Context, name string, server redis.Cmdable) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, namedServer{name, server})
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("redisstore: no server")
	}
	slices.SortFunc(all, func(x, y namedServer) int { return strings.Compare(x.name, y.name) })
	return all, err
}

// entries reads records, whole, for their results have no place of their own.
func (s *Store) entries(ctx context.Context, server redis.Cmdable, keys []string) (all []idempotency.Entry, err error) {
	pipe := server.Pipeline()
	values := map[idempotency.ID]*redis.StringCmd{}
	for _, key := range keys {
		if id, err := hex.DecodeString(strings.TrimPrefix(key, s.prefix)); err == nil && len(id) == len(idempotency.ID{}) {
			values[idempotency.ID(id)] = pipe.Get(ctx, key)
		}
	}
	if len(values) == 0 {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, refusal(err)
	}
	for id, value := range values {
		r, err := read(value.Val())
		if err != nil && !errors.Is(err, idempotency.ErrUnreadable) {
			return nil, err
		}
		if err != nil || r.State != idempotency.StateAbsent {
			all = append(all, idempotency.Entry{ID: id, Record: r.Bare(), Err: err})
		}
	}
	return all, nil
}
