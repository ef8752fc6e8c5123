package proxycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/contrib/natsmsg/natsstore"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
)

// stores are those that are open, by the names that the file has for them. Routes and reloads share them.
type stores struct {
	mu   sync.Mutex
	open map[string]openStore
}

type openStore struct {
	idempotency.Store
	shut func()
}

// openTime bounds how long a server may take to answer at all.
const openTime = 10 * time.Second

// table is where records are in an SQL database.
const table = "gabion_idempotency"

// get opens a store, and makes its file or its table if that is missing.
func (s *stores) get(name string) (idempotency.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.open[name]; ok {
		return known.Store, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	store, shut, err := opened(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[string]openStore{}
	}
	sweeping, stop := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		idempotency.Sweep(sweeping, store, idempotency.SweepConfig{})
	}()
	s.open[name] = openStore{store, func() {
		stop()
		<-swept
		shut()
	}}
	return store, nil
}

// opener opens a store by its name.
type opener func(ctx context.Context, name string) (idempotency.Store, func(), error)

// openers are the kinds of stores, by what names begin with.
var openers = map[string]opener{
	"sqlite": sqlite, "bolt": bolt, "postgres": postgres, "postgresql": postgres, "redis": redis, "rediss": redis,
	"mysql": mysql, "mariadb": mysql, "nats": nats,
}

// kindOf is the kind of a store. A name without a scheme, or of a drive, is a file of SQLite.
func kindOf(name string) string {
	kind, _, is := strings.Cut(name, ":")
	if !is || filepath.IsAbs(name) {
		return "sqlite"
	}
	return kind
}

// known says what is wrong with the name of a store, and opens nothing.
func known(name string) error {
	kind := kindOf(name)
	if strings.Contains(strings.ToLower(name), "password=") && !strings.Contains(name, "://") { // as a file it would be made
		return errors.New("what has password= in it is no name of a file: write the URL of a server, such as postgres://")
	}
	if openers[kind] == nil {
		return fmt.Errorf("%q is not known: write a file's name, sqlite:FILE, bolt:FILE, or a URL with postgres://, mysql://, redis:// or nats://", kind)
	}
	if kind == "sqlite" || kind == "bolt" {
		return nil
	}
	if u, err := url.Parse(name); err != nil || u.Host == "" {
		return fmt.Errorf("what begins with %s: is no URL of a server", kind) // the error would have the password in it
	}
	return nil
}

func opened(ctx context.Context, name string) (idempotency.Store, func(), error) {
	if err := known(name); err != nil {
		return nil, nil, err
	}
	return openers[kindOf(name)](ctx, name)
}

func bolt(_ context.Context, name string) (idempotency.Store, func(), error) {
	s, err := boltstore.Open(strings.TrimPrefix(name, "bolt:"), boltstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.Close() }, nil
}

func sqlite(ctx context.Context, name string) (idempotency.Store, func(), error) {
	db, s, err := sqlitestore.Open(ctx, strings.TrimPrefix(name, "sqlite:"), table)
	if err != nil {
		return nil, nil, err
	}
	return s, func() { db.Close() }, nil
}

func redis(ctx context.Context, name string) (idempotency.Store, func(), error) {
	client, err := operator.Redis(name)
	if err != nil {
		return nil, nil, err
	}
	s, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return s, func() { _ = client.Close() }, nil
}

func postgres(ctx context.Context, dsn string) (idempotency.Store, func(), error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := pgxstore.New(pool, table)
	if err == nil {
		err = s.Migrate(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return s, pool.Close, nil
}

func mysql(ctx context.Context, name string) (idempotency.Store, func(), error) {
	config, err := operator.MySQL(name)
	if err != nil {
		return nil, nil, err
	}
	db, s, err := mysqlstore.Open(ctx, config.FormatDSN(), table)
	if err != nil {
		return nil, nil, err
	}
	return s, func() { db.Close() }, nil
}

// nats takes the bucket from the URL's path.
func nats(ctx context.Context, name string) (idempotency.Store, func(), error) {
	u, err := url.Parse(name)
	if err != nil {
		return nil, nil, err
	}
	bucket := cmp.Or(strings.Trim(u.Path, "/"), table)
	u.Path = ""
	js, err := operator.NATS(u.String(), "gabion proxy")
	if err != nil {
		return nil, nil, err
	}
	s, err := natsstore.Open(ctx, js, natsstore.Options{Bucket: bucket})
	if err != nil {
		js.Conn().Close()
		return nil, nil, err
	}
	return s, js.Conn().Close, nil
}

func (s *stores) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.open {
		one.shut()
	}
	s.open = nil
}

// closeOne closes a store, if it is open.
func (s *stores) closeOne(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.open[name]; ok {
		one.shut()
		delete(s.open, name)
	}
}
