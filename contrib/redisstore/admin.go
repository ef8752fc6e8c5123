package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
)

var _ idempotency.Admin = (*Store)(nil)

// Now implements [idempotency.Admin].
func (s *Store) Now(ctx context.Context) (idempotency.Moment, error) {
	saw, err := s.run(ctx, scriptLook, s.key(idempotency.ID{}))
	return saw.now, err
}

// List implements [idempotency.Admin]. It goes through the servers' keys by SCAN, one
// server after the other, and may return a record twice while their tables grow or shrink.
func (s *Store) List(ctx context.Context, cursor string, limit int) (p idempotency.Page, err error) {
	servers, err := s.servers(ctx)
	if err != nil {
		return p, err
	}
	name, at := servers[0].name, uint64(0)
	if cursor != "" {
		where, from, _ := strings.Cut(cursor, "@")
		if at, err = strconv.ParseUint(where, 10, 64); err != nil {
			return p, fmt.Errorf("redisstore: %q is no cursor", cursor)
		}
		name = from
	}
	n := slices.IndexFunc(servers, func(x namedServer) bool { return x.name == name })
	if n < 0 {
		return p, fmt.Errorf("redisstore: server %q of the cursor is gone: list anew", name)
	}
	keys, next, err := servers[n].Scan(ctx, at, literal.Replace(s.prefix)+"*", int64(max(limit, 1))).Result()
	if err != nil {
		return p, refusal(err)
	}
	if p.Entries, err = s.entries(ctx, servers[n].Cmdable, keys); err != nil {
		return idempotency.Page{}, err
	}
	switch {
	case next != 0:
		p.Next = fmt.Sprintf("%d@%s", next, name)
	case n+1 < len(servers):
		p.Next = "0@" + servers[n+1].name
	}
	return p, nil
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
		if err != nil || r.State != idempotency.Absent {
			all = append(all, idempotency.Entry{ID: id, Record: r.Bare(), Err: err})
		}
	}
	return all, nil
}

// Forget implements [idempotency.Admin].
func (s *Store) Forget(ctx context.Context, ref idempotency.Ref) error {
	key := s.key(ref.ID)
	saw, err := s.run(ctx, scriptLook, key)
	if err != nil {
		return err
	}
	old, err := read(saw.value)
	if err != nil {
		return err
	}
	if err := old.Forgettable(ref, saw.now); err != nil {
		return err
	}
	saw, err = s.swap(ctx, key, saw.value, idempotency.Record{}, 0, math.MaxInt64)
	if err == nil && !saw.wrote {
		return idempotency.ErrLeaseLost
	}
	return err
}
