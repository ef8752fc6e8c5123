// Package fleetstore opens the stores of fleets for gabion fleet, gabion override and gabion page.
package fleetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxfleet"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisfleet"
	"github.com/gabion-go/gabion/contrib/natsmsg/natsfleet"
	"github.com/gabion-go/gabion/fleet"
)

// Usage is the part of a help that is about the flags of Options.
const Usage = `  --store URL      of the fleet's store: redis://..., rediss://...,
                   postgres://..., nats://... or tls://...; left out, it is
                   taken from GABION_FLEET_STORE
  --fleet NAME     of the fleet; left out, it is taken from GABION_FLEET, and
                   without that it is gabion
  --table NAME     of the table in PostgreSQL, if it is not gabion_fleet
  --prefix TEXT    with which keys of Redis begin, if not with gabion:fleet:
  --bucket NAME    of the bucket of NATS, if it is not gabion-fleet
`

// Options say which store is opened, and which fleet is meant.
type Options struct {
	Store, Fleet, Table, Prefix, Bucket string
}

// Flags defines those of Usage.
func (o *Options) Flags(set *pflag.FlagSet) {
	set.StringVar(&o.Store, "store", "", "")
	set.StringVar(&o.Fleet, "fleet", "", "")
	set.StringVar(&o.Table, "table", "gabion_fleet", "")
	set.StringVar(&o.Prefix, "prefix", "", "")
	set.StringVar(&o.Bucket, "bucket", "", "")
}

// Check takes what is left out from the environment, and says what is missing.
func (o *Options) Check() error {
	o.Store, o.Fleet = cmp.Or(o.Store, os.Getenv("GABION_FLEET_STORE")), cmp.Or(o.Fleet, os.Getenv("GABION_FLEET"), "gabion")
	if o.Store == "" {
		return operator.Wrongf("--store is missing, such as --store redis://redis:6379")
	}
	if !named.MatchString(o.Fleet) {
		return operator.Wrongf("--fleet %s: a fleet's name has letters, digits, hyphens, dots and underscores, 64 at most", o.Fleet)
	}
	return operator.URL(o.Store)
}

// named is what package fleet takes for the name of a fleet.
var named = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// connectTime bounds how long a batch may take.
const connectTime = 10 * time.Second

// Open opens a store that is there: it makes no table and no bucket. The function closes it.
func (o *Options) Open(ctx context.Context) (fleet.Store, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	kind, _, _ := strings.Cut(o.Store, ":")
	s, closeStore, err := o.open(ctx, kind)
	if err != nil {
		return nil, nil, explained(err)
	}
	return s, closeStore, nil
}

func (o *Options) open(ctx context.Context, kind string) (fleet.Store, func(), error) {
	switch kind {
	case "redis", "rediss":
		return o.redis()
	case "postgres", "postgresql":
		return o.postgres(ctx)
	case "nats", "tls":
		return o.nats(ctx)
	}
	return nil, nil, operator.Wrongf("--store begins with redis://, rediss://, postgres://, nats:// or tls://")
}

func (o *Options) redis() (fleet.Store, func(), error) {
	client, err := operator.Redis(o.Store)
	if err != nil {
		return nil, nil, err
	}
	s, err := redisfleet.New(client, redisfleet.Options{Prefix: o.Prefix})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return told{s, new(said), redisNames(client, cmp.Or(o.Prefix, "gabion:fleet:"))}, func() { _ = client.Close() }, nil
}

func (o *Options) postgres(ctx context.Context) (fleet.Store, func(), error) {
	pool, err := pgxpool.New(ctx, o.Store)
	if err != nil {
		return nil, nil, err
	}
	s, err := pgxfleet.New(pool, o.Table)
	if err != nil {
		pool.Close()
		return nil, nil, operator.Call(err)
	}
	return told{s, new(said), postgresNames(pool, o.Table)}, pool.Close, nil
}

func (o *Options) nats(ctx context.Context) (fleet.Store, func(), error) {
	heard := new(said)
	js, err := operator.NATS(o.Store, "gabion fleet", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { heard.say(err) }))
	if err != nil {
		return nil, nil, err
	}
	stop := js.Conn().Close
	found, err := natsfleet.Open(ctx, js, natsfleet.Options{Bucket: o.Bucket, Existing: true})
	if err != nil {
		stop()
		return nil, nil, errors.Join(err, heard.err())
	}
	return told{found, heard, natsNames(js, cmp.Or(o.Bucket, "gabion-fleet"))}, stop, nil
}

// said is what a NATS server said beside its answers: that a right is missing is no answer, and a request without the
// right to make it just ends late.
type said struct {
	mu   sync.Mutex
	last error
}

func (s *said) say(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = err
}

func (s *said) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// told is a store whose errors say what can be done about them, and that does not take for ever.
type told struct {
	fleet.Store
	heard *said
	names func(context.Context) []string // of the fleets, as far as they are cheap to find
}

// Do implements fleet.Store.
func (t told) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	r, err := t.Store.Do(limited, b)
	if err == nil {
		return r, nil
	}
	return r, explained(errors.Join(err, t.heard.err()))
}

// A Refusal is an error that a store gives before it changes anything. Its text says what can be done.
type Refusal struct{ error }

// Unwrap returns the store's error.
func (r Refusal) Unwrap() error { return r.error }

// explained adds to an error of a store what can be done about it.
func explained(err error) error {
	const rights = "the user may not do this: docs/fleet.md names the rights"
	text := err.Error()
	for _, hint := range []struct{ says, do string }{
		{"NOPERM", rights},
		{"can't run this command", rights}, // as Redis 7.0 says it in a script
		{"42501", rights},
		{"Permissions Violation", rights},
		{"permissions violation", rights},
		{"READONLY", "this server is a replica: give the address of its master"},
		{"25006", "this server is a replica, or may only read: give the address of its master"},
		{"OOM command", "the server has no memory left"},
		{"NOREPLICAS", "the server has too few replicas, and takes no writes"},
		{"MISCONF", "the server can't write to its disk, and takes no writes"},
		{"NOAUTH", "the server wants a password: redis://USER:PASSWORD@HOST"},
		{"call Migrate", "the table is missing: --table names the one that the program gave to pgxfleet.New"},
		{"stream not found", "the bucket is missing: --bucket names the one that the program gave to natsfleet.Open"},
	} {
		if strings.Contains(text, hint.says) {
			return Refusal{fmt.Errorf("%s\n  %w", hint.do, err)}
		}
	}
	return err
}
